//! Spans shared by tests of several topics.

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Dropped, Resource, Scope, Span, SpanKind, Trace};

/// A span `s{at}` with this number for its id, one nanosecond long.
pub(crate) fn span(at: u64, parent: Option<SpanId>) -> Span {
    Span {
        id: SpanId::from_bytes(at.to_be_bytes()),
        parent,
        name: format!("s{at}").into(),
        kind: SpanKind::Internal,
        start: Timestamp::from_nanos(at),
        end: Some(Timestamp::from_nanos(at + 1)),
        status: None,
        attributes: Attributes::default(),
        events: vec![],
        links: vec![],
        resource: Resource::default().into(),
        scope: Scope::default().into(),
        trace_state: "".into(),
        flags: 0,
        dropped: Dropped::default(),
    }
}

/// The trace of these spans.
pub(crate) fn trace(spans: impl Iterator<Item = Span>) -> Trace {
    Trace::assemble(TraceId::from_bytes([1; 16]).expect("not zero"), spans)
}
