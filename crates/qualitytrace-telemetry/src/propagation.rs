//! Context propagation between processes: trace contexts, and the headers that carry them.

mod dialect;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use opentelemetry::trace::{SpanId, TraceId, TraceState};

pub use dialect::Propagator;

/// The nearest ancestor that a sink of each level takes; index 0 is `trace`, 4 is `error`.
///
/// A sink that declines a `debug` span must not send children that point to it.
pub(crate) type Parents = [SpanId; 5];

/// A span context, as it is propagated between processes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Context {
    /// The trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// Whether it is sampled.
    pub sampled: bool,
    /// Whether the caller deferred the sampling decision.
    pub deferred: bool,
    /// The `tracestate` header, if there was one.
    pub trace_state: Option<Arc<str>>,
    /// The `baggage` header, forwarded unchanged.
    pub baggage: Option<Arc<str>>,
    /// Data of a span of this process that is not propagated.
    local: Option<Local>,
}

/// What a span passes to a later span of the same process, and to no other process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Local {
    /// The sampling decision of the caller in another process; each sink follows it as for the earlier span.
    pub(crate) remote: Option<bool>,
    /// The nearest ancestor that sinks of each level know.
    pub(crate) parents: Parents,
}

impl Context {
    /// A context without `tracestate` and baggage; `None` defers the sampling decision to the receiver.
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

    /// Sets the `baggage` header, already encoded.
    #[must_use]
    pub fn with_baggage(mut self, baggage: &str) -> Self {
        self.baggage = Some(baggage).filter(|baggage| !baggage.is_empty()).map(Into::into);
        self
    }

    /// The data of a span of this process; `None` for a span of another process.
    pub(crate) fn local(&self) -> Option<Local> {
        self.local
    }

    /// Sets the data of a span of this process.
    pub(crate) fn with_local(mut self, local: Local) -> Self {
        self.local = Some(local);
        self
    }

    /// Adds a member at the front of `tracestate`, as a participant in the trace does.
    #[must_use]
    pub fn with_trace_state(mut self, key: &str, value: &str) -> Self {
        let state = self.trace_state.as_deref().unwrap_or_default().parse::<TraceState>().unwrap_or_default();
        if let Ok(state) = state.insert(key.to_owned(), value.to_owned()) {
            self.trace_state = Some(state.header().into());
        }
        self
    }
}

/// The propagators of a process, as `OTEL_PROPAGATORS` or the declarative file lists them.
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
    /// Extracts the caller's context; the last propagator of the list that finds one wins.
    pub fn extract(&self, headers: &HeaderMap) -> Option<Context> {
        let mut found = self.0.iter().rev().find_map(|propagator| propagator.read(headers))?;
        if self.0.contains(&Propagator::Baggage) {
            let baggage = headers.get("baggage").and_then(|value| value.to_str().ok());
            found.baggage = baggage.map(Into::into);
        }
        Some(found)
    }

    /// Injects a context with every propagator of the list.
    pub fn inject(&self, context: &Context, headers: &mut HeaderMap) {
        for (name, text) in self.0.iter().flat_map(|propagator| propagator.headers(context)) {
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        }
    }
}
