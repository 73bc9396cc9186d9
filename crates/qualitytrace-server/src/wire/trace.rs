//! A trace: its spans in the order of the tree, each with its depth, ready to be drawn.

use base64::Engine;
use qualitytrace_core::trace;
use qualitytrace_core::value::Value;
use schemars::JsonSchema;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};

use super::lazy::Lazy;

/// A trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// Its id.
    pub trace_id: String,
    /// The spans: parents before children, siblings by start time.
    pub spans: Vec<Span>,
}

/// A span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// Its id; empty if it was sent without one.
    pub id: String,
    /// The id of its parent; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parent_id: String,
    /// The number of its ancestors.
    pub depth: usize,
    /// Its name.
    pub name: String,
    /// The service that it belongs to.
    pub service: String,
    /// Its kind, for example `server`.
    pub kind: String,
    /// `unset`, `ok` or `error`.
    pub status: String,
    /// Nanoseconds since the epoch.
    pub start: u64,
    /// Nanoseconds since the epoch; equal to the start while it is running.
    pub end: u64,
    /// Its own attributes, with their types.
    pub attributes: serde_json::Map<String, serde_json::Value>,
}

/// A [`Trace`] that is built while it is serialized.
#[derive(Debug)]
pub struct Document(pub trace::Trace);

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let trace = &self.0;
        let spans = Lazy(|| {
            let spans = trace.spans().iter().enumerate();
            spans.map(|(at, span)| shown(span, trace.depth(at)))
        });
        let mut document = serializer.serialize_struct("Trace", 2)?;
        document.serialize_field("traceId", &trace.id().to_string())?;
        document.serialize_field("spans", &spans)?;
        document.end()
    }
}

/// Returns the status of a span and its message.
pub(super) fn status(span: &trace::Span) -> (&'static str, &str) {
    let Some(status) = &span.status else { return ("unset", "") };
    let code = match status.code {
        trace::StatusCode::Unset => "unset",
        trace::StatusCode::Ok => "ok",
        trace::StatusCode::Error => "error",
    };
    (code, &status.message)
}

fn shown(span: &trace::Span, depth: usize) -> Span {
    let (status, _) = status(span);
    Span {
        id: span.id.map(|id| id.to_string()).unwrap_or_default(),
        parent_id: span.parent.map(|id| id.to_string()).unwrap_or_default(),
        depth,
        name: span.name.to_string(),
        service: span.service().to_owned(),
        kind: span.kind.as_str().to_owned(),
        status: status.to_owned(),
        start: span.start.as_nanos(),
        end: span.end.unwrap_or(span.start).as_nanos(),
        attributes: span.attributes.iter().map(|(name, value)| (name.to_owned(), json(value))).collect(),
    }
}

/// Converts a value to JSON of its type.
pub(super) fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) | Value::Duration(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::String(text) => (**text).into(),
        Value::Bytes(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes).into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Object(pairs) => pairs.iter().map(|(name, value)| (name.to_string(), json(value))).collect(),
    }
}
