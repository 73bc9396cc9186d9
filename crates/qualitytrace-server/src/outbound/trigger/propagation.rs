//! Propagation of the trace context to the system under test, in every format that instrumentation reads.

use qualitytrace_core::id;
use qualitytrace_telemetry::{Propagator, SpanId, TraceId};

/// The trace context that the system under test continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace: id::TraceId,
    /// The trigger's own span, the parent of the first span of the system under test.
    pub span: id::SpanId,
    /// W3C baggage, already encoded; may be empty.
    pub baggage: String,
}

impl Context {
    /// Returns header names and values. They override the user's own.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let trace = TraceId::from_bytes(self.trace.to_bytes());
        let span = SpanId::from_bytes(self.span.to_bytes());
        let context = qualitytrace_telemetry::Context::new(trace, span, Some(true))
            .with_trace_state("tracetest", "true")
            .with_baggage(&self.baggage);
        Propagator::ALL.into_iter().flat_map(|propagator| propagator.headers(&context)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_names_the_same_trace_and_span() {
        let context = Context {
            trace: "5b8efff798038103d269b633813fc60c".parse().unwrap(),
            span: "eee19b7ec3c1b174".parse().unwrap(),
            baggage: "user=7".to_owned(),
        };
        let headers: Vec<String> =
            context.headers().into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            headers,
            [
                "traceparent: 00-5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-01",
                "tracestate: tracetest=true",
                "b3: 5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-1",
                "x-b3-traceid: 5b8efff798038103d269b633813fc60c",
                "x-b3-spanid: eee19b7ec3c1b174",
                "x-b3-sampled: 1",
                "uber-trace-id: 5b8efff798038103d269b633813fc60c:eee19b7ec3c1b174:0:1",
                "ot-tracer-traceid: d269b633813fc60c",
                "ot-tracer-spanid: eee19b7ec3c1b174",
                "ot-tracer-sampled: true",
                "x-amzn-trace-id: Root=1-5b8efff7-98038103d269b633813fc60c;Parent=eee19b7ec3c1b174;Sampled=1",
                "baggage: user=7",
            ]
        );
    }
}
