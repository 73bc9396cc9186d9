//! OTLP in JSON, as the specification writes it and as senders write it.
//!
//! The specification asks for camel-case keys and numbers for enumerations. Some senders write the protobuf names
//! instead, for both; other receivers take that, so it is taken here.

use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What only a body in the other spelling holds.
const SIGNS: [&str; 9] = [
    "\"resource_",
    "\"scope_",
    "\"trace_id\"",
    "\"span_id\"",
    "_unix_nano\"",
    "_value\"",
    "\"SPAN_KIND_",
    "\"STATUS_CODE_",
    "_NUMBER_",
];

/// Reads an export request.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, serde_json::Error> {
    let other_spelling =
        std::str::from_utf8(body).is_ok_and(|body| SIGNS.iter().any(|sign| body.contains(sign)));
    if !other_spelling {
        return serde_json::from_slice(body);
    }
    serde_json::from_value(respelled(serde_json::from_slice(body)?))
}

/// The same in the specification's spelling. Every key of OTLP in JSON is the name of a field: users' own names are
/// values.
fn respelled(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(respelled).collect(),
        Value::Object(fields) => {
            let mut object = Map::new();
            for (key, value) in fields {
                let key = camel(&key);
                let value = number(&key, &value).map_or_else(|| respelled(value), Value::from);
                object.insert(key, value);
            }
            Value::Object(object)
        }
        scalar => scalar,
    }
}

/// The number of an enumeration's name.
fn number(key: &str, value: &Value) -> Option<i32> {
    let name = value.as_str()?;
    match key {
        "kind" => SpanKind::from_str_name(name).map(i32::from),
        "code" => StatusCode::from_str_name(name).map(i32::from),
        "severityNumber" => SeverityNumber::from_str_name(name).map(i32::from),
        "aggregationTemporality" => AggregationTemporality::from_str_name(name).map(i32::from),
        _ => None,
    }
}

fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        out.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}
