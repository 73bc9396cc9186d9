//! Spans that are neither here nor known to be absent.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::trace::SpanKind;

/// A span, or a part of the trace, that may exist although it is not here. What is not known about it is anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// Whose it would be.
    pub of: Whose,
    /// Its side of a call, where it is known.
    pub kind: Option<SpanKind>,
    /// Its name, where it is known.
    pub name: Option<Arc<str>>,
    /// Why it cannot be said, and what to do: a sentence.
    pub reason: String,
}

/// Whose spans may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// Anyone's.
    Anyone,
    /// Anyone's: it was sent, and this server refused it. What was found all the same is not in doubt.
    Refused,
    /// This service's.
    Service(Arc<str>),
    /// Anyone's but these: they were heard, and have sent what they had.
    AnyoneBut(Arc<BTreeSet<Arc<str>>>),
    /// The same, but only where a test names such a service: the call is known to stay without an answer.
    AnyoneButIfNamed(Arc<BTreeSet<Arc<str>>>),
}

impl Absence {
    /// Something that was sent and refused.
    pub fn of_refused(reason: String) -> Self {
        Self::new(Whose::Refused, reason)
    }

    pub(super) fn new(of: Whose, reason: String) -> Self {
        Self { of, kind: None, name: None, reason }
    }

    /// Whether it leaves open what is said of all spans of a trace.
    pub fn is_open(&self) -> bool {
        !matches!(self.of, Whose::AnyoneButIfNamed(_))
    }

    /// A part that could be anything.
    pub fn of_anyone(reason: String) -> Self {
        Self::new(Whose::Anyone, reason)
    }
}
