//! Examples of values: those in the description, or made of their schemas.

use serde_json::{Map, Value, json};

use super::Description;
use crate::import::document::{list, text};

/// Maximum nesting of schemas in an example.
const MAX_DEPTH: usize = 12;
/// Maximum number of values in an example.
const MAX_VALUES: usize = 2_000;

/// An example, and whether it is cut.
pub(super) struct Example {
    pub(super) value: Value,
    pub(super) is_cut: bool,
}

/// Returns the example of a media type or parameter: its own, or one made of its schema.
pub(super) fn of_content(description: &Description, content: &Value) -> Example {
    let mut maker = Maker { description, left: MAX_VALUES, is_cut: false };
    let named = content.get("examples").and_then(Value::as_object).and_then(|examples| {
        let first = description.resolved(examples.values().next()?);
        first.get("value")
    });
    let value = match content.get("example").or(named) {
        Some(given) => maker.copy(given),
        None => maker.of_schema(&content["schema"], MAX_DEPTH),
    };
    Example { value, is_cut: maker.is_cut }
}

struct Maker<'d> {
    description: &'d Description,
    left: usize,
    is_cut: bool,
}

impl Maker<'_> {
    /// Whether there is room for one more value.
    fn spend(&mut self) -> bool {
        self.is_cut |= self.left == 0;
        self.left = self.left.saturating_sub(1);
        !self.is_cut
    }

    fn copy(&mut self, value: &Value) -> Value {
        if !self.spend() {
            return Value::Null;
        }
        match value {
            Value::Array(items) => {
                items.iter().map_while(|item| (self.left > 0).then(|| self.copy(item))).collect()
            }
            Value::Object(members) => members
                .iter()
                .map_while(|(key, member)| (self.left > 0).then(|| (key.clone(), self.copy(member))))
                .collect(),
            scalar => scalar.clone(),
        }
    }

    fn of_schema(&mut self, schema: &Value, depth: usize) -> Value {
        if depth == 0 || !self.spend() {
            self.is_cut = true;
            return Value::Null;
        }
        let schema = self.description.resolved(schema);
        let given = ["example", "const", "default"].iter().find_map(|key| schema.get(key));
        let first = || ["examples", "enum"].iter().find_map(|key| list(schema, key).first());
        if let Some(given) = given.or_else(first) {
            return self.copy(given);
        }
        if let Some(first) = ["oneOf", "anyOf"].iter().find_map(|key| list(schema, key).first()) {
            return self.of_schema(first, depth - 1);
        }
        let mut members = Map::new();
        for part in list(schema, "allOf") {
            match self.of_schema(part, depth - 1) {
                Value::Object(inherited) => members.extend(inherited),
                Value::Null => {}
                other if members.is_empty() => return other,
                _ => {}
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if self.description.resolved(property)["readOnly"] != true && self.left > 0 {
                let value = self.of_schema(property, depth - 1);
                members.insert(name.clone(), value);
            }
        }
        if !members.is_empty() {
            return Value::Object(members);
        }
        match kind(schema) {
            "array" => json!([self.of_schema(&schema["items"], depth - 1)]),
            "string" => of_format(text(schema, "format")).into(),
            "integer" | "number" => {
                schema.get("minimum").filter(|least| least.is_number()).cloned().unwrap_or(json!(1))
            }
            "boolean" => Value::Bool(true),
            "null" => Value::Null,
            _ => json!({}),
        }
    }
}

/// The type of a schema; of several, the first that is not null.
fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if schema.get("items").is_some() => "array",
        _ => "object",
    }
}

fn of_format(format: &str) -> &'static str {
    match format {
        "date" => "2024-01-31",
        "date-time" => "2024-01-31T12:00:00Z",
        "time" => "12:00:00Z",
        "duration" => "P1D",
        "email" => "someone@example.com",
        "hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "url" => "https://example.com",
        "uuid" => "00000000-0000-4000-8000-000000000000",
        "byte" => "dGV4dA==",
        _ => "text",
    }
}
