//! Documents in JSON or YAML, within limits.

use qualitytrace_config::tree::{Node, Shape};
use qualitytrace_config::yaml::{self, AliasSpan, Limits};
use serde_json::{Map, Value};

use super::ImportError;
use crate::lang::limits::{MAX_DEFINITION_DEPTH, MAX_DEFINITION_NODES};

/// Parses JSON.
pub(super) fn json(text: &str, what: &'static str) -> Result<Value, ImportError> {
    // Measured: by the caller of `import`, which knows the size of the text.
    serde_json::from_str(text).map_err(|error| ImportError::Unreadable { what, why: error.to_string() })
}

/// Parses JSON, or YAML with one document.
pub(super) fn json_or_yaml(text: &str, what: &'static str) -> Result<Value, ImportError> {
    if text.trim_start().starts_with('{') {
        return json(text, what);
    }
    let limits = Limits { depth: MAX_DEFINITION_DEPTH, nodes: MAX_DEFINITION_NODES };
    let unreadable = |why: String| ImportError::Unreadable { what, why };
    let document = yaml::documents(text, limits, AliasSpan::Alias).into_iter().next();
    let document = document.ok_or_else(|| unreadable("it is empty".to_owned()))?;
    document.root.map(|root| value(&root)).map_err(|error| {
        let line = text.get(..error.span.start).unwrap_or_default().matches('\n').count() + 1;
        let why = match error.kind {
            yaml::ErrorKind::Syntax(why) => why,
            other => format!("{other:?}"),
        };
        unreadable(format!("line {line}: {why}"))
    })
}

fn value(node: &Node) -> Value {
    match &node.shape {
        Shape::Null => Value::Null,
        Shape::List(items) => items.iter().map(value).collect(),
        Shape::Map(entries) => {
            let members: Map<String, Value> =
                entries.iter().map(|entry| (entry.key.clone(), value(&entry.value))).collect();
            Value::Object(members)
        }
        Shape::Scalar(scalar) => match (scalar.as_bool(), scalar.as_int(), scalar.text.parse::<f64>()) {
            (Some(flag), ..) => flag.into(),
            (None, Some(number), _) => number.into(),
            (None, None, Ok(number)) if !scalar.is_text && number.is_finite() => number.into(),
            _ => scalar.text.clone().into(),
        },
    }
}

/// Returns the text under a key; empty if there is none.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a scalar as text.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the items of the list under a key.
pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
