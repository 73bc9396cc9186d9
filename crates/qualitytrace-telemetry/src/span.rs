//! Spans and log records at the call site: cheap to fill, and encoded as soon as they are finished.

use std::{borrow::Cow, sync::Arc};

use bytes::BufMut as _;
use opentelemetry::trace::{SpanId, SpanKind, TraceId};
use prost::encoding::{WireType, encode_key, encode_varint};

use crate::{
    attributes::{Attributes, Value, any_value_len, put_any_value},
    config::{Level, RecordLimits, Role},
    item::{field_len, put_head},
    propagation::Parents,
    record::{Head, Kind, Record},
};

/// Flag beside the level of an event: its target follows.
pub(crate) const TARGETED: u8 = 0x80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Unset,
    Ok,
    Error,
}

#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) role: Role,
    pub(crate) level: Level,
    /// Its `tracing` target.
    pub(crate) target: &'static str,
    pub(crate) trace_id: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parents: Parents,
    /// The sampling decision of the caller in another process.
    pub(crate) remote: Option<bool>,
    /// Whether the parent is in another process.
    pub(crate) remote_parent: bool,
    pub(crate) trace_state: Option<Arc<str>>,
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: Attributes,
    pub(crate) status: Status,
    pub(crate) status_message: String,
    events: Events,
    links: Links,
    limits: RecordLimits,
}

#[derive(Debug, Default)]
struct Events {
    bytes: Vec<u8>,
    count: u32,
    dropped: u32,
}

/// Links to spans that it follows from, as OTLP fields.
#[derive(Debug, Default)]
struct Links {
    bytes: Vec<u8>,
    count: u32,
    dropped: u32,
}

impl Span {
    /// A span that begins at `start`.
    pub(crate) fn new(
        role: Role,
        level: Level,
        (trace_id, id): (TraceId, SpanId),
        name: Cow<'static, str>,
        start: u64,
    ) -> Self {
        Self {
            role,
            level,
            target: "",
            trace_id,
            id,
            parents: [SpanId::INVALID; 5],
            remote: None,
            remote_parent: false,
            trace_state: None,
            name,
            kind: SpanKind::Internal,
            start,
            end: start,
            attributes: Attributes::default(),
            status: Status::Unset,
            status_message: String::new(),
            events: Events::default(),
            links: Links::default(),
            limits: RecordLimits::default(),
        }
    }

    /// Sets the limits of the span.
    pub(crate) fn limited(mut self, limits: RecordLimits) -> Self {
        self.attributes = Attributes::limited(limits.span_attributes);
        self.limits = limits;
        self
    }

    /// Adds an event. Its target is kept where sinks decide by it.
    pub(crate) fn happened(
        &mut self,
        (level, target): (Level, Option<&str>),
        time: u64,
        name: &str,
        attributes: &Attributes,
    ) {
        let events = &mut self.events;
        if events.count >= self.limits.events {
            events.dropped += 1;
            return;
        }
        events.count += 1;
        let mut plain = Vec::with_capacity(name.len() + 24);
        put_fixed64(1, time, &mut plain);
        put_bytes(2, name.as_bytes(), &mut plain);
        put_number(4, attributes.dropped().into(), &mut plain);
        events.bytes.push(level as u8 | if target.is_some() { TARGETED } else { 0 });
        for part in target.map(str::as_bytes).into_iter().chain([plain.as_slice(), attributes.bytes()]) {
            encode_varint(part.len() as u64, &mut events.bytes);
            events.bytes.extend_from_slice(part);
        }
    }

    /// Adds a link to a span that it follows from.
    pub(crate) fn follows(&mut self, trace: TraceId, id: SpanId) {
        if self.links.count >= self.limits.links {
            self.links.dropped += 1;
        } else {
            self.links.count += 1;
            let out = &mut self.links.bytes;
            put_head(13, field_len(1, 16) + field_len(2, 8), out);
            put_bytes(1, &trace.to_bytes(), out);
            put_bytes(2, &id.to_bytes(), out);
        }
    }

