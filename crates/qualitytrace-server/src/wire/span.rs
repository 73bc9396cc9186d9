//! One span in full: everything that its sender said, with the types that it had.

use opentelemetry_proto::tonic::logs::v1::LogRecord;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Event, Link, Resource, Scope, Span};
use qualitytrace_core::value::Value;
use schemars::JsonSchema;
use serde::Serialize;

use super::trace;

/// The largest whole number that a JavaScript client reads exactly.
const MAX_EXACT: i64 = (1 << 53) - 1;

/// A span with its resource, scope, events, links and log records. Times are nanoseconds, as texts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpanDetail {
    /// The trace.
    trace_id: String,
    /// Its id; empty if it was sent without one.
    span_id: String,
    /// The parent that it names; empty if it has none.
    parent_id: String,
    /// Its row in the columns of the trace.
    row: usize,
    /// Its name.
    name: String,
    /// `service.name` of its resource.
    service: String,
    /// For example `server`.
    kind: String,
    /// `unset`, `ok` or `error`.
    status: String,
    /// The message of the status.
    status_message: String,
    /// Nanoseconds since the epoch.
    start: String,
    /// Nanoseconds since the epoch; null while it is running.
    end: Option<String>,
    /// Nanoseconds.
    duration: String,
    /// W3C `tracestate`.
    trace_state: String,
    /// W3C trace flags and OTLP's own bits above them.
    flags: u32,
    /// Its own attributes.
    attributes: Vec<Attribute>,
    /// Attributes that the sender dropped.
    dropped_attributes: u32,
    /// Events that the sender dropped.
    dropped_events: u32,
    /// Links that the sender dropped.
    dropped_links: u32,
    /// The process that sent it.
    resource: ResourceDetail,
    /// The library that recorded it.
    scope: ScopeDetail,
    /// Its events.
    events: Vec<EventDetail>,
    /// Its links.
    links: Vec<LinkDetail>,
    /// Log records that name it, at most 1,000, in the order of arrival.
    logs: Vec<LogDetail>,
    /// The number of log records that name it.
    log_count: usize,
}

/// An attribute with its type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attribute {
    /// Its name.
    key: String,
    /// `string`, `int`, `double`, `bool`, `bytes`, `list`, `object` or `empty`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Its value. A whole number that JavaScript cannot represent is a text; bytes are base64.
    value: serde_json::Value,
}

/// A resource.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceDetail {
    attributes: Vec<Attribute>,
    dropped_attributes: u32,
    schema_url: String,
}

/// An instrumentation scope.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScopeDetail {
    name: String,
    version: String,
    attributes: Vec<Attribute>,
    dropped_attributes: u32,
    schema_url: String,
}

/// An event of a span.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventDetail {
    name: String,
    /// Nanoseconds since the epoch.
    time: String,
    attributes: Vec<Attribute>,
    dropped_attributes: u32,
}

/// A link to another span.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LinkDetail {
    trace_id: String,
    span_id: String,
    trace_state: String,
    flags: u32,
    attributes: Vec<Attribute>,
    dropped_attributes: u32,
}

/// A log record.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogDetail {
    /// Nanoseconds since the epoch: when it happened, or was observed.
    time: String,
    /// The number of its severity, 0 if it has none.
    severity: i32,
    /// The text of its severity.
    severity_text: String,
    /// The name of its event.
    event_name: String,
    /// The body, with its type.
    body: Attribute,
    attributes: Vec<Attribute>,
    dropped_attributes: u32,
}

impl SpanDetail {
    /// Describes a span, whose secrets are redacted, with its log records.
    pub(crate) fn of(
        trace: TraceId,
        row: usize,
        span: &Span,
        logs: Vec<LogDetail>,
        log_count: usize,
    ) -> Self {
        let (status, status_message) = trace::status(span);
        Self {
            trace_id: trace.to_string(),
            span_id: span.id.map(|id| id.to_string()).unwrap_or_default(),
            parent_id: span.parent.map(|id| id.to_string()).unwrap_or_default(),
            row,
            name: span.name.to_string(),
            service: span.service().to_owned(),
            kind: span.kind.as_str().to_owned(),
            status: status.to_owned(),
            status_message: status_message.to_owned(),
            start: nanos(span.start),
            end: span.end.map(nanos),
            duration: span.duration().as_nanos().to_string(),
            trace_state: span.trace_state.to_string(),
            flags: span.flags,
            attributes: attributes(&span.attributes),
            dropped_attributes: span.dropped.attributes,
            dropped_events: span.dropped.events,
            dropped_links: span.dropped.links,
            resource: ResourceDetail::of(&span.resource),
            scope: ScopeDetail::of(&span.scope),
            events: span.events.iter().map(EventDetail::of).collect(),
            links: span.links.iter().map(LinkDetail::of).collect(),
            logs,
            log_count,
        }
    }
}

impl ResourceDetail {
    fn of(resource: &Resource) -> Self {
        Self {
            attributes: attributes(&resource.attributes),
            dropped_attributes: resource.dropped_attributes,
            schema_url: resource.schema_url.to_string(),
        }
    }
}

impl ScopeDetail {
    fn of(scope: &Scope) -> Self {
        Self {
            name: scope.name.to_string(),
            version: scope.version.to_string(),
            attributes: attributes(&scope.attributes),
            dropped_attributes: scope.dropped_attributes,
            schema_url: scope.schema_url.to_string(),
        }
    }
}

impl EventDetail {
    fn of(event: &Event) -> Self {
        Self {
            name: event.name.to_string(),
            time: nanos(event.time),
            attributes: attributes(&event.attributes),
            dropped_attributes: event.dropped_attributes,
        }
    }
}

impl LinkDetail {
    fn of(link: &Link) -> Self {
        Self {
            trace_id: link.trace.map(|id| id.to_string()).unwrap_or_default(),
            span_id: link.span.map(|id| id.to_string()).unwrap_or_default(),
            trace_state: link.trace_state.to_string(),
            flags: link.flags,
            attributes: attributes(&link.attributes),
            dropped_attributes: link.dropped_attributes,
        }
    }
}

impl LogDetail {
    /// Describes a log record with its body and attributes, whose secrets are redacted.
    pub(crate) fn of(record: &LogRecord, body: &Value, of_record: &Attributes) -> Self {
        let time =
            if record.time_unix_nano == 0 { record.observed_time_unix_nano } else { record.time_unix_nano };
        Self {
            time: time.to_string(),
            severity: record.severity_number,
            severity_text: record.severity_text.clone(),
            event_name: record.event_name.clone(),
            body: attribute("", body),
            attributes: attributes(of_record),
            dropped_attributes: record.dropped_attributes_count,
        }
    }
}

fn nanos(at: Timestamp) -> String {
    at.as_nanos().to_string()
}

fn attributes(attributes: &Attributes) -> Vec<Attribute> {
    attributes.iter().map(|(key, value)| attribute(key, value)).collect()
}

fn attribute(key: &str, value: &Value) -> Attribute {
    let kind = match value {
        Value::Null => "empty",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Duration(_) => "int",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "list",
        Value::Object(_) => "object",
    };
    let value = match value {
        Value::Int(number) | Value::Duration(number) if number.unsigned_abs() > MAX_EXACT.unsigned_abs() => {
            number.to_string().into()
        }
        // JSON has no NaN and infinity.
        Value::Float(number) if !number.is_finite() => number.to_string().into(),
        other => trace::json(other),
    };
    Attribute { key: key.to_owned(), kind, value }
}
