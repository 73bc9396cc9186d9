//! A trace in the format of Jaeger's query API.

use std::borrow::Cow;
use std::collections::BTreeMap;

use qualitytrace_core::trace::{Attributes, Span, StatusCode, Trace, special};
use qualitytrace_core::value::Value;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::lazy::Lazy;
use crate::receive::trace_files::jaeger::{OTLP, SPAN_FORMAT};

/// The document that Jaeger's UI can open, built while it is serialized.
#[derive(Debug)]
pub struct Document(pub Trace);

/// The trace in that document.
#[derive(Serialize)]
struct Data<'t, S> {
    #[serde(rename = "traceID")]
    id: &'t str,
    spans: S,
    processes: BTreeMap<String, Process<'t>>,
}

#[derive(Serialize)]
struct Process<'t> {
    #[serde(rename = "serviceName")]
    service_name: &'t str,
    tags: Vec<Tag<'t>>,
}

#[derive(Serialize)]
struct JaegerSpan<'t> {
    #[serde(rename = "traceID")]
    trace: &'t str,
    #[serde(rename = "spanID")]
    id: String,
    #[serde(rename = "operationName")]
    name: &'t str,
    references: Vec<Reference<'t>>,
    /// Microseconds since the epoch.
    #[serde(rename = "startTime")]
    start: u64,
    /// Microseconds.
    duration: u64,
    tags: Vec<Tag<'t>>,
    logs: Vec<Log<'t>>,
    #[serde(rename = "processID")]
    process: String,
}

#[derive(Serialize)]
struct Reference<'t> {
    #[serde(rename = "refType")]
    kind: &'static str,
    #[serde(rename = "traceID")]
    trace: Cow<'t, str>,
    #[serde(rename = "spanID")]
    span: String,
}

#[derive(Serialize)]
struct Log<'t> {
    /// Microseconds since the epoch.
    timestamp: u64,
    fields: Vec<Tag<'t>>,
}

#[derive(Serialize)]
struct Tag<'t> {
    key: &'t str,
    #[serde(rename = "type")]
    kind: &'static str,
    value: TagValue<'t>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum TagValue<'t> {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'t, str>),
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
        let spans = Lazy(|| trace.spans().iter().map(|one| span(&id, one, process(one))));
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
fn processes<'t>(trace: &'t Trace, services: &[&'t str]) -> BTreeMap<String, Process<'t>> {
    let mut first: BTreeMap<&str, &Span> = BTreeMap::new();
    for span in trace.spans() {
        first.entry(span.service()).or_insert(span);
    }
    let process = |(at, name): (usize, &&'t str)| {
        let tags = first.get(name).map(|span| attributes(&span.resource.attributes).collect());
        (format!("p{}", at + 1), Process { service_name: name, tags: tags.unwrap_or_default() })
    };
    services.iter().enumerate().map(process).collect()
}

fn span<'t>(trace: &'t str, span: &'t Span, process: String) -> JaegerSpan<'t> {
    let parent = span.parent.map(|parent| Reference {
        kind: "CHILD_OF",
        trace: Cow::Borrowed(trace),
        span: parent.to_string(),
    });
    let links = span.links.iter().map(|link| Reference {
        kind: "FOLLOWS_FROM",
        trace: Cow::Owned(link.trace.map(|id| id.to_string()).unwrap_or_default()),
        span: link.span.map(|id| id.to_string()).unwrap_or_default(),
    });
    let mut tags: Vec<Tag<'_>> = attributes(&span.attributes).collect();
    tags.push(Tag::text("span.kind", span.kind.as_str()));
    tags.extend(status(span));
    tags.extend(origin(span));
    let logs = span.events.iter().map(|event| Log {
        timestamp: event.time.as_nanos() / 1000,
        fields: std::iter::once(Tag::text("event", &event.name))
            .chain(attributes(&event.attributes))
            .collect(),
    });
    JaegerSpan {
        trace,
        id: span.id.map(|id| id.to_string()).unwrap_or_default(),
        name: &span.name,
        references: parent.into_iter().chain(links).collect(),
        start: span.start.as_nanos() / 1000,
        duration: u64::try_from(span.duration().as_micros()).unwrap_or(u64::MAX),
        tags,
        logs: logs.collect(),
        process,
    }
}

/// Returns the tags for the scope and the trace state of a span, and for its format: references to other spans than the
/// parent are links of OTLP, not parents.
fn origin(span: &Span) -> impl Iterator<Item = Tag<'_>> {
    let texts = [
        ("otel.scope.name", &*span.scope.name),
        ("otel.scope.version", &*span.scope.version),
        ("w3c.tracestate", &*span.trace_state),
        (SPAN_FORMAT, OTLP),
    ];
    texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(key, text)| Tag::text(key, text))
}

/// Returns the tags for the status of a span.
fn status(span: &Span) -> Vec<Tag<'_>> {
    let Some(status) = &span.status else { return Vec::new() };
    let mut tags = match status.code {
        StatusCode::Unset => Vec::new(),
        StatusCode::Ok => vec![Tag::text("otel.status_code", "OK")],
        StatusCode::Error => {
            let error = Tag { key: "error", kind: "bool", value: TagValue::Bool(true) };
            vec![Tag::text("otel.status_code", "ERROR"), error]
        }
    };
    if !status.message.is_empty() {
        tags.push(Tag::text("otel.status_description", &status.message));
    }
    tags
}

fn attributes(attributes: &Attributes) -> impl Iterator<Item = Tag<'_>> {
    attributes.iter().map(|(name, value)| Tag::of(name, value))
}

impl<'t> Tag<'t> {
    fn of(key: &'t str, value: &'t Value) -> Self {
        let (kind, value) = match value {
            Value::Bool(value) => ("bool", TagValue::Bool(*value)),
            Value::Int(value) => ("int64", TagValue::Int(*value)),
            Value::Float(value) if value.is_finite() => ("float64", TagValue::Float(*value)),
            Value::String(value) => ("string", TagValue::Text(Cow::Borrowed(value))),
            other => ("string", TagValue::Text(Cow::Owned(special::text(other)))),
        };
        Self { key, kind, value }
    }

    fn text(key: &'t str, value: &'t str) -> Self {
        Self { key, kind: "string", value: TagValue::Text(Cow::Borrowed(value)) }
    }
}
