//! A trace in OTLP JSON, as it was received.

use qualitytrace_core::id::TraceId;
use serde_json::{Value, json};

use crate::source::Source;
use crate::store;

/// Every request that brought spans of the trace, put together.
pub async fn document(source: &Source, trace: TraceId) -> Result<Value, store::Error> {
    let mut resource_spans = Vec::new();
    for request in source.requests(trace).await? {
        let shown = serde_json::to_value(&request).unwrap_or_default();
        if let Some(parts) = shown.get("resourceSpans").and_then(Value::as_array) {
            resource_spans.extend(parts.iter().cloned());
        }
    }
    Ok(json!({ "resourceSpans": resource_spans }))
}
