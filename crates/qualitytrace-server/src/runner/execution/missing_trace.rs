//! Diagnosis of a missing trace, from what else arrived meanwhile.
//!
//! | what arrived | diagnosis |
//! |---|---|
//! | nothing from any service | the system under test does not reach this server |
//! | a span for the same request at the same time, in another trace | it does not continue the trace of the request |
//! | spans whose `tracestate` gives a sampling threshold | this trace was not sampled |
//! | other spans | the service that answered sends no spans, does not sample, or does not continue its trace |
//! | metrics or logs only | no spans are exported |

use std::collections::BTreeSet;
use std::time::Duration;

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::TriggerSpan;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Span;
use qualitytrace_core::wait::register::ServiceView;

use super::Execution;
use super::foreign_spans::{ForeignSpans, foreign_spans, is_during, named};
use super::request_signature::RequestSignature;
use crate::base::clock;
use crate::config::Config;
use crate::receive::source::Source;
use crate::storage::store;

/// Services that are listed.
const NAMED_SERVICES: usize = 5;
/// The most hexadecimal digits of a sampling threshold.
const THRESHOLD_DIGITS: usize = 14;
/// How long an exporter may pause that found the port closed.
const LONGEST_BACK_OFF: Duration = Duration::from_mins(3);

/// The request of a trigger, as spans of other traces may show it.
#[derive(Debug, Clone)]
pub(super) struct Request {
    signature: Option<RequestSignature>,
    trace: TraceId,
    /// When it was sent.
    start: Timestamp,
    /// When it was answered.
    end: Timestamp,
}

impl Request {
    pub(super) fn new(trigger: &Trigger, sent: &TriggerSpan) -> Self {
        let TriggerSpan { trace, start, end, .. } = *sent;
        Self { signature: RequestSignature::of_trigger(trigger), trace, start, end }
    }
}

/// A span that answers the same request in another trace.
#[derive(Debug)]
struct UnlinkedTrace {
    trace: TraceId,
    name: String,
    service: String,
    is_root: bool,
}

/// What arrived since a request was sent.
#[derive(Debug, Default)]
struct ArrivedTelemetry {
    unlinked_trace: Option<UnlinkedTrace>,
    sampling: Option<Sampling>,
}

/// The sampling of a service, as its spans tell.
#[derive(Debug)]
struct Sampling {
    service: String,
    /// The share of the traces that are sampled.
    share: f64,
}

impl Execution {
    /// Explains why no span arrived for a request, and what to do, in a sentence.
    pub(super) async fn explain_missing_trace(&self, request: &Request) -> String {
        let (since, services) = {
            let register = self.learning.services();
            (register.listening_since(), register.views())
        };
        let heard: Vec<&ServiceView> =
            services.iter().filter(|service| service.last_heard >= Some(request.start)).collect();
        if let Some(refusal) = self.source.ingest().refusals().since(request.start) {
            return refusal;
        }
        if heard.is_empty() {
            return silence(&self.config.get(), &services, request.start, since);
        }
        // A failed search adds nothing; the diagnosis uses what is known already.
        match request.meanwhile(&self.source).await.unwrap_or_default() {
            ArrivedTelemetry { unlinked_trace: Some(unlinked_trace), .. } => {
                unlinked_trace.told(request.trace)
            }
            ArrivedTelemetry { sampling: Some(sampling), .. } => sampling.told(),
            ArrivedTelemetry { .. } => others(&heard, request.start, since),
        }
    }
}

impl Request {
    /// The service of a span that answers this request in another trace. A failed search finds none.
    pub(super) async fn answered_elsewhere(&self, source: &Source) -> Option<String> {
        self.meanwhile(source).await.ok()?.unlinked_trace.map(|trace| trace.service)
    }

