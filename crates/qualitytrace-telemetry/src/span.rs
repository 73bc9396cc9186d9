//! Spans and log records between the call site and the encoder: cheap to fill, owned, not yet OTLP.

use std::{borrow::Cow, sync::Arc};

use opentelemetry::trace::{SpanId, SpanKind, TraceId};

use crate::config::{Level, Role};

/// An attribute's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

pub(crate) type Attribute = (Cow<'static, str>, Value);

/// The nearest ancestor that a sink of each level takes; index 0 is `trace`, 4 is `error`.
///
/// A sink that declines a `debug` span must not send children that point to it.
pub(crate) type Parents = [SpanId; 5];

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
    pub(crate) trace_id: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parents: Parents,
    /// What the caller in another process decided.
    pub(crate) remote: Option<bool>,
    /// Whether the parent lives in another process.
    pub(crate) remote_parent: bool,
    pub(crate) trace_state: Option<Arc<str>>,
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) dropped_attributes: u32,
    pub(crate) events: Vec<Event>,
    pub(crate) dropped_events: u32,
    /// Spans that it follows from.
    pub(crate) links: Vec<(TraceId, SpanId)>,
    pub(crate) status: Status,
    pub(crate) status_message: String,
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) level: Level,
    pub(crate) time: u64,
    pub(crate) name: Cow<'static, str>,
    pub(crate) attributes: Vec<Attribute>,
}

#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) level: Level,
    pub(crate) time: u64,
    pub(crate) name: Cow<'static, str>,
    pub(crate) target: Cow<'static, str>,
    pub(crate) body: Option<String>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) context: Option<(TraceId, SpanId, bool)>,
}

/// What goes through the intake.
#[derive(Debug)]
pub(crate) enum Record {
    Span(Box<Span>),
    Log(Box<Log>),
}

impl Record {
    /// When it was made, in nanoseconds since 1970.
    pub(crate) fn time(&self) -> u64 {
        match self {
            Self::Span(span) => span.end,
            Self::Log(log) => log.time,
        }
    }
}

/// Limits of the OpenTelemetry specification.
pub(crate) const MAX_ATTRIBUTES: usize = 128;
pub(crate) const MAX_EVENTS: usize = 128;
pub(crate) const MAX_LINKS: usize = 128;
/// A longer text is cut; a span with a megabyte in it helps nobody.
pub(crate) const MAX_TEXT: usize = 16 << 10;

/// Cuts a text at a character's border.
pub(crate) fn shorten(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let mut end = MAX_TEXT;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}
