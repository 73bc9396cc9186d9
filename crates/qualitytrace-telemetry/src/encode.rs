//! Encodes records for a view: redacts and filters attributes and events, and sets the parent that the sinks know.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use opentelemetry::trace::SpanId;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use prost::{
    Message as _,
    encoding::{WireType, decode_varint, encode_key},
};

use crate::{
    attributes::{Value, any_value_len, entries, put_any_value},
    config::{Level, Target},
    filter,
    item::{Item, field_len, put_head},
    pattern,
    record::{Head, Kind},
    span::TARGETED,
};

/// How many keys a view caches the redaction of. Call sites name them, so they are few.
const MAX_KNOWN: usize = 1_024;

/// What a group of sinks sees of a record: its level, its targets and its redacted keys.
#[derive(Debug)]
pub(crate) struct View {
    level: Level,
    targets: Vec<Target>,
    redact: Vec<String>,
    known: RwLock<HashMap<Box<[u8]>, bool>>,
}

const REDACTED: Value<'static> = Value::Text(std::borrow::Cow::Borrowed("[redacted]"));

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        (self.level, &self.redact, &self.targets) == (other.level, &other.redact, &other.targets)
    }
}

impl View {
    /// A view of spans and events from this level on, without the values of these keys.
    pub(crate) fn new(level: Level, targets: Vec<Target>, redact: Vec<String>) -> Self {
        Self { level, targets, redact, known: RwLock::default() }
    }

    /// Encodes the item that sinks of this view send, at the end of `out`.
    pub(crate) fn item(&self, head: &Head, bytes: &[u8], scope: &Bytes, out: &mut BytesMut) -> Item {
        let (plain, rest) = bytes.split_at(head.plain);
        let (attributes, events) = rest.split_at(head.attributes);
        out.put_slice(plain);
        match &head.kind {
            Kind::Span { parents, .. } => {
                let parent = parents[(self.level as usize).min(4)];
                if parent != SpanId::INVALID {
                    put_head(4, 8, out);
                    out.put_slice(&parent.to_bytes());
                }
                self.attributes(9, attributes, out);
                self.events(events, out);
            }
            Kind::Log => self.attributes(6, attributes, out),
        }
        let body = out.split().freeze();
        Item { signal: head.signal(), count: 1, time: head.time, scope: scope.clone(), body }
    }

    fn attributes(&self, tag: u32, bytes: &[u8], out: &mut BytesMut) {
        for entry in entries(bytes) {
            if self.hides(entry.key) {
                let (key, value) = (field_len(1, entry.key.len()), any_value_len(&REDACTED));
                put_head(tag, key + field_len(2, value), out);
                put_head(1, entry.key.len(), out);
                out.put_slice(entry.key);
                put_head(2, value, out);
                put_any_value(&REDACTED, out);
            } else {
                encode_key(tag, WireType::LengthDelimited, out);
                out.put_slice(entry.bytes);
            }
        }
    }

    fn events(&self, mut bytes: &[u8], out: &mut BytesMut) {
        while let Some((level, mut rest)) = bytes.split_first() {
            let mut takes = level & !TARGETED >= self.level as u8;
            if level & TARGETED != 0 {
                let Some(target) = part(&mut rest) else { return };
                let (target, level) = (std::str::from_utf8(target).unwrap_or_default(), level & !TARGETED);
                takes = filter::takes_level(self.level, &self.targets, target, level);
            }
            let (Some(plain), Some(attributes)) = (part(&mut rest), part(&mut rest)) else { return };
            bytes = rest;
            if takes {
                let mut event = BytesMut::with_capacity(plain.len() + attributes.len() + 64);
                event.put_slice(plain);
                self.attributes(3, attributes, &mut event);
                put_head(11, event.len(), out);
                out.put_slice(&event);
            }
        }
    }

    fn hides(&self, key: &[u8]) -> bool {
        if let Some(hides) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return *hides;
        }
        let hides = self.redact.iter().any(|pattern| matches(pattern.as_bytes(), key));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_KNOWN {
            known.insert(key.into(), hides);
        }
        hides
    }
}

/// Reads length-prefixed bytes.
fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(decode_varint(bytes).ok()?).ok()?;
    let (part, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(part)
}

/// Whether `key` matches `pattern`, ignoring case; `*` matches any text.
fn matches(pattern: &[u8], key: &[u8]) -> bool {
    pattern::matches(pattern, key, |p, k| p.eq_ignore_ascii_case(&k))
}

