//! How this server watches itself: what it says about requests and runs, in spans and numbers.
//!
//! The names of spans and attributes are a contract: tests of the server are written against them. Requests to the OTLP
//! endpoints are never recorded, so that a server that exports to itself does not feed itself.

mod instruments;
mod request;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Router, middleware};
use http::header::CONTENT_TYPE;
use qualitytrace_core::names;
use qualitytrace_core::run::Reply;
use qualitytrace_telemetry::{
    ApplicationSpan, Context, OPENMETRICS, SpanExt, SpanId, SpanKind, Telemetry, TraceId,
};
use tracing::Span;

use self::instruments::Instruments;
pub(crate) use self::request::REQUEST_ID;
use crate::config::Live;
use crate::ingest::Ingest;
use crate::store::Store;
use crate::trigger;
use crate::wire::Outcome;

/// The server's eye on itself. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Watch {
    telemetry: Telemetry,
    instruments: Instruments,
    config: Live,
}

impl Watch {
    /// Records into this telemetry.
    pub fn new(telemetry: Telemetry, config: impl Into<Live>) -> Self {
        let instruments = Instruments::new(&telemetry);
        Self { telemetry, instruments, config: config.into() }
    }

    /// Shows what the ingest takes in.
    pub(crate) fn observe_ingest(&self, ingest: &std::sync::Arc<Ingest>) {
        instruments::observe_ingest(&self.telemetry.meter("qualitytrace"), ingest);
    }

    /// Records the statements of the store.
    pub(crate) fn observe_store(&self, store: &Store) {
        self.telemetry.observe_database(if store.is_shared() { "postgresql" } else { "sqlite" });
    }

    /// Shows how many runs wait for their turn and how many are under way, as long as there is anybody who knows.
    pub(crate) fn observe_runs(
        &self,
        unfinished: impl Fn() -> Option<(usize, usize)> + Send + Sync + 'static,
    ) {
        instruments::observe_runs(&self.telemetry.meter("qualitytrace"), unfinished);
    }

    /// The routes that show what was recorded.
    pub(crate) fn routes(&self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .route("/api/telemetry/status", get(status))
            .with_state(self.clone())
    }

    /// Records every request to these routes.
    pub(crate) fn requests_to(&self, routes: Router) -> Router {
        routes.layer(middleware::from_fn_with_state(self.clone(), request::record))
    }

    /// Begins the span that stands for the trigger, in the trace of the system under test.
    pub(crate) fn trigger_span(&self, kind: &str, context: &trigger::Context) -> TriggerRecord {
        let trace = TraceId::from_bytes(context.trace.to_bytes());
        let id = SpanId::from_bytes(context.span.to_bytes());
        let tracer = self.telemetry.application_tracer();
        let mut span = tracer.start(names::TRIGGER_SPAN_ALIAS, SpanKind::Client, Some(trace), Some(id));
        span.text("tracetest.run.trigger.type", kind);
        TriggerRecord(span)
    }

    /// Counts a run that ended, and how long its phases took.
    pub(crate) fn run_ended(&self, state: &'static str, outcome: Option<Outcome>) {
        self.instruments.run_ended(state, outcome);
    }

    /// Records how long a phase of a run took.
    pub(crate) fn phase(&self, phase: &'static str, took: Duration) {
        self.instruments.phase(phase, took);
    }
}

/// The trigger's own span on its way.
pub(crate) struct TriggerRecord(ApplicationSpan);

impl TriggerRecord {
    /// Ends it with what came back.
    pub(crate) fn end(mut self, outcome: &Result<Reply, trigger::Failure>) {
        match outcome {
            Ok(Reply::Http { status, .. }) => self.0.text(names::RESPONSE_STATUS, status.to_string()),
            Ok(Reply::Grpc(reply)) => self.0.text(names::RESPONSE_STATUS, reply.code.to_string()),
            Ok(Reply::Exec { code, .. }) => self.0.text(names::RESPONSE_STATUS, code.to_string()),
            Ok(Reply::Kafka { partition, offset }) => {
                self.0.text("tracetest.run.trigger.kafka.partition", partition.to_string());
                self.0.text("tracetest.run.trigger.kafka.offset", offset.to_string());
            }
            Ok(Reply::TraceId { .. }) => {}
            Err(failure) => self.0.failed(failure.message.clone()),
        }
        self.0.end();
    }
}

/// Whoever asked for a run: its spans continue that trace, although the request itself is over by then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller(Option<Context>);

impl Caller {
    /// The span that is current now.
    pub(crate) fn current() -> Self {
        Self(Context::current())
    }

    /// Makes a span part of the caller's trace.
    pub(crate) fn continued(&self, span: Span) -> Span {
        if let Some(caller) = &self.0 {
            span.continue_from(caller);
        }
        span
    }
}

async fn metrics(State(watch): State<Watch>) -> impl IntoResponse {
    ([(CONTENT_TYPE, OPENMETRICS)], watch.telemetry.prometheus())
}

async fn status(State(watch): State<Watch>) -> impl IntoResponse {
    Json(watch.telemetry.status())
}
