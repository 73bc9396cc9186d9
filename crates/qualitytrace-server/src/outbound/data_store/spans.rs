//! Parts of spans as data stores write them: times, kinds, and JSON that is flattened into attributes.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Map, Value};

use crate::receive::trace_files::collected;

/// Reads a time in RFC 3339, in nanoseconds since the epoch.
pub(super) fn rfc3339(key: &str, text: &str) -> Result<u64, String> {
    let parsed = text.parse::<jiff::Timestamp>().ok();
    let nanos = parsed.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
    nanos.ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("`{key}` is `{shown}`, not a time such as 2026-01-31T12:00:00Z")
    })
}

/// Reads the kind of a span: `SPAN_KIND_SERVER`, `Server`, `SERVER`.
pub(super) fn kind(text: &str) -> SpanKind {
    let name = text.trim().to_ascii_lowercase();
    match name.strip_prefix("span_kind_").unwrap_or(&name) {
        "server" => SpanKind::Server,
        "client" => SpanKind::Client,
        "producer" => SpanKind::Producer,
        "consumer" => SpanKind::Consumer,
        "internal" => SpanKind::Internal,
        _ => SpanKind::Unspecified,
    }
}

/// Copies of a name at one time: flattened, in attributes, and in the key of a resource.
const COPIES: u64 = 6;

/// Returns what the names take when a document is flattened: the name of an object is repeated for each of its members.
pub(super) fn flattened_weight(fields: &Map<String, Value>) -> u64 {
    fn names(prefix: u64, fields: &Map<String, Value>) -> u64 {
        let of = |(key, value): (&String, &Value)| {
            let name = prefix + 1 + key.len() as u64;
            prefix + value.as_object().map_or(0, |inner| names(name, inner))
        };
        fields.iter().map(of).sum()
    }
    COPIES * names(0, fields)
}

/// Flattens objects into names with dots; lists keep their JSON. The depth is that of the JSON, which its parser limits.
pub(super) fn flattened(fields: &Map<String, Value>) -> Vec<(String, Value)> {
    fn add(prefix: &str, fields: &Map<String, Value>, out: &mut Vec<(String, Value)>) {
        for (key, value) in fields {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                Value::Object(inner) => add(&name, inner, out),
                other => out.push((name, other.clone())),
            }
        }
    }
    let mut out = Vec::new();
    add("", fields, &mut out);
    out
}

/// Returns the attributes of an object, flattened.
pub(super) fn attributes(value: Option<&Value>) -> Vec<KeyValue> {
    let Some(Value::Object(fields)) = value else { return Vec::new() };
    flattened(fields).iter().map(|(key, value)| collected::json(key, value)).collect()
}
