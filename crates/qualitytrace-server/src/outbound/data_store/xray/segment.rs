//! Segment documents of X-Ray: a segment is what one service did of a trace, and its subsegments are spans, too.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::base::decode::{self, DecodeError, Room};
use crate::outbound::data_store::spans::flattened;
use crate::receive::trace_files::collected::{self, Collected, ScopeName};
use crate::receive::trace_files::ids;

/// Fields whose attribute has another name than their path.
const NAMES: [(&str, &str); 12] = [
    ("http.request.method", "http.method"),
    ("http.request.url", "http.url"),
    ("http.request.user_agent", "http.user_agent"),
    ("http.request.client_ip", "http.client_ip"),
    ("http.request.x_forwarded_for", "aws.xray.x_forwarded_for"),
    ("http.request.traced", "aws.xray.traced"),
    ("http.response.status", "http.status_code"),
    ("http.response.content_length", "http.response_content_length"),
    ("aws.retries", "aws.xray.retries"),
    ("db.sanitized_query", "db.statement"),
    ("db.database_type", "db.system"),
    ("db.url", "db.connection_string"),
];
/// The metadata in which the Collector's exporter writes the attributes of a span, and among them those of its resource.
const OTEL_METADATA: &str = "default";
const OTEL_RESOURCE: &str = "otel.resource.";

#[derive(Deserialize)]
struct Segment {
    id: String,
    #[serde(default)]
    name: String,
    /// Seconds.
    start_time: f64,
    end_time: Option<f64>,
    in_progress: Option<bool>,
    trace_id: Option<String>,
    parent_id: Option<String>,
    /// `subsegment` in a document of its own.
    r#type: Option<String>,
    namespace: Option<String>,
    #[serde(default)]
    error: bool,
    #[serde(default)]
    fault: bool,
    #[serde(default)]
    throttle: bool,
    /// The exceptions, or the id of one that another segment has.
    cause: Option<Value>,
    user: Option<String>,
    origin: Option<String>,
    resource_arn: Option<String>,
    inferred: Option<bool>,
    service: Option<Map<String, Value>>,
    http: Option<Map<String, Value>>,
    aws: Option<Map<String, Value>>,
    sql: Option<Map<String, Value>>,
    annotations: Option<Map<String, Value>>,
    metadata: Option<Map<String, Value>>,
    links: Option<Vec<Reference>>,
    subsegments: Option<Vec<Self>>,
}

#[derive(Deserialize)]
struct Reference {
    trace_id: String,
    id: String,
    attributes: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    id: Option<String>,
    message: Option<String>,
    r#type: Option<String>,
    remote: Option<bool>,
    truncated: Option<i64>,
    skipped: Option<i64>,
    cause: Option<String>,
    stack: Option<Vec<Frame>>,
}

#[derive(Deserialize)]
struct Frame {
    path: Option<String>,
    line: Option<i64>,
    label: Option<String>,
}

/// Converts a segment document. Subsegments nest no deeper than JSON may, which its parser limits.
pub(in crate::outbound::data_store) fn read(
    document: &str,
    room: &mut impl Room,
) -> Result<ExportTraceServiceRequest, DecodeError> {
    let segment: Segment = decode::json(document.as_bytes(), room).map_err(|error| match error {
        DecodeError::Malformed(cause) => DecodeError::Malformed(format!("a segment: {cause}")),
        short => short,
    })?;
    let resource = resource(&segment);
    let mut spans = Vec::new();
    add(segment, &[], &mut spans)?;
    let mut collected = Collected::default();
    for span in spans {
        collected.add("", ScopeName::default(), span, || resource.clone());
    }
    Ok(collected.into_request())
}

/// Adds a segment and what is in it.
fn add(mut segment: Segment, outer: &[u8], spans: &mut Vec<Span>) -> Result<(), String> {
    let inner = segment.subsegments.take().unwrap_or_default();
    let span = span(&segment, outer)?;
    let id = span.span_id.clone();
    spans.push(span);
    inner.into_iter().try_for_each(|segment| add(segment, &id, spans))
}