/// The encoded scope that all spans and logs share.
pub(crate) fn scope(name: &str, version: Option<&str>) -> Bytes {
    let scope = InstrumentationScope {
        name: name.to_owned(),
        version: version.unwrap_or_default().to_owned(),
        ..InstrumentationScope::default()
    };
    scope.encode_to_vec().into()
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use opentelemetry::trace::{SpanId, SpanKind, TraceId};
    use opentelemetry_proto::tonic::{
        common::v1::{AnyValue, KeyValue, any_value},
        logs::v1::LogRecord,
        trace::v1::{self as otlp, span},
    };
    use prost::Message as _;

    use super::{View, matches};
    use crate::{
        attributes::{Attributes, Value},
        config::{Level, Role},
        record::Record,
        span::{Log, Span, Status},
    };

    fn key_value(key: &str, value: &Value<'_>) -> KeyValue {
        let value = match value {
            Value::Bool(value) => any_value::Value::BoolValue(*value),
            Value::Int(value) => any_value::Value::IntValue(*value),
            Value::Float(value) => any_value::Value::DoubleValue(*value),
            Value::Text(value) => any_value::Value::StringValue(value.clone().into_owned()),
        };
        KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    }

    fn seen(record: &Record, level: Level) -> Bytes {
        let view = View::new(level, Vec::new(), vec!["*password*".to_owned()]);
        view.item(&record.head, &record.bytes, &Bytes::new(), &mut BytesMut::new()).body
    }

    fn attributes() -> Attributes {
        let mut attributes = Attributes::default();
        attributes.put("n", &Value::Int(7));
        attributes.put("password", &Value::text("p"));
        attributes
    }

    fn redacted() -> Vec<KeyValue> {
        vec![key_value("n", &Value::Int(7)), key_value("password", &Value::text("[redacted]"))]
    }

    #[test]
    fn a_view_of_a_span_is_what_prost_reads() {
        let ids = (TraceId::from(0xabc), SpanId::from(1));
        let mut record = Span::new(Role::Server, Level::Info, ids, "work".into(), 5);
        record.parents = [2, 3, 4, 5, 6].map(SpanId::from);
        record.remote_parent = true;
        record.trace_state = Some("a=b".into());
        record.kind = SpanKind::Client;
        record.end = 9;
        record.attributes = attributes();
        record.status = Status::Error;
        record.status_message = "bad".to_owned();
        record.happened((Level::Debug, None), 6, "hidden", &Attributes::default());
        record.happened((Level::Warn, None), 7, "shown", &attributes());
        record.follows(TraceId::from(8), SpanId::from(9));
        let expected = otlp::Span {
            trace_id: ids.0.to_bytes().to_vec(),
            span_id: ids.1.to_bytes().to_vec(),
            trace_state: "a=b".to_owned(),
            parent_span_id: SpanId::from(4).to_bytes().to_vec(),
            flags: 0x301,
            name: "work".to_owned(),
            kind: span::SpanKind::Client.into(),
            start_time_unix_nano: 5,
            end_time_unix_nano: 9,
            attributes: redacted(),
            events: vec![span::Event {
                time_unix_nano: 7,
                name: "shown".to_owned(),
                attributes: redacted(),
                ..span::Event::default()
            }],
            links: vec![span::Link {
                trace_id: TraceId::from(8).to_bytes().to_vec(),
                span_id: SpanId::from(9).to_bytes().to_vec(),
                ..span::Link::default()
            }],
            status: Some(otlp::Status { code: 2, message: "bad".to_owned() }),
            ..otlp::Span::default()
        };
        assert_eq!(otlp::Span::decode(seen(&record.record(), Level::Info)).unwrap(), expected);
    }

    #[test]
    fn a_view_of_a_log_record_is_what_prost_reads() {
        let log = Log {
            level: Level::Warn,
            time: 5,
            name: "refused",
            target: "mail",
            body: Some("no".to_owned()),
            attributes: attributes(),
            context: Some((TraceId::from(1), SpanId::from(2), true)),
        };
        let mut all = redacted();
        all.push(key_value("code.namespace", &Value::text("mail")));
        let expected = LogRecord {
            time_unix_nano: 5,
            observed_time_unix_nano: 5,
            severity_number: 13,
            severity_text: "WARN".to_owned(),
            body: Some(AnyValue { value: Some(any_value::Value::StringValue("no".to_owned())) }),
            attributes: all,
            flags: 1,
            trace_id: TraceId::from(1).to_bytes().to_vec(),
            span_id: SpanId::from(2).to_bytes().to_vec(),
            event_name: "refused".to_owned(),
            ..LogRecord::default()
        };
        assert_eq!(LogRecord::decode(seen(&log.record(), Level::Info)).unwrap(), expected);
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let matches = |pattern: &str, key: &str| matches(pattern.as_bytes(), key.as_bytes());
        assert!(matches("*password*", "user.Password.hash"));
        assert!(matches("http.request.header.*", "http.request.header.cookie"));
        assert!(matches("a*b*c", "aXXbYYbc"));
        assert!(!matches("a*b", "aXc"));
        assert!(!matches("cookie", "cookies"));
        assert!(matches("*", ""));
    }
}