    /// Looks at what arrived since the request was sent: for a span that seems to answer it, and for the share of traces
    /// that are sampled.
    async fn meanwhile(&self, source: &Source) -> Result<ArrivedTelemetry, store::Error> {
        let mut meanwhile = ArrivedTelemetry::default();
        for ForeignSpans { trace, is_of_run, spans } in foreign_spans(source, self.trace, self.start).await? {
            for span in &spans {
                meanwhile.sampling = meanwhile.sampling.or_else(|| Sampling::of(span));
                if !is_of_run && self.is_answered_by(span) {
                    let unlinked_trace = UnlinkedTrace {
                        trace,
                        name: span.name.to_string(),
                        service: span.service().to_owned(),
                        is_root: span.parent.is_none(),
                    };
                    return Ok(ArrivedTelemetry { unlinked_trace: Some(unlinked_trace), ..meanwhile });
                }
            }
        }
        Ok(meanwhile)
    }

    fn is_answered_by(&self, span: &Span) -> bool {
        is_during(span, self.start, self.end)
            && self.signature.as_ref().is_some_and(|signature| signature.is_answered_by(span))
    }
}

/// The next step when no service was heard.
fn silence(config: &Config, services: &[ServiceView], start: Timestamp, since: Option<Timestamp>) -> String {
    let last = services.iter().filter_map(|service| Some((service.last_heard?, &service.name))).max();
    if let Some((at, name)) = last {
        let ago = clock::now().since(at).as_secs();
        return format!(
            "nothing has arrived since the request was sent; {name} was heard last, {ago} s ago: check that the system \
             under test still exports to this server, and samples this trace (OTEL_TRACES_SAMPLER=parentbased_always_on)"
        );
    }
    let back_off = back_off(start, since);
    let since = since.map(|since| clock::now().since(since).as_secs()).filter(|seconds| *seconds > 0);
    let since = since.map(|seconds| format!(" {seconds} s ago")).unwrap_or_default();
    let places: Vec<String> = [(config.otlp_grpc, "grpc"), (config.otlp_http, "http/protobuf")]
        .into_iter()
        .filter_map(|(address, protocol)| Some(format!("http://{} ({protocol})", address?)))
        .collect();
    let places = if places.is_empty() {
        format!("http://{} (both protocols)", config.http)
    } else {
        places.join(" and ")
    };
    format!(
        "nothing at all has arrived since this server started{since}: it takes OTLP at {places}; check \
         OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_PROTOCOL of the system under test, and that \
         OTEL_TRACES_EXPORTER is `otlp` and OTEL_SDK_DISABLED is not set{back_off}"
    )
}

/// What may keep a service silent that ran before this server began to listen.
fn back_off(start: Timestamp, listening_since: Option<Timestamp>) -> &'static str {
    if listening_since.is_some_and(|since| start.since(since) < LONGEST_BACK_OFF) {
        "; if it ran before this server, its exporter may have found the port closed, and tries again after up to 2 min: \
         wait, or restart it"
    } else {
        ""
    }
}

/// The next step when other services were heard meanwhile.
fn others(heard: &[&ServiceView], start: Timestamp, since: Option<Timestamp>) -> String {
    let sends_spans = |service: &&&ServiceView| {
        service
            .instances
            .iter()
            .any(|instance| instance.watermark.is_some() && instance.last_arrival >= start)
    };
    let names = |services: Vec<&&ServiceView>| {
        let names: BTreeSet<&str> = services.into_iter().map(|service| &*service.name).collect();
        names.into_iter().take(NAMED_SERVICES).collect::<Vec<_>>().join(", ")
    };
    let senders: Vec<_> = heard.iter().filter(sends_spans).collect();
    if senders.is_empty() {
        return format!(
            "only metrics or logs have arrived meanwhile (from {}): check OTEL_TRACES_EXPORTER and OTEL_TRACES_SAMPLER of \
             the system under test",
            names(heard.iter().collect())
        );
    }
    let back_off = back_off(start, since);
    format!(
        "other traces came meanwhile (from {}), and none of their spans is about this request: the service that answers it \
         sends no spans to this server, does not sample them (OTEL_TRACES_SAMPLER=parentbased_always_on does), or does not take \
         over the `traceparent` header{back_off}",
        names(senders)
    )
}

impl Sampling {
    /// The sampling that a span tells of; `None` if all traces are sampled.
    fn of(span: &Span) -> Option<Self> {
        let share = sampled_share(&span.trace_state).filter(|share| *share < 1.0)?;
        Some(Self { service: span.service().to_owned(), share })
    }