/// The service that a segment is named after.
fn resource(segment: &Segment) -> Vec<KeyValue> {
    let mut attributes = Map::new();
    let metadata = segment.metadata.as_ref().and_then(|metadata| metadata.get(OTEL_METADATA)?.as_object());
    for (key, value) in metadata.into_iter().flatten() {
        if let Some(key) = key.strip_prefix(OTEL_RESOURCE) {
            attributes.insert(key.to_owned(), value.clone());
        }
    }
    if segment.r#type.as_deref() != Some("subsegment") {
        attributes.entry("service.name").or_insert_with(|| segment.name.as_str().into());
    }
    for (key, value) in segment.service.as_ref().map(flattened).unwrap_or_default() {
        attributes.entry(format!("service.{key}")).or_insert(value);
    }
    attributes.iter().map(|(key, value)| collected::json(key, value)).collect()
}

fn span(segment: &Segment, outer: &[u8]) -> Result<Span, String> {
    let parent = ids::span("parent_id", segment.parent_id.as_deref().unwrap_or_default())?;
    let (events, message) = causes(segment)?;
    let is_failed = segment.error || segment.fault || segment.throttle;
    let span = Span {
        trace_id: match &segment.trace_id {
            Some(id) => ids::trace("trace_id", &digits(id))?,
            None => Vec::new(),
        },
        span_id: ids::span("id", &segment.id)?,
        parent_span_id: if parent.is_empty() { outer.to_vec() } else { parent },
        name: segment.name.clone(),
        kind: kind(segment, outer).into(),
        start_time_unix_nano: nanos("start_time", segment.start_time)?,
        end_time_unix_nano: segment.end_time.map_or(Ok(0), |time| nanos("end_time", time))?,
        attributes: attributes(segment).iter().map(|(key, value)| collected::json(key, value)).collect(),
        events,
        links: segment.links.iter().flatten().map(link).collect::<Result<_, _>>()?,
        status: is_failed.then(|| Status { code: StatusCode::Error.into(), message }),
        ..Span::default()
    };
    if span.span_id.is_empty() {
        return Err("a segment has no `id`".to_owned());
    }
    Ok(span)
}

/// A subsegment with a namespace calls another service; others are work inside of one.
fn kind(segment: &Segment, outer: &[u8]) -> SpanKind {
    let is_inner = !outer.is_empty() || segment.r#type.as_deref() == Some("subsegment");
    match &segment.namespace {
        Some(_) => SpanKind::Client,
        None if is_inner => SpanKind::Internal,
        None => SpanKind::Server,
    }
}

