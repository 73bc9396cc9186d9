//! Errors in the JSON of a message, with the path of the field.

use prost_reflect::{DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;

use super::protocol;

/// Parses a message from JSON. An unknown field is an error in the test, which would otherwise go unnoticed.
pub(super) fn read(kind: &MessageDescriptor, document: &Value) -> Result<DynamicMessage, String> {
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(kind.clone(), document, &options)
        .map_err(|error| innermost(kind, document, "").unwrap_or_else(|| error.to_string()))
}

/// Describes the error in the innermost field that has one; `None` if it is not in a field.
fn innermost(kind: &MessageDescriptor, document: &Value, path: &str) -> Option<String> {
    document.as_object()?.iter().find_map(|(name, value)| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let known = kind.get_field_by_json_name(name).or_else(|| kind.get_field_by_name(name));
        let Some(field) = known else { return unknown(kind, name, &path) };
        let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
        let options = DeserializeOptions::new().deny_unknown_fields(true);
        let wrong = DynamicMessage::deserialize_with_options(kind.clone(), alone, &options).err()?;
        let here =
            || format!("the field `{path}` does not take `{}`: {wrong}", super::shown(&value.to_string()));
        Some(below(&field, value, &path).unwrap_or_else(here))
    })
}

/// Descends into a field: one message, a list or a map of them.
fn below(field: &FieldDescriptor, value: &Value, path: &str) -> Option<String> {
    let Kind::Message(kind) = field.kind() else { return None };
    if field.is_map() {
        let Kind::Message(kind) = kind.map_entry_value_field().kind() else { return None };
        let mut entries = value.as_object()?.iter();
        return entries.find_map(|(key, value)| message(&kind, value, &format!("{path}.{key}")));
    }
    match value {
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| message(&kind, item, &format!("{path}[{index}]")))
        }
        value => message(&kind, value, path),
    }
}

fn message(kind: &MessageDescriptor, value: &Value, path: &str) -> Option<String> {
    // Well-known types have a JSON form of their own.
    if kind.full_name().starts_with("google.protobuf.") {
        return None;
    }
    innermost(kind, value, path)
}

fn unknown(kind: &MessageDescriptor, name: &str, path: &str) -> Option<String> {
    // The name of an extension is in brackets.
    if name.starts_with('[') {
        return None;
    }
    let known: Vec<String> = kind.fields().map(|field| field.json_name().to_owned()).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let guess = protocol::guess(name, &known);
    Some(format!("`{}` has no field `{path}`; {guess}", kind.full_name()))
}
