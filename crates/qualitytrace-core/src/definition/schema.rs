//! The JSON Schema of definition files, and which keys may stand at a place of a file.
//!
//! It is generated from the types that resources are written with, so that a changed key changes the schema. Files are
//! read more liberally than they are written: a number may stand for a text, a key may have no value, and some keys
//! and types have older names. The schema allows what is read without a diagnostic.

use serde_json::{Map, Value, json};

use super::Kind;
use super::write::schemas;

/// Where the parts of the schema are.
const PARTS: &str = "/$defs";

/// Older names of keys that are read without a warning, by part: the name, and the key that it stands for.
const OLDER_KEYS: [(&str, &[(&str, &str)]); 1] = [(
    "TriggerSpec",
    &[("http", "httpRequest"), ("shell", "exec"), ("playwrightengine", "playwrightEngine")],
)];

/// Keys that come first in a mapping, in this order.
const FIRST: [&str; 3] = ["id", "name", "description"];

/// Levels of references and alternatives that are followed at one place.
const MAX_REFERENCES: usize = 8;

/// Returns the JSON Schema (2020-12) of a document of a definition file: of one kind, or of any.
pub fn file_schema(kind: Option<Kind>) -> Value {
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|known| kind.is_none_or(|kind| kind == *known)).collect();
    let names: Vec<&str> = kinds.iter().flat_map(|kind| type_names(*kind)).copied().collect();
    let mut parts = Value::Object(schemas(PARTS));
    add_older_keys(&mut parts);
    relax(&mut parts);
    let branches: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            json!({
                "if": { "properties": { "type": { "enum": type_names(*kind) } } },
                "then": { "properties": { "spec": { "$ref": part(*kind) } } },
            })
        })
        .collect();
    let title = kind.map_or("Definition of Qualitytrace", Kind::as_str);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "type": "object",
        "properties": {
            "type": { "description": "What the document defines.", "enum": names },
            "spec": { "description": "Its content." },
        },
        "required": ["type", "spec"],
        "additionalProperties": false,
        "allOf": branches,
        "$defs": parts,
    })
}

/// The names of a kind in files, the current one first.
fn type_names(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Test => &["Test"],
        Kind::TestSuite => &["TestSuite", "Transaction"],
        Kind::VariableSet => &["VariableSet", "Environment"],
        Kind::DataStore => &["DataStore"],
        Kind::PollingProfile => &["PollingProfile"],
        Kind::Analyzer => &["Analyzer", "Linter"],
        Kind::TestRunner => &["TestRunner"],
        Kind::Config => &["Config"],
        Kind::Demo => &["Demo"],
    }
}

fn part(kind: Kind) -> String {
    format!("#{PARTS}/{}Spec", kind.as_str())
}

fn add_older_keys(parts: &mut Value) {
    for (part, names) in OLDER_KEYS {
        let Some(keys) = parts[part]["properties"].as_object_mut() else { continue };
        for (older, current) in names {
            if let Some(schema) = keys.get(*current).cloned() {
                keys.insert((*older).to_owned(), schema);
            }
        }
    }
}

/// Allows what the reader accepts: no value for any key, and numbers and truth values for texts.
fn relax(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(relax),
        Value::Object(keys) => {
            if !keys.contains_key("const") && !keys.contains_key("enum") {
                relax_type(keys);
            }
            for (key, inner) in keys.iter_mut() {
                match inner {
                    // A key that is called `type` is no `type` of the schema.
                    Value::Object(properties) if key == "properties" => {
                        properties.values_mut().for_each(relax);
                    }
                    _ => relax(inner),
                }
            }
        }
        _ => {}
    }
}

fn relax_type(keys: &mut Map<String, Value>) {
    let mut types: Vec<String> = match keys.get("type") {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(several)) => {
            several.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
        }
        _ => return,
    };
    if types.iter().any(|known| known == "string") {
        types.extend(["number", "boolean"].map(ToOwned::to_owned));
    }
    types.push("null".to_owned());
    let mut kept: Vec<String> = Vec::new();
    for name in types {
        if !kept.contains(&name) {
            kept.push(name);
        }
    }
    keys.insert("type".to_owned(), json!(kept));
}

/// A place in definition files, and what may stand there.
#[derive(Debug, Clone)]
pub struct Place<'s> {
    schema: &'s Value,
    /// The alternatives at this place, with references followed.
    alternatives: Vec<&'s Value>,
}

/// A key that may stand at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key<'s> {
    /// Its name.
    pub name: &'s str,
    /// What it is, if that is described.
    pub description: Option<&'s str>,
    /// Whether its value is a mapping or a list.
    pub is_nested: bool,
}

impl<'s> Place<'s> {
    /// The top of a document. `schema` is what [`file_schema`] returns.
    pub fn top(schema: &'s Value) -> Self {
        Self { schema, alternatives: vec![schema] }
    }

