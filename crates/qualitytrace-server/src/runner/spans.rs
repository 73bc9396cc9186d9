//! Tracing spans of a run: one span covers it, in the trace of its caller, with a child span for each phase.

use qualitytrace_core::definition::{Test, Trigger};
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::run::Reply;
use qualitytrace_core::trace;
use qualitytrace_core::wait::{Meaning, WaitEnd};
use tracing::Span;
use tracing::field::Empty;

use super::{RunId, SuiteRunId};
use crate::base::redact::Redactor;
use crate::observability::{Caller, RunEnd};
use crate::outbound::trigger::{Context, TriggerError};
use crate::storage::store::unscoped;
use crate::wire::{Outcome, verdict};

/// The span of a run; its log records how it ends. It never keeps the caller's span open.
pub(super) fn run(caller: &Caller, run: &RunId, version: u64, trace: TraceId) -> Span {
    caller.continued(tracing::info_span!(
        parent: None,
        "run",
        otel.name = "Run test",
        otel.status_code = Empty,
        otel.status_message = Empty,
        tracetest.run.id = run.number,
        tracetest.run.test_id = unscoped(&run.test),
        tracetest.run.test_version = version,
        tracetest.run.trace_id = %trace,
        tracetest.run.rerun_of = Empty,
        tracetest.run.state = Empty,
        tracetest.run.outcome = Empty,
        test.case.name = Empty,
        test.case.result.status = Empty,
        error.type = Empty,
    ))
}

/// Records the test in the span of its run.
pub(super) fn note_test(run: &Span, test: &Test) {
    run.record("test.case.name", test.name.as_str());
}

/// Records that a run is about another trace than the generated one.
pub(super) fn note_trace(run: &Span, trace: TraceId) {
    run.record("tracetest.run.trace_id", tracing::field::display(trace));
}

/// Records that a run judges the trace of an earlier one.
pub(super) fn note_rerun(run: &Span, earlier: u64) {
    run.record("tracetest.run.rerun_of", earlier);
}

/// Records how a run ended. A failure of the system under test is an outcome; that there was nothing to judge is an
/// error.
pub(super) fn note_end(run: &Span, end: &RunEnd<'_>) {
    run.record("tracetest.run.state", end.state.as_str());
    if let Some(outcome) = end.outcome {
        run.record("tracetest.run.outcome", outcome.as_str());
        let result = match outcome {
            Outcome::Passed => Some("pass"),
            Outcome::Failed => Some("fail"),
            // The semantic conventions have no third result.
            Outcome::Inconclusive => None,
        };
        run.record("test.case.result.status", result);
    }
    if let Some(failure) = end.failure {
        run.record("error.type", end.state.as_str());
        note_error(run, failure);
    }
}

/// Marks a span as failed, with a message.
fn note_error(span: &Span, message: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_message", message);
}

/// The span of a suite run, parent of the runs of its steps.
pub(super) fn suite(caller: &Caller, run: &SuiteRunId, version: u64) -> Span {
    caller.continued(tracing::info_span!(
        parent: None,
        "suite",
        otel.name = "Run suite",
        otel.status_code = Empty,
        otel.status_message = Empty,
        tracetest.testsuite_run.id = run.number,
        tracetest.testsuite_run.testsuite_id = unscoped(&run.suite),
        tracetest.testsuite_run.testsuite_version = version,
        tracetest.testsuite_run.state = Empty,
        test.suite.run.status = Empty,
    ))
}

/// Records how a suite run ended; a message says why it was not completed.
pub(super) fn note_suite_end(run: &Span, state: &'static str, passed: bool, message: Option<&str>) {
    run.record("tracetest.testsuite_run.state", state);
    run.record("test.suite.run.status", if passed { "success" } else { "failure" });
    if let Some(message) = message {
        note_error(run, message);
    }
}

pub(super) fn resolve(run: &Span) -> Span {
    tracing::info_span!(
        parent: run,
        "resolve",
        otel.name = "Resolve trigger",
        otel.status_code = Empty,
        otel.status_message = Empty,
    )
}

/// Records why the trigger could not be resolved.
pub(super) fn note_unresolved(span: &Span, message: &str) {
    note_error(span, message);
}

pub(super) fn trigger(run: &Span, test: &str, trigger: &Trigger, context: &Context) -> Span {
    tracing::info_span!(
        parent: run,
        "trigger",
        otel.name = "Trigger test",
        otel.status_code = Empty,
        otel.status_message = Empty,
        tracetest.run.trigger.trace_id = %context.trace,
        tracetest.run.trigger.span_id = %context.span,
        tracetest.run.trigger.test_id = unscoped(test),
        tracetest.run.trigger.type = trigger.kind(),
        tracetest.run.trigger.error = Empty,
        tracetest.run.trigger.http.response_code = Empty,
        tracetest.run.trigger.grpc.response_status_code = Empty,
        tracetest.run.trigger.grpc.response_status = Empty,
        tracetest.run.trigger.kafka.partition = Empty,
        tracetest.run.trigger.kafka.offset = Empty,
    )
}

