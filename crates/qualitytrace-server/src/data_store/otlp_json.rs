//! OTLP in the JSON of data stores: Tempo's `batches`, Jaeger's `result`, ids in hexadecimal or base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use serde_json::{Map, Value};

use crate::otlp::json;

/// Members of an answer that hold the list of resources.
const WRAPPERS: [&str; 2] = ["result", "trace"];

/// Reads the spans of an answer.
pub(super) fn read(body: &[u8]) -> Result<ExportTraceServiceRequest, String> {
    let mut resources = Vec::new();
    // Jaeger's gateway streams one document after the other.
    for document in serde_json::Deserializer::from_slice(body).into_iter::<Value>() {
        collect(document.map_err(|error| error.to_string())?, &mut resources)?;
    }
    let mut request = Value::Array(resources);
    respell(&mut request)?;
    let whole = Map::from_iter([("resourceSpans".to_owned(), request)]);
    json::decode(Value::Object(whole).to_string().as_bytes()).map_err(|error| error.to_string())
}

/// Adds the resources of a document.
fn collect(document: Value, resources: &mut Vec<Value>) -> Result<(), String> {
    let Value::Object(mut fields) = document else { return Err("it is no JSON object".to_owned()) };
    for wrapper in WRAPPERS {
        if let Some(inner @ Value::Object(_)) = fields.remove(wrapper) {
            collect(inner, resources)?;
        }
    }
    for key in ["batches", "resourceSpans", "resource_spans"] {
        match fields.remove(key) {
            Some(Value::Array(items)) => resources.extend(items),
            Some(Value::Null) | None => {}
            Some(_) => return Err(format!("`{key}` is no list")),
        }
    }
    Ok(())
}

/// Rewrites old names of fields, and ids in base64. The depth is that of the JSON, which its parser limits.
fn respell(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(respell),
        Value::Object(fields) => {
            for (old, new) in [
                ("instrumentationLibrarySpans", "scopeSpans"),
                ("instrumentationLibrary", "scope"),
                ("ilSpans", "scopeSpans"),
            ] {
                if let Some(found) = fields.remove(old) {
                    fields.insert(new.to_owned(), found);
                }
            }
            for (key, value) in fields.iter_mut() {
                let bytes = match key.as_str() {
                    "traceId" | "trace_id" => 16,
                    "spanId" | "span_id" | "parentSpanId" | "parent_span_id" => 8,
                    _ => {
                        respell(value)?;
                        continue;
                    }
                };
                if let Value::String(text) = value {
                    *text = id(key, text, bytes)?;
                }
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Returns an id in hexadecimal.
fn id(key: &str, text: &str, bytes: usize) -> Result<String, String> {
    if text.is_empty() || text.len() == 2 * bytes && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text.to_owned());
    }
    let decoded = STANDARD.decode(text).ok().filter(|decoded| decoded.len() <= bytes && decoded.len() >= 8);
    let decoded = decoded.ok_or_else(|| {
        let shown: String = text.chars().take(2 * bytes + 8).collect();
        format!("`{key}` is `{shown}`, neither {bytes} bytes in hexadecimal nor in base64")
    })?;
    let padding = "00".repeat(bytes - decoded.len());
    Ok(padding + &const_hex::encode(decoded))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn spans(document: &Value) -> Result<Vec<(String, String)>, String> {
        let request = read(document.to_string().as_bytes())?;
        let spans = request.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans);
        Ok(spans.map(|span| (const_hex::encode(span.trace_id), const_hex::encode(span.span_id))).collect())
    }

    #[test]
    fn an_answer_that_nests_without_end_is_refused() {
        for text in ["{\"batches\":".repeat(50_000), "[".repeat(100_000), "{\"result\":".repeat(200)] {
            assert!(read(text.as_bytes()).is_err());
        }
    }

    proptest! {
        #[test]
        fn ids_are_the_same_in_hexadecimal_and_in_base64(trace in any::<[u8; 16]>(), span in any::<[u8; 8]>()) {
            let hex = (const_hex::encode(trace), const_hex::encode(span));
            let document = |trace: &str, span: &str| json!({ "batches": [{ "scopeSpans": [{ "spans": [
                { "traceId": trace, "spanId": span, "startTimeUnixNano": "1" }] }] }] });
            prop_assert_eq!(spans(&document(&hex.0, &hex.1)).unwrap(), std::slice::from_ref(&hex));
            let base64 = (STANDARD.encode(trace), STANDARD.encode(span));
            prop_assert_eq!(spans(&document(&base64.0, &base64.1)).unwrap(), [hex]);
        }
    }
}
