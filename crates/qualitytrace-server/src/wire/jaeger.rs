//! A trace in the format of Jaeger's query API.

use std::collections::BTreeMap;

use qualitytrace_core::trace::{Attributes, Span, StatusCode, Trace, special};
use qualitytrace_core::value;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::lazy::Lazy;

/// The document that Jaeger's UI can open, built while it is serialized.
#[derive(Debug)]
pub struct Document(pub Trace);

/// The trace in that document.
#[derive(Serialize)]
struct Data<'t, S> {
    #[serde(rename = "traceID")]
    id: &'t str,
    spans: S,
    processes: Map<String, Value>,
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("Document", 1)?;
        let (trace, id) = (&self.0, self.0.id().to_string());
        let services = services(trace);
        let process = |span: &Span| {
            let at = services.binary_search(&span.service()).unwrap_or_default();
            format!("p{}", at + 1)
        };
        let spans = Lazy(|| trace.spans().iter().map(|one| span(&id, one, &process(one))));
        let data = Data { id: &id, spans, processes: processes(trace, &services) };
        document.serialize_field("data", &[data])?;
        document.end()
    }
}

/// Returns the services of a trace, sorted and without duplicates.
fn services(trace: &Trace) -> Vec<&str> {
    let mut services: Vec<&str> = trace.spans().iter().map(Span::service).collect();
    services.sort_unstable();
    services.dedup();
    services
}

/// Returns the process entry of each service.
fn processes(trace: &Trace, services: &[&str]) -> Map<String, Value> {
    let mut first: BTreeMap<&str, &Span> = BTreeMap::new();
    for span in trace.spans() {
        first.entry(span.service()).or_insert(span);
    }
    services
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let tags = first.get(name).map(|span| attributes(&span.resource.attributes)).unwrap_or_default();
            (format!("p{}", at + 1), json!({ "serviceName": name, "tags": tags }))
        })
        .collect()
}

fn span(trace: &str, span: &Span, process: &str) -> Value {
    let id = span.id.map(|id| id.to_string()).unwrap_or_default();
    let reference = |kind: &str, trace: String, span: String| json!({ "refType": kind, "traceID": trace, "spanID": span });
    let parent = span.parent.iter().map(|parent| reference("CHILD_OF", trace.to_owned(), parent.to_string()));
    let links = span.links.iter().map(|link| {
        let text = |id: Option<String>| id.unwrap_or_default();
        let (trace, span) = (link.trace.map(|id| id.to_string()), link.span.map(|id| id.to_string()));
        reference("FOLLOWS_FROM", text(trace), text(span))
    });
    let references: Vec<Value> = parent.chain(links).collect();
    let mut tags = attributes(&span.attributes);
    tags.push(text("span.kind", span.kind.as_str()));
    tags.extend(status(span));
    let logs: Vec<Value> = span
        .events
        .iter()
        .map(|event| {
            let mut fields = vec![text("event", &event.name)];
            fields.extend(attributes(&event.attributes));
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

/// Returns the tags for the status of a span.
fn status(span: &Span) -> Vec<Value> {
    let Some(status) = &span.status else { return Vec::new() };
    let mut tags = match status.code {
        StatusCode::Unset => Vec::new(),
        StatusCode::Ok => vec![text("otel.status_code", "OK")],
        StatusCode::Error => {
            vec![text("otel.status_code", "ERROR"), json!({ "key": "error", "type": "bool", "value": true })]
        }
    };
    if !status.message.is_empty() {
        tags.push(text("otel.status_description", &status.message));
    }
    tags
}

fn attributes(attributes: &Attributes) -> Vec<Value> {
    attributes.iter().map(|(name, value)| tag(name, value)).collect()
}

fn tag(key: &str, value: &value::Value) -> Value {
    let (kind, value) = match value {
        value::Value::Bool(value) => ("bool", json!(value)),
        value::Value::Int(value) => ("int64", json!(value)),
        value::Value::Float(value) if value.is_finite() => ("float64", json!(value)),
        other => ("string", json!(special::text(other))),
    };
    json!({ "key": key, "type": kind, "value": value })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "type": "string", "value": value })
}
