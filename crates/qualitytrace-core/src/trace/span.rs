//! One span, with all fields of OTLP.

use std::sync::Arc;
use std::time::Duration;

use crate::id::{SpanId, TraceId};
use crate::time::Timestamp;
use crate::value::Value;

/// One operation of one service.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The span's id inside its trace. `None` when it was sent without one.
    pub id: Option<SpanId>,
    /// The span that caused this one; `None` for a root.
    pub parent: Option<SpanId>,
    /// The operation.
    pub name: Arc<str>,
    /// The side of a call that this span represents.
    pub kind: SpanKind,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; `None` while it is still running.
    pub end: Option<Timestamp>,
    /// The status; `None` when the sender did not set it.
    pub status: Option<Status>,
    /// The span's own attributes.
    pub attributes: Attributes,
    /// Events during the span.
    pub events: Vec<Event>,
    /// Links to other spans.
    pub links: Vec<Link>,
    /// The process that sent it.
    pub resource: Arc<Resource>,
    /// The library that recorded it.
    pub scope: Arc<Scope>,
    /// W3C `tracestate`, as sent.
    pub trace_state: Arc<str>,
    /// W3C trace flags and OTLP's own bits above them.
    pub flags: u32,
    /// Counts of what the sender itself dropped.
    pub dropped: Dropped,
}

impl Span {
    /// Returns its duration; zero while it is still running, when it was sent without a start, or when it ends
    /// before it begins.
    pub fn duration(&self) -> Duration {
        match self.end {
            Some(end) if self.start != Timestamp::default() => end.since(self.start),
            Some(_) | None => Duration::ZERO,
        }
    }

    /// Returns `service.name` of the process that sent it; empty when that process did not set it.
    pub fn service(&self) -> &str {
        match self.resource.attributes.get("service.name") {
            Some(Value::String(name)) => name,
            _ => "",
        }
    }

    /// Returns the attribute of this name: the span's own, else the scope's, else the resource's.
    pub fn attribute(&self, name: &str) -> Option<&Value> {
        self.attributes
            .get(name)
            .or_else(|| self.scope.attributes.get(name))
            .or_else(|| self.resource.attributes.get(name))
    }
}

/// The side of a call that a span represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum SpanKind {
    /// The sender did not set it.
    #[default]
    Unspecified,
    /// Work inside one service.
    Internal,
    /// Answers a call.
    Server,
    /// Makes a call.
    Client,
    /// Sends a message.
    Producer,
    /// Handles a message.
    Consumer,
}

impl SpanKind {
    /// Returns the word that users write.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Internal => "internal",
            Self::Server => "server",
            Self::Client => "client",
            Self::Producer => "producer",
            Self::Consumer => "consumer",
        }
    }
}

/// The status of a span.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The status code.
    pub code: StatusCode,
    /// The sender's description; empty when there is none.
    pub message: Arc<str>,
}

/// A status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StatusCode {
    /// Not set.
    #[default]
    Unset,
    /// Explicitly successful.
    Ok,
    /// Failed.
    Error,
}

/// An event during a span.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When it happened.
    pub time: Timestamp,
    /// Its name.
    pub name: Arc<str>,
    /// Its attributes.
    pub attributes: Attributes,
    /// How many attributes the sender dropped.
    pub dropped_attributes: u32,
}

/// A link to another span, in this trace or another.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// The other span's trace.
    pub trace: Option<TraceId>,
    /// The other span.
    pub span: Option<SpanId>,
    /// W3C `tracestate` of the link, as sent.
    pub trace_state: Arc<str>,
    /// Its attributes.
    pub attributes: Attributes,
    /// How many attributes the sender dropped.
    pub dropped_attributes: u32,
    /// W3C trace flags of the link.
    pub flags: u32,
}

/// The process that sent a span.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resource {
    /// The attributes that describe it.
    pub attributes: Attributes,
    /// How many attributes the sender dropped.
    pub dropped_attributes: u32,
    /// The semantic-convention version that it claims to follow.
    pub schema_url: Arc<str>,
}

/// The library that recorded a span.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scope {
    /// The library's name.
    pub name: Arc<str>,
    /// The library's version.
    pub version: Arc<str>,
    /// Its attributes.
    pub attributes: Attributes,
    /// How many attributes the sender dropped.
    pub dropped_attributes: u32,
    /// The semantic-convention version that it claims to follow.
    pub schema_url: Arc<str>,
}

/// How much the sender dropped of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Dropped attributes.
    pub attributes: u32,
    /// Dropped events.
    pub events: u32,
    /// Dropped links.
    pub links: u32,
}

/// Up to this many attributes are searched linearly.
const FEW: usize = 24;

/// Named values, sorted by name: one value per name, the last one given wins.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes(Vec<(Arc<str>, Value)>);

impl Attributes {
    /// Returns the value of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        // Few names have the same length, and the length is stored beside the pointer: a linear search follows
        // fewer pointers than a binary one.
        if self.0.len() <= FEW {
            return self.0.iter().find(|(known, _)| **known == *name).map(|(_, value)| value);
        }
        self.position(name).ok().map(|at| &self.0[at].1)
    }

    /// Sets the value of this name.
    pub fn set(&mut self, name: impl Into<Arc<str>>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.position(&name) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Value)> for Attributes {
    fn from_iter<T: IntoIterator<Item = (N, Value)>>(pairs: T) -> Self {
        let mut pairs: Vec<(Arc<str>, Value)> =
            pairs.into_iter().map(|(name, value)| (name.into(), value)).collect();
        // A stable sort keeps equal names in the order given, so the last of them is the one to keep.
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|next, kept| next.0 == kept.0);
        pairs.reverse();
        Self(pairs)
    }
}
