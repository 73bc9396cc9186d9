//! A trace in the form of Jaeger's query API.

use qualitytrace_core::trace::{Span, Trace, special};
use serde_json::{Map, Value, json};

/// The document that Jaeger's pages can open.
pub fn document(trace: &Trace) -> Value {
    let id = trace.id().to_string();
    let mut services: Vec<&str> = trace.spans().iter().map(Span::service).collect();
    services.sort_unstable();
    services.dedup();
    let process = |span: &Span| {
        let at = services.iter().position(|name| *name == span.service()).unwrap_or_default();
        format!("p{}", at + 1)
    };
    let spans: Vec<Value> = trace.spans().iter().map(|one| span(&id, one, &process(one))).collect();
    let processes: Map<String, Value> = services
        .iter()
        .enumerate()
        .map(|(at, name)| (format!("p{}", at + 1), json!({ "serviceName": name, "tags": [] })))
        .collect();
    json!({ "data": [{ "traceID": id, "spans": spans, "processes": processes }] })
}

fn span(trace: &str, span: &Span, process: &str) -> Value {
    let id = span.id.map(|id| id.to_string()).unwrap_or_default();
    let references: Vec<Value> = span
        .parent
        .iter()
        .map(|parent| json!({ "refType": "CHILD_OF", "traceID": trace, "spanID": parent.to_string() }))
        .collect();
    let tag = |key: &str, value: String| json!({ "key": key, "type": "string", "value": value });
    let mut tags: Vec<Value> =
        span.attributes.iter().map(|(name, value)| tag(name, special::text(value))).collect();
    tags.push(tag("span.kind", span.kind.as_str().to_owned()));
    let logs: Vec<Value> = span
        .events
        .iter()
        .map(|event| {
            let own = std::iter::once(tag("event", event.name.to_string()));
            let fields: Vec<Value> = own
                .chain(event.attributes.iter().map(|(name, value)| tag(name, special::text(value))))
                .collect();
            json!({ "timestamp": event.time.as_nanos() / 1000, "fields": fields })
        })
        .collect();
    json!({
        "traceID": trace,
        "spanID": id,
        "operationName": span.name.to_string(),
        "references": references,
        "startTime": span.start.as_nanos() / 1000,
        "duration": u64::try_from(span.duration().as_micros()).unwrap_or(u64::MAX),
        "tags": tags,
        "logs": logs,
        "processID": process,
    })
}
