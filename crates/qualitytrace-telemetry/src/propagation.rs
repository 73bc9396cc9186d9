//! How a trace goes on in another process: contexts, and the headers that carry them.

mod dialect;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use opentelemetry::trace::{SpanId, TraceId, TraceState};
use tracing_subscriber::{Registry, registry::LookupSpan as _};

use crate::{layer::State, span::Parents};
pub use dialect::Propagator;

/// Where a span stands in its trace; what travels between processes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Context {
    /// The trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// Whether somebody records it.
    pub sampled: bool,
    /// Whether the caller left that choice to us.
    pub deferred: bool,
    /// The `tracestate` header, if there was one.
    pub trace_state: Option<Arc<str>>,
    /// The `baggage` header, handed on as it came.
    pub baggage: Option<Arc<str>>,
    /// What only this process knows of one of its own spans.
    local: Option<Local>,
}

/// What a span hands on to a later span of the same process, and to no other process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Local {
    /// What the caller in another process decided; each sink decides by it, as it did for the earlier span.
    pub(crate) remote: Option<bool>,
    /// The nearest ancestor that sinks of each level know.
    pub(crate) parents: Parents,
}

impl Context {
    /// A context without `tracestate` and baggage; `None` leaves the choice to whoever continues it.
    pub fn new(trace_id: TraceId, span_id: SpanId, sampled: Option<bool>) -> Self {
        Self {
            trace_id,
            span_id,
            sampled: sampled.unwrap_or(false),
            deferred: sampled.is_none(),
            trace_state: None,
            baggage: None,
            local: None,
        }
    }

    /// The same with a `baggage` header, already encoded.
    #[must_use]
    pub fn with_baggage(mut self, baggage: &str) -> Self {
        self.baggage = Some(baggage).filter(|baggage| !baggage.is_empty()).map(Into::into);
        self
    }

    /// What the span hands on inside this process; `None` when it is one of another process.
    pub(crate) fn local(&self) -> Option<Local> {
        self.local
    }

    /// A span of this process, with what it hands on inside of it.
    pub(crate) fn with_local(mut self, local: Local) -> Self {
        self.local = Some(local);
        self
    }

    /// Where the current span stands.
    pub fn current() -> Option<Self> {
        tracing::Span::current().telemetry_context()
    }

    /// The `tracestate` with a member in front, as a participant in the trace adds it.
    #[must_use]
    pub fn with_trace_state(mut self, key: &str, value: &str) -> Self {
        let state = self.trace_state.as_deref().unwrap_or_default().parse::<TraceState>().unwrap_or_default();
        if let Ok(state) = state.insert(key.to_owned(), value.to_owned()) {
            self.trace_state = Some(state.header().into());
        }
        self
    }
}

/// The dialects that a process speaks, as `OTEL_PROPAGATORS` or the declarative file lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Propagators(pub Vec<Propagator>);

impl Default for Propagators {
    fn default() -> Self {
        Self(vec![Propagator::TraceContext, Propagator::Baggage])
    }
}

impl std::fmt::Display for Propagators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|propagator| propagator.name()).collect();
        if names.is_empty() { f.write_str("none") } else { f.write_str(&names.join(", ")) }
    }
}

impl Propagators {
    /// What a caller handed on; the last dialect of the list that finds something wins.
    pub fn extract(&self, headers: &HeaderMap) -> Option<Context> {
        let mut found = self.0.iter().rev().find_map(|propagator| propagator.read(headers))?;
        if self.0.contains(&Propagator::Baggage) {
            let baggage = headers.get("baggage").and_then(|value| value.to_str().ok());
            found.baggage = baggage.map(Into::into);
        }
        Some(found)
    }

    /// Hands a context on, in every dialect of the list.
    pub fn inject(&self, context: &Context, headers: &mut HeaderMap) {
        for (name, text) in self.0.iter().flat_map(|propagator| propagator.headers(context)) {
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        }
    }
}

/// What `tracing` spans can say and hear about their trace. Works where the subscriber is built on
/// [`Registry`], as `tracing_subscriber::registry()` does.
pub trait SpanExt {
    /// Where the span stands; `None` when the layer does not see it.
    fn telemetry_context(&self) -> Option<Context>;

    /// Makes the span a child of a caller in another process, or of an earlier span of this one. To be called before
    /// it has children.
    fn continue_from(&self, caller: &Context);
}

impl SpanExt for tracing::Span {
    fn telemetry_context(&self) -> Option<Context> {
        self.with_subscriber(|(id, dispatch)| {
            let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
            // A span that the layer does not see stands where its parent stands.
            span.scope().find_map(|span| {
                let extensions = span.extensions();
                let state = extensions.get::<State>()?;
                Some(Context {
                    trace_state: state.vendor.clone(),
                    baggage: state.baggage.clone(),
                    local: Some(Local { remote: state.remote, parents: state.for_child() }),
                    ..Context::new(state.trace_id, state.span_id, Some(state.sampled))
                })
            })
        })
        .flatten()
    }

    fn continue_from(&self, caller: &Context) {
        self.with_subscriber(|(id, dispatch)| {
            let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
            span.extensions_mut().get_mut::<State>()?.adopt(caller);
            Some(())
        });
    }
}
