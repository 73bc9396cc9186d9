//! From our records to OTLP bytes, once per view: the level and the redaction that sinks share.

use bytes::Bytes;
use opentelemetry::trace::{SpanId, SpanKind};
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    logs::v1::LogRecord,
    trace::v1::{self as otlp, span},
};
use prost::Message as _;

use crate::{
    config::{Level, Signal},
    item::Item,
    span::{Attribute, Log, Span, Status, Value},
};

/// What a group of sinks sees of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) level: Level,
    pub(crate) redact: Vec<String>,
}

const REDACTED: &str = "[redacted]";

impl View {
    fn attributes(&self, attributes: &[Attribute]) -> Vec<KeyValue> {
        attributes
            .iter()
            .map(|(key, value)| {
                let value = if self.hides(key) { &Value::Text(REDACTED.to_owned()) } else { value };
                key_value(key, value)
            })
            .collect()
    }

    fn hides(&self, key: &str) -> bool {
        self.redact.iter().any(|pattern| matches(pattern, key))
    }
}

/// Whether `key` is what `pattern` says, without regard to case; `*` stands for any text.
pub(crate) fn matches(pattern: &str, key: &str) -> bool {
    let (pattern, key) = (pattern.as_bytes(), key.as_bytes());
    let (mut p, mut k) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while k < key.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, k));
            p += 1;
        } else if p < pattern.len() && pattern[p].eq_ignore_ascii_case(&key[k]) {
            p += 1;
            k += 1;
        } else if let Some((at, from)) = star {
            p = at + 1;
            k = from + 1;
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

pub(crate) fn key_value(key: &str, value: &Value) -> KeyValue {
    let value = match value {
        Value::Bool(value) => any_value::Value::BoolValue(*value),
        Value::Int(value) => any_value::Value::IntValue(*value),
        Value::Float(value) => any_value::Value::DoubleValue(*value),
        Value::Text(value) => any_value::Value::StringValue(value.clone()),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// The scope that all spans and logs share.
pub(crate) fn scope(name: &str, version: Option<&str>) -> Bytes {
    let scope = InstrumentationScope {
        name: name.to_owned(),
        version: version.unwrap_or_default().to_owned(),
        ..InstrumentationScope::default()
    };
    scope.encode_to_vec().into()
}

pub(crate) fn span(span: &Span, view: &View, scope: &Bytes) -> Item {
    let parent = span.parents[(view.level as usize).min(4)];
    let status = match span.status {
        Status::Unset => None,
        Status::Ok => Some(otlp::status::StatusCode::Ok),
        Status::Error => Some(otlp::status::StatusCode::Error),
    };
    let kind = match span.kind {
        SpanKind::Internal => span::SpanKind::Internal,
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Client => span::SpanKind::Client,
        SpanKind::Producer => span::SpanKind::Producer,
        SpanKind::Consumer => span::SpanKind::Consumer,
    };
    // Sampled, because it is sent; bits 8 and 9 say whether the parent is in another process.
    let encoded = otlp::Span {
        trace_id: span.trace_id.to_bytes().to_vec(),
        span_id: span.id.to_bytes().to_vec(),
        trace_state: span.trace_state.as_deref().unwrap_or_default().to_owned(),
        parent_span_id: if parent == SpanId::INVALID { Vec::new() } else { parent.to_bytes().to_vec() },
        flags: 1 | 0x100 | if span.remote_parent { 0x200 } else { 0 },
        name: span.name.clone().into_owned(),
        kind: kind.into(),
        start_time_unix_nano: span.start,
        end_time_unix_nano: span.end,
        attributes: view.attributes(&span.attributes),
        dropped_attributes_count: span.dropped_attributes,
        events: span
            .events
            .iter()
            .filter(|event| event.level >= view.level)
            .map(|event| span::Event {
                time_unix_nano: event.time,
                name: event.name.clone().into_owned(),
                attributes: view.attributes(&event.attributes),
                dropped_attributes_count: 0,
            })
            .collect(),
        dropped_events_count: span.dropped_events,
        links: span
            .links
            .iter()
            .map(|(trace, id)| span::Link {
                trace_id: trace.to_bytes().to_vec(),
                span_id: id.to_bytes().to_vec(),
                ..span::Link::default()
            })
            .collect(),
        dropped_links_count: 0,
        status: status.map(|code| otlp::Status { code: code.into(), message: span.status_message.clone() }),
    };
    Item {
        signal: Signal::Traces,
        count: 1,
        time: span.end,
        scope: scope.clone(),
        body: encoded.encode_to_vec().into(),
    }
}

pub(crate) fn log(log: &Log, view: &View, scope: &Bytes) -> Item {
    // Severity numbers of the specification: the first of each range.
    let (number, text) = match log.level {
        Level::Trace => (1, "TRACE"),
        Level::Debug => (5, "DEBUG"),
        Level::Info => (9, "INFO"),
        Level::Warn => (13, "WARN"),
        Level::Error | Level::Disable => (17, "ERROR"),
    };
    let mut attributes = view.attributes(&log.attributes);
    attributes.push(key_value("code.namespace", &Value::Text(log.target.clone().into_owned())));
    let encoded = LogRecord {
        time_unix_nano: log.time,
        observed_time_unix_nano: log.time,
        severity_number: number,
        severity_text: text.to_owned(),
        body: log
            .body
            .as_ref()
            .map(|body| AnyValue { value: Some(any_value::Value::StringValue(body.clone())) }),
        attributes,
        dropped_attributes_count: 0,
        flags: log.context.map_or(0, |(_, _, sampled)| u32::from(sampled)),
        trace_id: log.context.map_or_else(Vec::new, |(id, _, _)| id.to_bytes().to_vec()),
        span_id: log.context.map_or_else(Vec::new, |(_, id, _)| id.to_bytes().to_vec()),
        event_name: if log.name.starts_with("event ") {
            String::new()
        } else {
            log.name.clone().into_owned()
        },
    };
    Item {
        signal: Signal::Logs,
        count: 1,
        time: log.time,
        scope: scope.clone(),
        body: encoded.encode_to_vec().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(matches("*password*", "user.Password.hash"));
        assert!(matches("http.request.header.*", "http.request.header.cookie"));
        assert!(matches("a*b*c", "aXXbYYbc"));
        assert!(!matches("a*b", "aXc"));
        assert!(!matches("cookie", "cookies"));
        assert!(matches("*", ""));
    }
}
