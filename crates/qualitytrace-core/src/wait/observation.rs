//! What the spans of a trace show about the services of a system, for the [register](super::Register).

use std::sync::Arc;
use std::time::Duration;

use super::process::Identity;
use crate::id::SpanId;
use crate::time::Timestamp;
use crate::trace::SpanKind;

/// Observations that were made since the last ones were taken.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    pub(super) calls: Vec<ObservedCall>,
    pub(super) edges: Vec<Edge>,
    pub(super) pairs: Vec<ClockPair>,
    pub(super) entries: Vec<Entry>,
}

/// The kind of the calls that this server makes itself.
pub(super) const TRIGGER: u64 = u64::MAX;

/// A call that was answered, or a message that was sent.
#[derive(Debug, Clone)]
pub(super) struct ObservedCall {
    /// The address, RPC service or destination that was called.
    pub(super) address: Arc<str>,
    pub(super) span: Option<SpanId>,
    /// Tells the kinds of calls at one address apart.
    pub(super) kind: u64,
    /// When it ended, by this server's clock as far as that is known.
    pub(super) end: Timestamp,
    /// The service whose span answers it, and how long that span took.
    pub(super) answer: Option<(Arc<str>, Duration)>,
}

/// A service has caused work in another one.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) from: Arc<str>,
    pub(super) to: Arc<str>,
    /// Whether no call stands between them: then the spans of the caller do not tell whom it reached.
    pub(super) is_bare: bool,
}

/// The clocks of two processes, compared.
#[derive(Debug, Clone)]
pub(super) struct ClockPair {
    /// The process that called; `None` for the trigger, whose clock is this server's.
    pub(super) caller: Option<(Arc<str>, Identity)>,
    pub(super) server: (Arc<str>, Identity),
    /// By how much the server's clock is ahead of the caller's, in nanoseconds.
    pub(super) ahead: i64,
}

/// A span with which a service begins to work for a trace, and for how long it worked on after that span.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) service: Arc<str>,
    /// The name of the span, with numbers and ids folded.
    pub(super) name: Arc<str>,
    pub(super) span: Option<SpanId>,
    pub(super) end: Timestamp,
    /// How long after its end the last span of the same process below it ended.
    pub(super) later: Duration,
    /// The side of a call and the name of that span, if there is one; no name if numbers and ids were folded in it.
    pub(super) latest: Option<(SpanKind, Option<Arc<str>>)>,
}

impl Observations {
    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.edges.is_empty() && self.pairs.is_empty() && self.entries.is_empty()
    }

    /// Keeps of the calls only those that were answered: the rest of a trace that no run waits for may not be here yet.
    #[must_use]
    pub fn of_answers(mut self) -> Self {
        self.calls.retain(|call| call.answer.is_some());
        self
    }

    /// Leaves out what has a text that must not be kept.
    pub fn retain(&mut self, is_shown: impl Fn(&str) -> bool) {
        self.calls.retain(|call| {
            is_shown(&call.address) && call.answer.as_ref().is_none_or(|(service, _)| is_shown(service))
        });
        self.edges.retain(|edge| is_shown(&edge.from) && is_shown(&edge.to));
        self.entries.retain(|entry| is_shown(&entry.service) && is_shown(&entry.name));
    }
}
