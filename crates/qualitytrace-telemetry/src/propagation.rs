//! W3C trace context in and out.

use std::{collections::HashMap, sync::Arc};

use opentelemetry::{
    propagation::TextMapPropagator as _,
    trace::{SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing_subscriber::{Registry, registry::LookupSpan as _};

use crate::layer::State;

/// Where a span stands in its trace; what travels between processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// Whether somebody records it.
    pub sampled: bool,
    /// The `tracestate` header, if there was one.
    pub trace_state: Option<Arc<str>>,
    /// The `baggage` header, handed on as it came.
    pub baggage: Option<Arc<str>>,
}

impl Context {
    /// Reads `traceparent`, `tracestate` and `baggage`. `None` without a valid `traceparent`.
    pub fn from_headers(headers: &http::HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let carrier: HashMap<String, String> = ["traceparent", "tracestate"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), text(name)?)))
            .collect();
        let context =
            TraceContextPropagator::new().extract_with_context(&opentelemetry::Context::new(), &carrier);
        let span = context.span();
        let found = span.span_context();
        found.is_valid().then(|| Self {
            trace_id: found.trace_id(),
            span_id: found.span_id(),
            sampled: found.is_sampled(),
            trace_state: Some(found.trace_state().header()).filter(|text| !text.is_empty()).map(Into::into),
            baggage: text("baggage").map(Into::into),
        })
    }

    /// Writes `traceparent`, `tracestate` and `baggage`.
    pub fn to_headers(&self, headers: &mut http::HeaderMap) {
        let flags = if self.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let parent = format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, flags.to_u8());
        let mut put = |name: &'static str, text: &str| {
            if let Ok(value) = http::HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        put("traceparent", &parent);
        if let Some(state) = &self.trace_state {
            put("tracestate", state);
        }
        if let Some(baggage) = &self.baggage {
            put("baggage", baggage);
        }
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

/// What `tracing` spans can say and hear about their trace. Works where the subscriber is built on
/// [`Registry`], as `tracing_subscriber::registry()` does.
pub trait SpanExt {
    /// Where the span stands; `None` when the layer does not see it.
    fn telemetry_context(&self) -> Option<Context>;

    /// Makes the span a child of a caller in another process. To be called before it has children.
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
                    trace_id: state.trace_id,
                    span_id: state.span_id,
                    sampled: state.sampled,
                    trace_state: state.vendor.clone(),
                    baggage: state.baggage.clone(),
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
