//! The server's own telemetry: spans, metrics and log lines about requests and runs.
//!
//! The names of spans and attributes are a contract: tests of the server are written against them. Requests to the OTLP
//! endpoints are never recorded, so that a server that exports to itself causes no feedback loop.

mod instruments;
mod request;
mod shape;

use std::time::Duration;

use axum::Json;
use axum::extract::{self, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, VARY};
use qualitytrace_core::run::{Reply, State};
use qualitytrace_core::{id, names};
use qualitytrace_telemetry::http_server::HttpServer;
use qualitytrace_telemetry::{
    ApplicationSpan, Context, Exposition, Recorded, SpanExt, SpanId, SpanKind, Telemetry, TraceId,
};
use tracing::Span;

use self::instruments::Instruments;
use crate::config::Live;
use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Content, of, operation};
use crate::outbound::trigger;
use crate::receive::ingest::Ingest;
use crate::storage::store::Store;
use crate::wire::Outcome;

/// The routes for metrics and the status of the telemetry, with their descriptions.
pub(crate) fn table() -> Routes<Recorder> {
    let text = Content::Other(Exposition::Prometheus.content_type());
    let metrics_of = operation("The metrics of the server, for Prometheus", [(200, text)]);
    let ledger = Content::Json(of::<shape::Status>);
    let status_of = operation("The sinks of the server's own telemetry", [(200, ledger)]);
    Routes::new().get("/metrics", RequiredAccess::Look, metrics, metrics_of.for_all()).get(
        "/api/telemetry/status",
        RequiredAccess::Look,
        status,
        status_of.for_all(),
    )
}

/// Records the server's own telemetry. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recorder {
    telemetry: Telemetry,
    http: HttpServer,
    instruments: Instruments,
    config: Live,
}

impl Recorder {
    /// Creates a recorder for this telemetry.
    pub fn new(telemetry: Telemetry, config: impl Into<Live>) -> Self {
        let instruments = Instruments::new(&telemetry);
        let http = HttpServer::new(&telemetry, "qualitytrace");
        Self { telemetry, http, instruments, config: config.into() }
    }

    /// Exports the counters of the ingest as metrics.
    pub(crate) fn observe_ingest(&self, ingest: &std::sync::Arc<Ingest>) {
        instruments::observe_ingest(&self.telemetry.meter("qualitytrace"), ingest);
    }

    /// Records the statements of the store as database calls.
    pub(crate) fn observe_store(&self, store: &Store) {
        self.telemetry.observe_database(if store.is_shared() { "postgresql" } else { "sqlite" });
    }

    /// Exports how many runs are queued and how many are under way, as long as `unfinished` returns it.
    pub(crate) fn observe_runs(
        &self,
        unfinished: impl Fn() -> Option<(usize, usize)> + Send + Sync + 'static,
        watched: impl Fn() -> Option<(usize, usize)> + Send + Sync + 'static,
    ) {
        instruments::observe_runs(&self.telemetry.meter("qualitytrace"), unfinished, watched);
    }

    /// Returns the routes for metrics and the status of the telemetry.
    pub(crate) fn routes(&self) -> Routes {
        table().with_state(self.clone())
    }

    /// Records every request to these routes.
    pub(crate) fn requests_to(&self, routes: Routes) -> Routes {
        routes.layer(middleware::from_fn_with_state(self.clone(), request::record))
    }

    /// Measures requests that inner layers refuse before they reach a route.
    pub(crate) fn refusals_of(&self, routes: Routes) -> Routes {
        routes.layer(middleware::from_fn_with_state(self.clone(), request::measure_refused))
    }

    /// Starts the span of the trigger, in the trace of the system under test.
    pub(crate) fn trigger_span(&self, kind: &str, context: &trigger::Context) -> TriggerRecord {
        let trace = TraceId::from_bytes(context.trace.to_bytes());
        let id = SpanId::from_bytes(context.span.to_bytes());
        let tracer = self.telemetry.application_tracer();
        let mut span = tracer.start(names::TRIGGER_SPAN_ALIAS, SpanKind::Client, Some(trace), Some(id));
        span.text("tracetest.run.trigger.type", kind);
        TriggerRecord(span)
    }

    /// Counts a run that ended, and logs it.
    pub(crate) fn run_ended(&self, end: &RunEnd<'_>) {
        self.instruments.run_ended(end.state.as_str(), end.outcome);
        tracing::info!(
            test = end.test,
            run = end.number,
            trace_id = end.trace.map(tracing::field::display),
            state = end.state.as_str(),
            outcome = end.outcome.map(Outcome::as_str),
            reason = end.failure,
            "a run ended"
        );
    }

    /// Records the duration of a phase of a run.
    pub(crate) fn phase(&self, phase: &'static str, took: Duration) {
        self.instruments.phase(phase, took);
    }
}

/// The end of a run, for metrics and log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunEnd<'r> {
    /// The name of the test that its users see.
    pub(crate) test: &'r str,
    /// The number of the run within the test.
    pub(crate) number: u64,
    /// Its trace, if there was one.
    pub(crate) trace: Option<id::TraceId>,
    /// Its final state.
    pub(crate) state: State,
    /// The outcome, if the run was judged.
    pub(crate) outcome: Option<Outcome>,
    /// Why there is no outcome, with secrets redacted.
    pub(crate) failure: Option<&'r str>,
}

impl RunEnd<'_> {
    /// Logs that late spans changed the outcome.
    pub(crate) fn log_correction(&self, before: Outcome) {
        tracing::info!(
            test = self.test,
            run = self.number,
            trace_id = self.trace.map(tracing::field::display),
            before = before.as_str(),
            outcome = self.outcome.map(Outcome::as_str),
            "late spans changed the outcome of a run"
        );
    }
}

/// The span of a trigger that is under way.
pub(crate) struct TriggerRecord(ApplicationSpan);

impl TriggerRecord {
    /// Ends the span with the result of the trigger.
    pub(crate) fn end(mut self, outcome: &Result<Reply, trigger::TriggerError>) {
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

tokio::task_local! {
    /// The caller on whose behalf the current task works.
    static SCOPE: Caller;
}

/// The trace context of the request that started a run: the spans of the run continue that trace, although the request
/// has ended by then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller(Option<Context>);

impl Caller {
    /// Returns the current span, else the caller of the current [`Self::scope`].
    pub(crate) fn current() -> Self {
        let scope = || SCOPE.try_with(|caller| caller.0.clone()).ok().flatten();
        Self(Context::current().or_else(scope))
    }

    /// Runs work that has no span of its own on behalf of the caller: its spans and requests belong to the caller's
    /// trace.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        SCOPE.scope(self, work).await
    }

    /// Makes a span a child in the caller's trace.
    pub(crate) fn continued(&self, span: Span) -> Span {
        if let Some(caller) = &self.0 {
            span.continue_from(caller);
        }
        span
    }
}

/// Enables recording for a request; the connection that it came over is not recorded.
pub(crate) async fn trace_request(request: Request, next: Next) -> Response {
    Recorded::new(next.run(request)).await
}

async fn metrics(
    extract::State(recorder): extract::State<Recorder>,
    headers: HeaderMap,
) -> impl IntoResponse {
    let accept: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let format = Exposition::accepted(&accept.join(","));
    let head = [(CONTENT_TYPE, format.content_type()), (VARY, "accept")];
    (head, recorder.telemetry.exposition(format))
}

async fn status(extract::State(recorder): extract::State<Recorder>) -> impl IntoResponse {
    Json(recorder.telemetry.status())
}
