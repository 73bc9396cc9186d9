//! Traces that were recorded from the demo shop, one in each line of a file.

use std::sync::Arc;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{
    Attributes, Dropped, Resource, Scope, Span, SpanKind, Status, StatusCode, Trace,
};
use qualitytrace_core::value::Value as Runtime;
use serde_json::Value;

/// Returns the recorded traces.
pub(super) fn traces() -> Vec<Trace> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/traces/shop.jsonl");
    let text = std::fs::read_to_string(file).expect("the traces are there");
    text.lines().map(|line| trace(&serde_json::from_str(line).expect("a line is JSON"))).collect()
}

fn trace(recorded: &Value) -> Trace {
    let id = text(&recorded["trace"]).parse().expect("a trace id");
    let start: u64 = text(&recorded["start"]).parse().expect("nanoseconds");
    let resources: Vec<Arc<Resource>> = list(&recorded["resources"])
        .map(|of| Arc::new(Resource { attributes: attributes(of), ..Resource::default() }))
        .collect();
    Trace::assemble(id, list(&recorded["spans"]).map(|recorded| span(recorded, start, &resources)))
}

fn span(recorded: &Value, start: u64, resources: &[Arc<Resource>]) -> Span {
    let time = |name: &str| Timestamp::from_nanos(start + recorded[name].as_u64().expect("nanoseconds"));
    let code = match recorded["status"].as_str() {
        Some("ok") => Some(StatusCode::Ok),
        Some("error") => Some(StatusCode::Error),
        _ => None,
    };
    let resource = usize::try_from(recorded["resource"].as_u64().expect("an index")).expect("small");
    Span {
        id: text(&recorded["id"]).parse().ok(),
        parent: text(&recorded["parent"]).parse().ok(),
        name: text(&recorded["name"]).into(),
        kind: match text(&recorded["kind"]) {
            "server" => SpanKind::Server,
            "client" => SpanKind::Client,
            "producer" => SpanKind::Producer,
            "consumer" => SpanKind::Consumer,
            _ => SpanKind::Internal,
        },
        start: time("start"),
        end: Some(time("end")),
        status: code.map(|code| Status { code, ..Status::default() }),
        attributes: attributes(&recorded["attributes"]),
        events: vec![],
        links: vec![],
        resource: Arc::clone(&resources[resource]),
        scope: Arc::new(Scope { name: text(&recorded["scope"]).into(), ..Scope::default() }),
        trace_state: "".into(),
        flags: 0,
        dropped: Dropped::default(),
    }
}

fn attributes(recorded: &Value) -> Attributes {
    let value = |value: &Value| match value {
        Value::Bool(truth) => Runtime::Bool(*truth),
        Value::Number(number) => {
            number.as_i64().map_or(Runtime::Float(number.as_f64().unwrap_or(0.0)), Runtime::Int)
        }
        Value::String(text) => Runtime::from(text.as_str()),
        other => panic!("no such attribute was recorded: {other}"),
    };
    recorded.as_object().into_iter().flatten().map(|(name, sent)| (name.as_str(), value(sent))).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