/// Records the reply in the span of the trigger.
pub(super) fn note_reply(span: &Span, sent: &Result<Reply, TriggerError>) {
    match sent {
        Ok(Reply::Http { status, .. }) => {
            span.record("tracetest.run.trigger.http.response_code", status.to_string());
        }
        Ok(Reply::Grpc(reply)) => {
            span.record("tracetest.run.trigger.grpc.response_status_code", reply.code.to_string());
            span.record("tracetest.run.trigger.grpc.response_status", reply.status.as_str());
        }
        Ok(Reply::Kafka { partition, offset }) => {
            span.record("tracetest.run.trigger.kafka.partition", partition.to_string());
            span.record("tracetest.run.trigger.kafka.offset", offset.to_string());
        }
        Ok(Reply::Exec { .. } | Reply::TraceId { .. }) => {}
        Err(failure) => {
            span.record("tracetest.run.trigger.error", failure.message.as_str());
            note_error(span, &failure.message);
        }
    }
}

/// Covers the time from the reply until the run waits for its trace.
pub(super) fn response(run: &Span) -> Span {
    tracing::info_span!(parent: run, "response", otel.name = "Start processing trigger response")
}

/// The spans of one wait for a trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitSpans<'r> {
    pub(super) run: &'r Span,
    pub(super) test: &'r str,
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    /// The trigger's own span, root of all that arrives.
    pub(super) root: &'r trace::Span,
}

impl WaitSpans<'_> {
    /// The wait as a whole.
    pub(super) fn start(&self) -> Span {
        tracing::info_span!(
            parent: self.run,
            "wait",
            otel.name = "Start polling trace",
            otel.status_code = Empty,
            otel.status_message = Empty,
            tracetest.run.trace_poller.trace_id = %self.trace,
            tracetest.run.trace_poller.span_id = %self.span,
            tracetest.run.trace_poller.test_id = unscoped(self.test),
        )
    }

    /// One read of what has arrived.
    pub(super) fn fetch(&self) -> Span {
        tracing::info_span!(
            parent: self.run,
            "fetch",
            otel.name = "Fetching trace",
            otel.status_code = Empty,
            otel.status_message = Empty,
            tracetest.run.trace_poller.trace_id = %self.trace,
            tracetest.run.trace_poller.span_id = %self.span,
            tracetest.run.trace_poller.test_id = unscoped(self.test),
            tracetest.run.trace_poller.amount_retrieved_spans = Empty,
            tracetest.run.trace_poller.error = Empty,
        )
    }

    /// One decision whether the trace is complete.
    pub(super) fn evaluate(&self) -> Span {
        tracing::info_span!(
            parent: self.run,
            "evaluate",
            otel.name = "Evaluating trace",
            tracetest.run.trace_poller.trace_id = %self.trace,
            tracetest.run.trace_poller.span_id = %self.span,
            tracetest.run.trace_poller.test_id = unscoped(self.test),
            tracetest.run.trace_poller.amount_retrieved_spans = Empty,
            // Spelled as tests of the original expect it.
            tracetest.run.trace_poller.succesful = Empty,
            tracetest.run.trace_poller.finish_reason = Empty,
        )
    }
}

/// Records how many spans were read.
pub(super) fn note_spans(span: &Span, spans: usize) {
    span.record("tracetest.run.trace_poller.amount_retrieved_spans", spans);
}

/// Records why a read failed.
pub(super) fn note_failure(span: &Span, error: &dyn std::error::Error) {
    let message = error.to_string();
    span.record("tracetest.run.trace_poller.error", message.as_str());
    note_error(span, &message);
}

/// Records why the wait failed.
pub(super) fn note_no_trace(span: &Span, message: &str) {
    note_error(span, message);
}

/// Records the decision; `None` when the wait goes on.
pub(super) fn note_wait(span: &Span, ended: Option<&WaitEnd>) {
    let complete = ended.is_some_and(|ended| ended.meaning() != Meaning::NoTrace);
    span.record("tracetest.run.trace_poller.succesful", complete);
    if let Some(ended) = ended {
        span.record("tracetest.run.trace_poller.finish_reason", ended.reason.to_string());
    }
}

/// A user's request to stop a run; part of the trace of that request.
pub(super) fn stop() -> Span {
    tracing::info_span!("stop", otel.name = "User Requested Stop Run")
}

pub(super) fn outputs(run: &Span) -> Span {
    tracing::info_span!(
        parent: run,
        "outputs",
        otel.name = "Process outputs",
        tracetest.run.output_processor.outputs = Empty,
    )
}

/// Records the outputs as JSON.
pub(super) fn note_outputs(span: &Span, outputs: &[verdict::Output], redactor: &Redactor) {
    let pairs = outputs.iter().map(|output| (output.name.clone(), output.value.clone().into()));
    let mut object = serde_json::Value::Object(pairs.collect());
    redactor.json(&mut object);
    span.record("tracetest.run.output_processor.outputs", object.to_string());
}

pub(super) fn judge(run: &Span) -> Span {
    tracing::info_span!(
        parent: run,
        "judge",
        otel.name = "Execute assertions",
        tracetest.run.assertion_runner.all_assertions_passed = Empty,
    )
}

/// Records the verdict.
pub(super) fn note_verdict(span: &Span, passed: bool) {
    span.record("tracetest.run.assertion_runner.all_assertions_passed", passed);
}