/// Converts seconds. X-Ray records microseconds; more digits are those of the floating-point number.
fn nanos(key: &str, seconds: f64) -> Result<u64, String> {
    let micros = (seconds * 1e6).round();
    if !(0.0..1e16).contains(&micros) {
        return Err(format!("`{key}` is {seconds}, not a time in seconds"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the range")]
    let micros = micros as u64;
    Ok(micros * 1_000)
}

/// Returns the digits of a trace id: `1-`, 8 digits, `-`, 24 digits.
fn digits(written: &str) -> String {
    written.strip_prefix("1-").unwrap_or(written).replace('-', "")
}

/// What the service knows of the work, then what the user recorded. The first value of a name stays.
fn attributes(segment: &Segment) -> Map<String, Value> {
    let mut attributes = Map::new();
    let mut add = |key: String, value: Value| {
        let name = NAMES.iter().find(|(path, _)| *path == key).map(|(_, name)| (*name).to_owned());
        attributes.entry(name.unwrap_or(key)).or_insert(value);
    };
    for (prefix, fields) in [("http", &segment.http), ("aws", &segment.aws), ("db", &segment.sql)] {
        for (key, value) in fields.as_ref().map(flattened).unwrap_or_default() {
            match value.as_str().filter(|_| prefix == "db" && key == "url").and_then(database) {
                Some((server, name)) => {
                    add("db.url".to_owned(), server.into());
                    add("db.name".to_owned(), name.into());
                }
                None => add(format!("{prefix}.{key}"), value),
            }
        }
    }
    if segment.namespace.as_deref() == Some("aws") {
        add("aws.service".to_owned(), segment.name.clone().into());
    }
    let texts = [
        ("enduser.id", &segment.user),
        ("aws.xray.namespace", &segment.namespace),
        ("aws.xray.origin", &segment.origin),
        ("aws.xray.resource_arn", &segment.resource_arn),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            add(key.to_owned(), value.clone().into());
        }
    }
    let flags = [
        ("aws.xray.error", Some(segment.error).filter(|is| *is)),
        ("aws.xray.fault", Some(segment.fault).filter(|is| *is)),
        ("aws.xray.throttle", Some(segment.throttle).filter(|is| *is)),
        ("aws.xray.inprogress", segment.in_progress),
        ("aws.xray.inferred", segment.inferred),
    ];
    for (key, value) in flags {
        if let Some(value) = value {
            add(key.to_owned(), value.into());
        }
    }
    if let Some(Value::String(exception)) = &segment.cause {
        add("aws.xray.cause".to_owned(), exception.clone().into());
    }
    for (key, value) in segment.annotations.iter().flatten() {
        add(key.clone(), value.clone());
    }
    for (namespace, fields) in segment.metadata.iter().flatten() {
        if let Value::Object(fields) = fields
            && namespace == OTEL_METADATA
        {
            for (key, value) in fields.iter().filter(|(key, _)| !key.starts_with(OTEL_RESOURCE)) {
                add(key.clone(), value.clone());
            }
        }
        add(format!("aws.xray.metadata.{namespace}"), fields.to_string().into());
    }
    attributes
}

/// Splits the address of a database into server and name: `mysql://HOST:PORT/NAME?..`.
fn database(url: &str) -> Option<(&str, &str)> {
    let address = url.split('?').next().unwrap_or_default();
    let (server, name) = address.rsplit_once('/')?;
    (server.contains("//") && !server.ends_with('/') && !name.is_empty()).then_some((server, name))
}

/// The exceptions as events, and the message of the first one.
fn causes(segment: &Segment) -> Result<(Vec<Event>, String), String> {
    let Some(cause @ Value::Object(_)) = &segment.cause else { return Ok((Vec::new(), String::new())) };
    let Cause { exceptions } =
        Cause::deserialize(cause).map_err(|error| format!("the `cause` of a segment: {error}"))?;
    let time = nanos("end_time", segment.end_time.unwrap_or(segment.start_time))?;
    let message = exceptions.first().and_then(|first| first.message.clone()).unwrap_or_default();
    let event = |exception: &Exception| Event {
        time_unix_nano: time,
        name: "exception".to_owned(),
        attributes: exception_attributes(exception),
        ..Event::default()
    };
    Ok((exceptions.iter().map(event).collect(), message))
}

fn exception_attributes(exception: &Exception) -> Vec<KeyValue> {
    let stack =
        exception.stack.as_ref().filter(|stack| !stack.is_empty()).map(|stack| trace_of(exception, stack));
    let fields = [
        ("exception.type", exception.r#type.clone().map(Value::from)),
        ("exception.message", exception.message.clone().map(Value::from)),
        ("exception.stacktrace", stack.map(Value::from)),
        ("aws.xray.exception.id", exception.id.clone().map(Value::from)),
        ("aws.xray.exception.cause", exception.cause.clone().map(Value::from)),
        ("aws.xray.exception.remote", exception.remote.map(Value::from)),
        ("aws.xray.exception.truncated", exception.truncated.map(Value::from)),
        ("aws.xray.exception.skipped", exception.skipped.map(Value::from)),
    ];
    fields
        .iter()
        .filter_map(|(key, value)| value.as_ref().map(|value| collected::json(*key, value)))
        .collect()
}

fn trace_of(exception: &Exception, stack: &[Frame]) -> String {
    let text = |of: &Option<String>| of.clone().unwrap_or_default();
    let frames = stack.iter().map(|frame| {
        let line = frame.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("\n\tat {} ({}{line})", text(&frame.label), text(&frame.path))
    });
    format!("{}: {}{}", text(&exception.r#type), text(&exception.message), frames.collect::<String>())
}

fn link(reference: &Reference) -> Result<Link, String> {
    let attributes = reference.attributes.iter().flatten();
    Ok(Link {
        trace_id: ids::linked_trace("trace_id", &digits(&reference.trace_id))?,
        span_id: ids::span("id", &reference.id)?,
        attributes: attributes.map(|(key, value)| collected::json(key, value)).collect(),
        ..Link::default()
    })
}
