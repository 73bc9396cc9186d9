//! Open spans of the OpenTelemetry API, which are parents of `tracing` spans.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use opentelemetry::{
    Context as ApiContext,
    trace::{SpanId, TraceContextExt as _},
};

use crate::propagation::{Context, Local};

/// The open spans of the API, so that their children inherit the sampling decision.
#[derive(Debug, Default)]
pub(crate) struct ApiSpans {
    serves: AtomicBool,
    open: Mutex<HashMap<SpanId, Local>>,
}

impl ApiSpans {
    /// Declares that this telemetry serves the API.
    pub(crate) fn serve(&self) {
        self.serves.store(true, Relaxed);
    }

    /// The open spans, by their ids.
    pub(crate) fn open(&self) -> MutexGuard<'_, HashMap<SpanId, Local>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The span of the API that is current, if this telemetry serves the API.
    pub(crate) fn current(&self) -> Option<Context> {
        if !self.serves.load(Relaxed) {
            return None;
        }
        ApiContext::map_current(|current| self.of(current))
    }

    /// The span of an API context.
    pub(crate) fn of(&self, context: &ApiContext) -> Option<Context> {
        let span = context.span();
        let place = span.span_context();
        if !place.is_valid() {
            return None;
        }
        let state = place.trace_state().header();
        let mut found = Context::new(place.trace_id(), place.span_id(), Some(place.is_sampled()));
        found.trace_state = Some(state).filter(|state| !state.is_empty()).map(Into::into);
        Some(match self.open().get(&place.span_id()) {
            Some(local) => found.with_local(*local),
            None => found,
        })
    }
}