    /// Encodes the finished span.
    pub(crate) fn record(&self) -> Record {
        let (attributes, events, links) =
            (self.attributes.bytes(), self.events.bytes.as_slice(), self.links.bytes.as_slice());
        let rest = attributes.len() + events.len() + links.len() + self.status_message.len();
        let mut out = Vec::with_capacity(96 + self.name.len() + rest);
        put_bytes(1, &self.trace_id.to_bytes(), &mut out);
        put_bytes(2, &self.id.to_bytes(), &mut out);
        put_bytes(3, self.trace_state.as_deref().unwrap_or_default().as_bytes(), &mut out);
        put_bytes(5, self.name.as_bytes(), &mut out);
        put_number(6, kind(&self.kind), &mut out);
        put_fixed64(7, self.start, &mut out);
        put_fixed64(8, self.end, &mut out);
        put_number(10, self.attributes.dropped().into(), &mut out);
        put_number(12, self.events.dropped.into(), &mut out);
        out.extend_from_slice(links);
        put_number(14, self.links.dropped.into(), &mut out);
        self.put_status(&mut out);
        // The flags: sampled, because it is sent; bits 8 and 9 say whether the parent is in another process.
        put_fixed32(16, 1 | 0x100 | if self.remote_parent { 0x200 } else { 0 }, &mut out);
        let plain = out.len();
        out.extend_from_slice(attributes);
        out.extend_from_slice(events);
        let kind = Kind::Span { role: self.role, remote: self.remote, parents: self.parents };
        let head = Head {
            kind,
            level: self.level,
            target: self.target,
            trace_id: self.trace_id,
            time: self.end,
            plain,
            attributes: attributes.len(),
        };
        Record { head, bytes: out }
    }

    fn put_status(&self, out: &mut Vec<u8>) {
        let code = match self.status {
            Status::Unset => return,
            Status::Ok => 1,
            Status::Error => 2,
        };
        let message = self.status_message.as_bytes();
        let message_len = if message.is_empty() { 0 } else { field_len(2, message.len()) };
        put_head(15, message_len + 2, out);
        put_bytes(2, message, out);
        put_number(3, code, out);
    }
}

fn kind(kind: &SpanKind) -> u64 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    }
}

#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) level: Level,
    pub(crate) time: u64,
    pub(crate) name: &'static str,
    pub(crate) target: &'static str,
    pub(crate) body: Option<String>,
    pub(crate) attributes: Attributes,
    pub(crate) context: Option<(TraceId, SpanId, bool)>,
}

impl Log {
    /// Encodes the log record.
    pub(crate) fn record(mut self) -> Record {
        self.attributes.put("code.namespace", &Value::text(self.target));
        let attributes = self.attributes.bytes();
        // Severity numbers of the specification: the first of each range.
        let (number, text) = match self.level {
            Level::Trace => (1, "TRACE"),
            Level::Debug => (5, "DEBUG"),
            Level::Info => (9, "INFO"),
            Level::Warn => (13, "WARN"),
            Level::Error | Level::Disable => (17, "ERROR"),
        };
        let body_len = self.body.as_ref().map_or(0, String::len);
        let mut out = Vec::with_capacity(96 + body_len + self.name.len() + attributes.len());
        put_fixed64(1, self.time, &mut out);
        put_number(2, number, &mut out);
        put_bytes(3, text.as_bytes(), &mut out);
        if let Some(body) = self.body {
            let body = Value::Text(body.into());
            put_head(5, any_value_len(&body), &mut out);
            put_any_value(&body, &mut out);
        }
        put_number(7, self.attributes.dropped().into(), &mut out);
        if let Some((trace, span, sampled)) = self.context {
            put_fixed32(8, sampled.into(), &mut out);
            put_bytes(9, &trace.to_bytes(), &mut out);
            put_bytes(10, &span.to_bytes(), &mut out);
        }
        put_fixed64(11, self.time, &mut out);
        // `tracing` names an event without a name after its place in the source.
        if !self.name.starts_with("event ") {
            put_bytes(12, self.name.as_bytes(), &mut out);
        }
        let plain = out.len();
        out.extend_from_slice(attributes);
        let trace_id = self.context.map_or(TraceId::INVALID, |(trace, _, _)| trace);
        let head = Head {
            kind: Kind::Log,
            level: self.level,
            target: self.target,
            trace_id,
            time: self.time,
            plain,
            attributes: attributes.len(),
        };
        Record { head, bytes: out }
    }
}

fn put_bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        put_head(tag, bytes.len(), out);
        out.extend_from_slice(bytes);
    }
}

fn put_number(tag: u32, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        encode_key(tag, WireType::Varint, out);
        encode_varint(number, out);
    }
}

fn put_fixed64(tag: u32, number: u64, out: &mut Vec<u8>) {
    encode_key(tag, WireType::SixtyFourBit, out);
    out.put_u64_le(number);
}

fn put_fixed32(tag: u32, number: u32, out: &mut Vec<u8>) {
    encode_key(tag, WireType::ThirtyTwoBit, out);
    out.put_u32_le(number);
}
