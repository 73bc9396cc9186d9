//! Spans with only the fields that matter for waiting.

use std::sync::Arc;

use qualitytrace_core::id::SpanId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Dropped, Link, Resource, Scope, Span, SpanKind};
use qualitytrace_core::value::Value;

/// The parts shared by all spans, made once.
#[derive(Clone)]
pub(super) struct Maker {
    scope: Arc<Scope>,
    trace_state: Arc<str>,
}

impl Maker {
    pub(super) fn new() -> Self {
        Self { scope: Arc::new(Scope::default()), trace_state: "".into() }
    }

    pub(super) fn span(
        &self,
        id: u64,
        parent: u64,
        resource: &Arc<Resource>,
        kind: SpanKind,
        name: &Arc<str>,
        (start, end): (u64, u64),
    ) -> Span {
        Span {
            id: span_id(id),
            parent: span_id(parent),
            name: Arc::clone(name),
            kind,
            start: Timestamp::from_nanos(start),
            end: Some(Timestamp::from_nanos(end)),
            status: None,
            attributes: Attributes::default(),
            events: vec![],
            links: vec![],
            resource: Arc::clone(resource),
            scope: Arc::clone(&self.scope),
            trace_state: Arc::clone(&self.trace_state),
            flags: 0,
            dropped: Dropped::default(),
        }
    }
}

pub(super) fn span_id(id: u64) -> Option<SpanId> {
    SpanId::from_bytes(id.to_be_bytes())
}

pub(super) fn service(name: &str) -> Arc<Resource> {
    Arc::new(Resource {
        attributes: [("service.name", Value::from(name))].into_iter().collect(),
        ..Resource::default()
    })
}

pub(super) fn attributes(names: &[&str]) -> Attributes {
    let pair = |text: &&str| {
        let (name, value) = text.split_once('=').unwrap_or((text, "x"));
        (name.to_owned(), Value::from(value))
    };
    names.iter().map(pair).collect()
}

pub(super) fn link(id: u64) -> Link {
    Link {
        trace: None,
        span: span_id(id),
        trace_state: "".into(),
        attributes: Attributes::default(),
        dropped_attributes: 0,
        flags: 0,
    }
}
