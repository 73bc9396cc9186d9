//! OTLP in JSON, in the spelling of the specification and in that of some exporters.
//!
//! The specification asks for camel-case keys and numbers for enumerations. Some exporters write the protobuf names
//! instead, for both; other receivers accept that, so this one does.

mod weight;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(super) use weight::Weight;

use super::non_finite;
use crate::base::decode::{DecodeError, Room};

/// Texts that only a body with protobuf names contains.
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

/// An export request that JSON is decoded to.
pub trait Exported: DeserializeOwned {
    /// Whether NaN and infinity, which JSON lacks, are read as numbers; otherwise they are texts.
    const HAS_ALL_NUMBERS: bool = false;

    /// Completes what was read.
    fn complete(&mut self) {}
}

impl Exported for ExportTraceServiceRequest {
    const HAS_ALL_NUMBERS: bool = true;

    fn complete(&mut self) {
        non_finite::restore(self);
    }
}

impl Exported for ExportLogsServiceRequest {}

impl Exported for ExportMetricsServiceRequest {}

/// Decodes an export request.
pub fn decode<T: Exported>(body: &[u8]) -> Result<T, serde_json::Error> {
    decode_if(body, || Ok(()))
}

/// Decodes an export request of spans or logs within this room.
pub(crate) fn decode_within<T: Exported>(body: &[u8], room: &mut impl Room) -> Result<T, DecodeError> {
    let weight = Weight::of(body, false);
    room.take(weight.decoded + body.len() as u64)?;
    let kept = room.taken();
    let decoded = decode_if(body, || room.take(weight.as_values).map_err(DecodeError::from));
    // The tree of values is gone by now.
    room.shrink_to(kept);
    decoded
}

/// Decodes an export request. `may_be_values` says whether it may be read as a tree of values, if it must be.
pub(super) fn decode_if<T: Exported, E: From<serde_json::Error>>(
    body: &[u8],
    may_be_values: impl FnOnce() -> Result<(), E>,
) -> Result<T, E> {
    let other_spelling =
        std::str::from_utf8(body).is_ok_and(|body| SIGNS.iter().any(|sign| body.contains(sign)));
    let strict = if other_spelling { None } else { Some(serde_json::from_slice::<T>(body)) };
    match strict {
        Some(Ok(request)) => Ok(request),
        // Nulls and numbers in quotes are allowed too, but rare enough to be tried last.
        Some(Err(error)) => {
            may_be_values()?;
            lenient(body).map_err(|_| error.into())
        }
        None => {
            may_be_values()?;
            Ok(lenient(body)?)
        }
    }
}

fn lenient<T: Exported>(body: &[u8]) -> Result<T, serde_json::Error> {
    let respelled = respelled(serde_json::from_slice(body)?, T::HAS_ALL_NUMBERS);
    let mut request: T = serde_json::from_value(respelled)?;
    request.complete();
    Ok(request)
}

/// Rewrites keys and values in the specification's spelling. Every key of OTLP in JSON is the name of a field: users'
/// own names are values. `marks` says whether numbers that JSON lacks are marked.
fn respelled(value: Value, marks: bool) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(|item| respelled(item, marks)).collect(),
        Value::Object(fields) => {
            let mut object = Map::new();
            for (key, value) in fields {
                if value.is_null() {
                    continue;
                }
                let mut key = camel(&key);
                // JSON has no such numbers.
                let other = value.as_str().filter(|_| key == "doubleValue").and_then(non_finite::marked);
                if let Some(marked) = other {
                    "stringValue".clone_into(&mut key);
                    let text = if marks { Value::String(marked) } else { value };
                    object.insert(key, text);
                    continue;
                }
                let value = number(&key, &value).unwrap_or_else(|| respelled(value, marks));
                object.insert(key, value);
            }
            Value::Object(object)
        }
        scalar => scalar,
    }
}

/// Returns the number for the name of an enumeration value, or for a number in quotes.
fn number(key: &str, value: &Value) -> Option<Value> {
    let text = value.as_str()?;
    match key {
        "kind" => SpanKind::from_str_name(text).map(|kind| i32::from(kind).into()),
        "code" => StatusCode::from_str_name(text).map(|code| i32::from(code).into()),
        "severityNumber" => SeverityNumber::from_str_name(text).map(|number| i32::from(number).into()),
        "aggregationTemporality" => {
            AggregationTemporality::from_str_name(text).map(|kind| i32::from(kind).into())
        }
        "doubleValue" | "asDouble" => text.parse::<f64>().ok().map(Value::from),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(span: &str) -> Result<String, String> {
        let body = format!(r#"{{"resource_spans": [{{"scopeSpans": [{{"spans": [{span}]}}]}}]}}"#);
        let request: ExportTraceServiceRequest =
            decode(body.as_bytes()).map_err(|error| error.to_string())?;
        let span = &request.resource_spans[0].scope_spans[0].spans[0];
        let value = span.attributes.first().and_then(|attribute| attribute.value.as_ref()?.value.as_ref());
        Ok(format!("{} {} {value:?}", span.kind, span.start_time_unix_nano))
    }

    #[test]
    fn protobuf_names_are_read() {
        let span = r#"{"kind": "SPAN_KIND_CLIENT", "start_time_unix_nano": "5", "attributes": [{"key": "a_b",
            "value": {"double_value": "2.5"}}], "end_time_unix_nano": null}"#;
        assert_eq!(decoded(span).unwrap(), "3 5 Some(DoubleValue(2.5))");
    }

    #[test]
    fn numbers_that_json_lacks_are_numbers() {
        let span = r#"{"attributes": [{"key": "a", "value": {"doubleValue": "NaN"}}]}"#;
        assert_eq!(decoded(span).unwrap(), "0 0 Some(DoubleValue(NaN))");
        let text = r#"{"attributes": [{"key": "a", "value": {"stringValue": "NaN"}}]}"#;
        assert_eq!(decoded(text).unwrap(), r#"0 0 Some(StringValue("NaN"))"#);
    }
}
