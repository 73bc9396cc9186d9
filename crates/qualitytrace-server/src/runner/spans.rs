//! What a run says about itself: a span for each phase, in the trace of whoever asked for it.

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::Reply;
use tracing::Span;
use tracing::field::Empty;

use crate::trigger::{Context, Failure};
use crate::watch::Caller;

pub(super) fn resolve(caller: &Caller) -> Span {
    caller.continued(tracing::info_span!("resolve", otel.name = "Resolve trigger"))
}

pub(super) fn trigger(caller: &Caller, test: &str, trigger: &Trigger, context: &Context) -> Span {
    caller.continued(tracing::info_span!(
        "trigger",
        otel.name = "Trigger test",
        tracetest.run.trigger.trace_id = %context.trace,
        tracetest.run.trigger.span_id = %context.span,
        tracetest.run.trigger.test_id = test,
        tracetest.run.trigger.type = trigger.kind(),
        tracetest.run.trigger.error = Empty,
        tracetest.run.trigger.http.response_code = Empty,
    ))
}

/// Writes what came back into the span of the trigger.
pub(super) fn note_reply(span: &Span, sent: &Result<Reply, Failure>) {
    match sent {
        Ok(Reply::Http { status, .. }) => {
            span.record("tracetest.run.trigger.http.response_code", status.to_string());
        }
        Ok(_) => {}
        Err(failure) => {
            span.record("tracetest.run.trigger.error", failure.message.as_str());
        }
    }
}

pub(super) fn wait(caller: &Caller, test: &str, trace: TraceId) -> Span {
    caller.continued(tracing::info_span!(
        "wait",
        otel.name = "Start polling trace",
        tracetest.run.trace_poller.trace_id = %trace,
        tracetest.run.trace_poller.test_id = test,
    ))
}

pub(super) fn judge(caller: &Caller) -> Span {
    caller.continued(tracing::info_span!(
        "judge",
        otel.name = "Execute assertions",
        tracetest.run.assertion_runner.all_assertions_passed = Empty,
    ))
}

/// Writes the verdict into the span of the judge.
pub(super) fn note_verdict(span: &Span, passed: bool) {
    span.record("tracetest.run.assertion_runner.all_assertions_passed", passed);
}
