//! Spans that the application makes by hand, with ids of its own choice: the trigger of a test is
//! the root of a trace that somebody else continues.

use std::{borrow::Cow, sync::Arc, time::Instant};

use opentelemetry::trace::{SpanId, SpanKind, TraceId};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};

use crate::{
    clock,
    config::{Level, Role},
    layer::Shared,
    propagation::Context,
    span::{MAX_ATTRIBUTES, Record, Span, Status, Value, shorten},
};

/// Makes spans for the sinks of `applicationExporter`, and for no others.
#[derive(Clone)]
pub struct ApplicationTracer(pub(crate) Arc<Shared>);

impl std::fmt::Debug for ApplicationTracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApplicationTracer")
    }
}

impl ApplicationTracer {
    /// Begins a root span. Ids that are `None` are made up.
    pub fn start(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        trace_id: Option<TraceId>,
        span_id: Option<SpanId>,
    ) -> ApplicationSpan {
        let ids = RandomIdGenerator::default();
        let trace_id = trace_id.unwrap_or_else(|| ids.new_trace_id());
        let span = Span {
            role: Role::Application,
            level: Level::Error,
            trace_id,
            id: span_id.unwrap_or_else(|| ids.new_span_id()),
            parents: [SpanId::INVALID; 5],
            remote: None,
            remote_parent: false,
            trace_state: None,
            name: name.into(),
            kind,
            start: clock::now(),
            end: 0,
            attributes: Vec::new(),
            dropped_attributes: 0,
            events: Vec::new(),
            dropped_events: 0,
            links: Vec::new(),
            status: Status::Unset,
            status_message: String::new(),
        };
        let sampled = self.0.sinks.with(|set| set.samples(Role::Application, trace_id, None));
        ApplicationSpan { span: Some(Box::new(span)), shared: self.0.clone(), clock: Instant::now(), sampled }
    }
}

/// A span of the application tracer; it ends when it is dropped.
pub struct ApplicationSpan {
    span: Option<Box<Span>>,
    shared: Arc<Shared>,
    clock: Instant,
    sampled: bool,
}

impl std::fmt::Debug for ApplicationSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ApplicationSpan").field(&self.context()).finish()
    }
}

impl ApplicationSpan {
    /// Where the span stands, to be handed on in headers.
    pub fn context(&self) -> Context {
        let ids = self.span.as_ref().map(|span| (span.trace_id, span.id));
        let (trace_id, span_id) = ids.unwrap_or((TraceId::INVALID, SpanId::INVALID));
        Context { trace_id, span_id, sampled: self.sampled, trace_state: None, baggage: None }
    }

    fn put(&mut self, key: impl Into<Cow<'static, str>>, value: Value) {
        if let Some(span) = self.span.as_mut() {
            if span.attributes.len() < MAX_ATTRIBUTES {
                span.attributes.push((key.into(), value));
            } else {
                span.dropped_attributes += 1;
            }
        }
    }

    /// Sets an attribute that is a text.
    pub fn text(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.put(key, Value::Text(shorten(value.into())));
    }

    /// Sets an attribute that is a number.
    pub fn number(&mut self, key: impl Into<Cow<'static, str>>, value: i64) {
        self.put(key, Value::Int(value));
    }

    /// Says that what the span stands for failed.
    pub fn failed(&mut self, message: impl Into<String>) {
        if let Some(span) = self.span.as_mut() {
            span.status = Status::Error;
            span.status_message = shorten(message.into());
        }
    }

    /// Ends the span now.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for ApplicationSpan {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            span.end = span.start + u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(0);
            // Sampled or not: the sinks count what they decline.
            self.shared.intake.push(Record::Span(span));
        }
    }
}
