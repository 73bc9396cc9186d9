//! Every attribute of a span as text, including the special ones that no sender sets.
//!
//! Properties of a span have names that selectors and assertions can use, `tracetest.span.name` and so on. Senders
//! cannot shadow them: the special attribute replaces a sent one of the same name.

use super::span::{Attributes, Span};
use crate::lang::special_attributes;
use crate::value::{Value, base64};

/// Returns every attribute of a span as text, sorted by name: its own, its scope's, its resource's and the special
/// ones.
///
/// The kind is left out: it is a separate field where these texts are shown.
pub fn texts(span: &Span) -> Vec<(String, String)> {
    let mut all = Attributes::default();
    for attributes in [&span.resource.attributes, &span.scope.attributes, &span.attributes] {
        for (name, value) in attributes.iter() {
            all.set(name, value.clone());
        }
    }
    for (name, value) in special_attributes(span) {
        all.set(name, value);
    }
    all.iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
}

/// Whether the name is reserved: no sender's attribute is shown under it.
pub fn is_special(name: &str) -> bool {
    name == "span.events" || name.starts_with("tracetest.")
}

/// Converts a value to text as the API shows it: texts bare, durations in nanoseconds, lists and objects as JSON,
/// bytes in base64.
pub fn text(value: &Value) -> String {
    match value {
        Value::Duration(nanos) => nanos.to_string(),
        Value::List(_) | Value::Object(_) => json(value).to_string(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Bytes(_) => value.text().into_owned(),
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) | Value::Duration(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::String(text) => (**text).into(),
        Value::Bytes(bytes) => base64(bytes).into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Object(pairs) => pairs.iter().map(|(name, value)| (name.to_string(), json(value))).collect(),
    }
}