    /// The content of `spec` of a kind.
    pub fn spec(schema: &'s Value, kind: Kind) -> Self {
        let name = format!("{}Spec", kind.as_str());
        Self::of(schema, schema["$defs"].get(&name))
    }

    /// The value of a key of this place; nothing is known of an unknown one.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let values = self.alternatives.iter().filter_map(|one| one["properties"].get(key));
        Self::of(self.schema, values)
    }

    /// An item of the list at this place.
    #[must_use]
    pub fn item(&self) -> Self {
        Self::of(self.schema, self.alternatives.iter().filter_map(|one| one.get("items")))
    }

    /// The keys of the mapping at this place, in the order that files have them in.
    pub fn keys(&self) -> Vec<Key<'s>> {
        let mut keys: Vec<Key<'s>> = Vec::new();
        let entries = self.alternatives.iter().filter_map(|one| one["properties"].as_object());
        for (name, schema) in entries.flatten() {
            if keys.iter().all(|known| known.name != name) {
                let value = Self::of(self.schema, [schema]);
                let is_nested = value
                    .alternatives
                    .iter()
                    .any(|one| one.get("properties").is_some() || one.get("items").is_some());
                let description = schema["description"].as_str();
                keys.push(Key { name, description, is_nested });
            }
        }
        keys.sort_by_key(|key| FIRST.iter().position(|first| *first == key.name).unwrap_or(FIRST.len()));
        // A request is read from its head to its body.
        let place = |name: &str| keys.iter().position(|key| key.name == name);
        if let (Some(headers), Some(body)) = (place("headers"), place("body"))
            && body < headers
        {
            let key = keys.remove(headers);
            keys.insert(body, key);
        }
        keys
    }

    /// The values that the schema lists for this place.
    pub fn values(&self) -> Vec<&'s str> {
        let listed = self.alternatives.iter().flat_map(|one| {
            let several = one["enum"].as_array().into_iter().flatten();
            several.chain(one.get("const")).filter_map(Value::as_str)
        });
        listed.collect()
    }

    fn of(schema: &'s Value, values: impl IntoIterator<Item = &'s Value>) -> Self {
        let mut alternatives = Vec::new();
        for value in values {
            follow(schema, value, MAX_REFERENCES, &mut alternatives);
        }
        Self { schema, alternatives }
    }
}

/// Collects a schema, what it refers to, and its alternatives.
fn follow<'s>(root: &'s Value, schema: &'s Value, depth: usize, found: &mut Vec<&'s Value>) {
    if depth == 0 {
        return;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        if let Some(target) = reference.strip_prefix('#').and_then(|path| root.pointer(path)) {
            follow(root, target, depth - 1, found);
        }
        return;
    }
    found.push(schema);
    for key in ["anyOf", "oneOf"] {
        for one in schema[key].as_array().into_iter().flatten() {
            follow(root, one, depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_part() {
        let schema = file_schema(None);
        for kind in Kind::ALL {
            assert!(!Place::spec(&schema, kind).keys().is_empty(), "{}", kind.as_str());
            assert_eq!(type_names(kind)[0], kind.as_str());
            for name in type_names(kind).iter().filter(|name| **name != "Environment") {
                assert_eq!(Kind::named(name), Some(kind));
            }
        }
    }

    /// The properties of a schema without a sentence, with where they stand.
    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        let Some(keys) = schema.as_object() else {
            let items = schema.as_array().into_iter().flatten();
            return items.for_each(|item| undescribed(item, path, found));
        };
        for (name, property) in keys.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let is_told = property["description"].as_str().is_some_and(|text| text.ends_with('.'));
            if !is_told {
                found.push(format!("{path}.{name}"));
            }
        }
        for (key, inner) in keys {
            undescribed(inner, &format!("{path}/{key}"), found);
        }
    }

    #[test]
    fn every_key_has_a_sentence() {
        let schema = file_schema(None);
        let mut found = Vec::new();
        undescribed(&schema["$defs"], "", &mut found);
        for key in ["type", "spec"] {
            assert!(schema["properties"][key]["description"].is_string(), "{key}");
        }
        assert_eq!(found, [] as [String; 0]);
    }

    #[test]
    fn keys_are_found_through_references_and_lists() {
        let schema = file_schema(None);
        let test = Place::spec(&schema, Kind::Test);
        let names =
            |place: &Place<'_>| place.keys().iter().map(|key| key.name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&test.key("specs").item()), ["name", "selector", "within", "assertions"]);
        let request = names(&test.key("trigger").key("httpRequest"));
        assert_eq!(request[..4], ["method", "url", "headers", "body"]);
        assert_eq!(names(&test.key("nothing")), Vec::<String>::new());
        let gates = Place::spec(&schema, Kind::TestRunner).key("requiredGates").item();
        assert_eq!(gates.values(), ["analyzer-score", "analyzer-rules", "test-specs"]);
    }
}
