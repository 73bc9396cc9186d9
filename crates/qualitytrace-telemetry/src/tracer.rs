//! Manual spans with given ids: the trigger of a test is the root of a trace that another service continues.

use std::{borrow::Cow, sync::Arc, time::Instant};

use opentelemetry::trace::{SpanId, SpanKind, TraceId};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};

use crate::{
    attributes::{Value, shorten},
    clock,
    config::{Level, Role},
    layer::Shared,
    propagation::Context,
    span::{Span, Status},
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
    /// Begins a root span. Ids that are `None` are generated.
    pub fn start(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        trace_id: Option<TraceId>,
        span_id: Option<SpanId>,
    ) -> ApplicationSpan {
        let ids = RandomIdGenerator::default();
        let trace_id = trace_id.unwrap_or_else(|| ids.new_trace_id());
        let ids = (trace_id, span_id.unwrap_or_else(|| ids.new_span_id()));
        let span = Span::new(Role::Application, Level::Error, ids, name.into(), clock::now());
        let mut span = span.limited(self.0.limits.get());
        span.kind = kind;
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
    /// The context of the span, for propagation in headers.
    pub fn context(&self) -> Context {
        let ids = self.span.as_ref().map(|span| (span.trace_id, span.id));
        let (trace_id, span_id) = ids.unwrap_or((TraceId::INVALID, SpanId::INVALID));
        Context::new(trace_id, span_id, Some(self.sampled))
    }

    fn put(&mut self, key: &str, value: &Value<'_>) {
        if let Some(span) = self.span.as_mut() {
            span.attributes.put(key, value);
        }
    }

    /// Sets a text attribute.
    pub fn text(&mut self, key: &str, value: impl AsRef<str>) {
        self.put(key, &Value::text(value.as_ref()));
    }

    /// Sets a number attribute.
    pub fn number(&mut self, key: &str, value: i64) {
        self.put(key, &Value::Int(value));
    }

    /// Sets the status of the span to error.
    pub fn failed(&mut self, message: impl AsRef<str>) {
        if let Some(span) = self.span.as_mut() {
            span.status = Status::Error;
            shorten(message.as_ref()).clone_into(&mut span.status_message);
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
            self.shared.intake.push(&span.record());
        }
    }
}
