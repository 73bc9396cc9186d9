//! Absences: spans that are neither here nor known not to exist.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::trace::SpanKind;

/// A span, or a part of the trace, that may exist although it is not here. An unknown property may have any value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// The service that would have sent it.
    pub of: AffectedServices,
    /// Its side of a call, where it is known.
    pub kind: Option<SpanKind>,
    /// Its name, where it is known.
    pub name: Option<Arc<str>>,
    /// Why its absence is not known, and what to do about it: a sentence.
    pub reason: String,
}

/// The services whose spans may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AffectedServices {
    /// Any service.
    Anyone,
    /// Any service: the spans were sent, and this server refused them. Spans that were found are not in doubt.
    Refused,
    /// This service.
    Service(Arc<str>),
    /// Any service but these, which have sent what they had.
    AnyoneBut(Arc<BTreeSet<Arc<str>>>),
    /// The same, but only where a test names such a service: the call is known to stay without an answer.
    AnyoneButIfNamed(Arc<BTreeSet<Arc<str>>>),
    /// These services, or any if there are none, may still work on what nothing announces: only a claim that asks for more
    /// spans is open.
    StillWorking(Arc<BTreeSet<Arc<str>>>),
}

impl Absence {
    /// An absence due to spans that were sent and refused.
    pub fn of_refused(reason: String) -> Self {
        Self::new(AffectedServices::Refused, reason)
    }

    pub(super) fn new(of: AffectedServices, reason: String) -> Self {
        Self { of, kind: None, name: None, reason }
    }

    /// Whether it leaves claims about all spans of a trace undecided.
    pub fn is_open(&self) -> bool {
        !matches!(self.of, AffectedServices::AnyoneButIfNamed(_) | AffectedServices::StillWorking(_))
    }

    /// An absence that could be any span of any service.
    pub fn of_anyone(reason: String) -> Self {
        Self::new(AffectedServices::Anyone, reason)
    }
}
