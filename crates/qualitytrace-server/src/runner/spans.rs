//! What a run says about itself: a span for each phase, in the trace of whoever asked for it.

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::run::Reply;
use qualitytrace_core::trace;
use qualitytrace_core::wait::{Ended, Meaning};
use tracing::Span;
use tracing::field::Empty;

use crate::mask::Mask;
use crate::trigger::{Context, Failure};
use crate::watch::Caller;
use crate::wire::verdict;

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
        tracetest.run.trigger.grpc.response_status_code = Empty,
        tracetest.run.trigger.grpc.response_status = Empty,
        tracetest.run.trigger.kafka.partition = Empty,
        tracetest.run.trigger.kafka.offset = Empty,
    ))
}

/// Writes what came back into the span of the trigger.
pub(super) fn note_reply(span: &Span, sent: &Result<Reply, Failure>) {
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
        }
    }
}

/// Begins with what came back, ends with the run waiting for its trace.
pub(super) fn response(caller: &Caller) -> Span {
    caller.continued(tracing::info_span!("response", otel.name = "Start processing trigger response"))
}

/// The spans of one wait for one trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Poll<'r> {
    pub(super) caller: &'r Caller,
    pub(super) test: &'r str,
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    /// The trigger's own span, above all that arrives.
    pub(super) root: &'r trace::Span,
}

impl Poll<'_> {
    /// The wait as a whole.
    pub(super) fn start(&self) -> Span {
        self.caller.continued(tracing::info_span!(
            "wait",
            otel.name = "Start polling trace",
            tracetest.run.trace_poller.trace_id = %self.trace,
            tracetest.run.trace_poller.span_id = %self.span,
            tracetest.run.trace_poller.test_id = self.test,
        ))
    }

    /// One look at what has arrived.
    pub(super) fn fetch(&self) -> Span {
        self.caller.continued(tracing::info_span!(
            "fetch",
            otel.name = "Fetching trace",
            tracetest.run.trace_poller.trace_id = %self.trace,
            tracetest.run.trace_poller.span_id = %self.span,
            tracetest.run.trace_poller.test_id = self.test,
            tracetest.run.trace_poller.amount_retrieved_spans = Empty,
            tracetest.run.trace_poller.error = Empty,
        ))
    }

    /// One answer to whether that is all.
    pub(super) fn evaluate(&self) -> Span {
        self.caller.continued(tracing::info_span!(
            "evaluate",
            otel.name = "Evaluating trace",
            tracetest.run.trace_poller.trace_id = %self.trace,
            tracetest.run.trace_poller.span_id = %self.span,
            tracetest.run.trace_poller.test_id = self.test,
            tracetest.run.trace_poller.amount_retrieved_spans = Empty,
            // Spelled as tests of the original expect it.
            tracetest.run.trace_poller.succesful = Empty,
            tracetest.run.trace_poller.finish_reason = Empty,
        ))
    }
}

/// Writes into the span of a look what it found.
pub(super) fn note_spans(span: &Span, spans: usize) {
    span.record("tracetest.run.trace_poller.amount_retrieved_spans", spans);
}

/// Writes into the span of a look why it failed.
pub(super) fn note_failure(span: &Span, error: &dyn std::error::Error) {
    span.record("tracetest.run.trace_poller.error", error.to_string());
}

/// Writes into the span of an answer what it was; `None` when the wait goes on.
pub(super) fn note_wait(span: &Span, ended: Option<&Ended>) {
    let complete = ended.is_some_and(|ended| ended.meaning() != Meaning::NoTrace);
    span.record("tracetest.run.trace_poller.succesful", complete);
    if let Some(ended) = ended {
        span.record("tracetest.run.trace_poller.finish_reason", ended.reason.to_string());
    }
}

/// Somebody wants a run to end; in the trace of that request.
pub(super) fn stop() -> Span {
    tracing::info_span!("stop", otel.name = "User Requested Stop Run")
}

pub(super) fn outputs(caller: &Caller) -> Span {
    caller.continued(tracing::info_span!(
        "outputs",
        otel.name = "Process outputs",
        tracetest.run.output_processor.outputs = Empty,
    ))
}

/// Writes the outputs into their span, as JSON.
pub(super) fn note_outputs(span: &Span, outputs: &[verdict::Output], mask: &Mask) {
    let pairs = outputs.iter().map(|output| (output.name.clone(), output.value.clone().into()));
    let mut object = serde_json::Value::Object(pairs.collect());
    mask.json(&mut object);
    span.record("tracetest.run.output_processor.outputs", object.to_string());
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