    fn told(&self) -> String {
        let Self { service, share } = self;
        let service = if service.is_empty() { "the system under test" } else { service };
        let digits = if *share < 0.01 { 2 } else { 0 };
        format!(
            "{service} samples {:.digits$}% of the traces, as the `tracestate` of its spans tells, and this one most likely was not: set \
             OTEL_TRACES_SAMPLER=parentbased_always_on where the trace begins",
            share * 100.0
        )
    }
}

/// Reads the share of sampled traces from a `tracestate`: OpenTelemetry writes the threshold below which traces are dropped as
/// `th`, without the zeros at its end.
#[expect(clippy::cast_precision_loss, reason = "the share is told, rounded")]
fn sampled_share(trace_state: &str) -> Option<f64> {
    let own = trace_state.split(',').find_map(|vendor| vendor.trim().strip_prefix("ot="))?;
    let threshold = own.split(';').find_map(|value| value.strip_prefix("th:"))?;
    let is_hex = threshold.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex || threshold.is_empty() || threshold.len() > THRESHOLD_DIGITS {
        return None;
    }
    let dropped = u64::from_str_radix(threshold, 16).ok()?;
    let all = 1_u64 << (4 * threshold.len());
    Some((all - dropped) as f64 / all as f64)
}

impl UnlinkedTrace {
    fn told(&self, wanted: TraceId) -> String {
        let Self { trace, name, service, is_root } = self;
        let [own, wanted] =
            [trace.to_bytes(), wanted.to_bytes()].map(|bytes| (bytes[..8].to_vec(), bytes[8..].to_vec()));
        let is_short = own.0.iter().all(|byte| *byte == 0);
        let hint = if own.1 == wanted.1 {
            "it keeps the last 64 bits of trace ids only: let it use ids of 128 bits"
        } else if is_short {
            "its trace ids have 64 bits, like those that Datadog reads from `x-datadog-trace-id`: let it read W3C headers"
        } else if *is_root {
            "it may read another header (the request also had b3, x-b3-traceid, uber-trace-id, ot-tracer-traceid and \
             x-amzn-trace-id) or none: set OTEL_PROPAGATORS=tracecontext,baggage"
        } else {
            "something between it and this server begins a trace of its own: let that pass the header on"
        };
        format!(
            "the span {} answers a request like this one, at the same moment, but in trace {trace}: the \
             system under test does not take over the `traceparent` header; {hint}",
            named(name, service)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_of_a_tracestate_tells_the_share_of_sampled_traces() {
        for (trace_state, expected) in [
            ("ot=th:c", Some(0.25)),
            ("vendor=1, ot=rv:6e6d1a75832a2f;th:e", Some(0.125)),
            ("ot=th:0", Some(1.0)),
            ("ot=th:", None),
            ("ot=th:xyz", None),
            ("ot=th:+8", None),
            ("ot=th:ffffffffffffff", Some(f64::from(2).powi(-56))),
            ("ot=th:0123456789abcdef", None),
            ("", None),
        ] {
            assert_eq!(sampled_share(trace_state), expected, "{trace_state}");
        }
    }

    #[test]
    fn what_the_other_trace_looks_like_says_what_to_do() {
        let wanted: TraceId = "5b8efff798038103d269b633813fc60c".parse().unwrap();
        for (trace, is_root, expected) in [
            ("0000000000000000d269b633813fc60c", true, "the last 64 bits"),
            ("00000000000000001111111111111111", true, "x-datadog-trace-id"),
            ("11111111111111111111111111111111", true, "OTEL_PROPAGATORS=tracecontext"),
            ("11111111111111111111111111111111", false, "begins a trace of its own"),
        ] {
            let name = "GET /orders".to_owned();
            let unlinked_trace =
                UnlinkedTrace { trace: trace.parse().unwrap(), name, service: "shop".to_owned(), is_root };
            let told = unlinked_trace.told(wanted);
            assert!(told.contains(expected) && told.contains("`GET /orders` (shop)"), "{told}");
        }
    }
}
