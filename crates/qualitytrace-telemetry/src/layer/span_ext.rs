//! The trace context of `tracing` spans.

use tracing_subscriber::{Registry, registry::LookupSpan as _};

use super::State;
use crate::propagation::{Context, Local};

impl Context {
    /// The context of the current span.
    pub fn current() -> Option<Self> {
        tracing::Span::current().telemetry_context()
    }
}

/// Access to the trace context of `tracing` spans. Works where the subscriber is built on [`Registry`], as
/// `tracing_subscriber::registry()` is.
pub trait SpanExt {
    /// The context of the span; `None` when the layer does not record it.
    fn telemetry_context(&self) -> Option<Context>;

    /// Makes the span a child of a caller in another process, or of an earlier span of this process. Must be called
    /// before it has children.
    fn continue_from(&self, caller: &Context);
}

impl SpanExt for tracing::Span {
    fn telemetry_context(&self) -> Option<Context> {
        self.with_subscriber(|(id, dispatch)| {
            let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
            // A span that the layer does not record has the context of its parent.
            span.scope().find_map(|span| {
                let extensions = span.extensions();
                let state = extensions.get::<State>()?;
                let mut context = Context::new(state.trace_id, state.span_id, Some(state.sampled));
                context.trace_state.clone_from(&state.vendor);
                context.baggage.clone_from(&state.baggage);
                Some(context.with_local(Local { remote: state.remote, parents: state.for_child() }))
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
