//! Propagation that is broken between two services: spans that a run lacks stand in a trace of their own.
//!
//! A trace of the same moment is taken for a lost part of the run's if no run has caused it and it begins with an answer:
//! to a call of the run's trace that has none, or, where nothing shows the call, within a span of it. Whoever sends spans
//! decides how many there are: what is compared is bounded.

use std::collections::{BTreeMap, BTreeSet};

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, SpanKind, Trace};

use super::Execution;
use super::foreign_spans::{foreign_spans, is_during, named};
use super::judging::Judge;
use super::request_signature::RequestSignature;
use crate::base::compute;
use crate::storage::store;
use crate::wire::verdict::Spec;
use crate::wire::{Outcome, Verdict};

/// Calls without an answer that other traces are compared with.
const MAX_CALLS: usize = 1_000;

/// A trace that may be a part of another one, which lost it.
#[derive(Debug)]
struct LostPart<'t> {
    trace: Trace,
    /// The position of the span that it begins with.
    entry: usize,
    cause: Cause<'t>,
}

/// What caused a lost part.
#[derive(Debug, Clone, Copy)]
enum Cause<'t> {
    /// A call that has no answer.
    Call(&'t Span),
    /// Something within this span.
    Within(&'t Span),
}

impl Execution {
    /// Adds to the specs that lack spans where these stand instead, if another trace of that moment has them.
    pub(super) async fn look_for_lost_parts(&self, judge: &Judge, trace: &Trace, verdict: &mut Verdict) {
        let lacks_spans = |spec: &Spec| match spec.outcome {
            Outcome::Passed => false,
            Outcome::Failed => spec.selected == 0,
            Outcome::Inconclusive => true,
        };
        if trace.spans().len() < 2 || !verdict.specs.iter().any(lacks_spans) {
            return;
        }
        // This is advice: where the search fails, there is none.
        let parts = self.lost_parts(trace).await.unwrap_or_default();
        let (mut told, budget) = (BTreeSet::new(), compute::budget());
        for (at, spec) in verdict.specs.iter_mut().enumerate().filter(|(_, spec)| lacks_spans(spec)) {
            let is_open = spec.outcome == Outcome::Inconclusive;
            let selected = |part: &LostPart<'_>| {
                let answer = || (is_open && matches!(part.cause, Cause::Call(_))).then_some(part.entry);
                let selected = judge.selected_alone(at, &part.trace, &budget).or_else(answer);
                selected.map(|selected| part.told(selected))
            };
            spec.advice = parts.iter().find_map(selected).filter(|advice| told.insert(advice.clone()));
        }
    }

    /// The traces that may be parts of this one, those that answer its calls first.
    async fn lost_parts<'t>(&self, trace: &'t Trace) -> Result<Vec<LostPart<'t>>, store::Error> {
        let mut foreign: BTreeMap<TraceId, Vec<Span>> = BTreeMap::new();
        for arrived in foreign_spans(&self.source, trace.id(), trace.span(0).start).await? {
            if !arrived.is_of_run {
                foreign.entry(arrived.trace).or_default().extend(arrived.spans);
            }
        }
        let causes = Causes::new(trace);
        let parts = foreign.into_iter().filter_map(|(id, spans)| {
            let part = Trace::assemble(id, spans);
            let entry = part.roots().find(|at| part.span(*at).parent.is_none())?;
            let cause = causes.find(part.span(entry))?;
            Some(LostPart { trace: part, entry, cause })
        });
        let mut parts: Vec<LostPart<'_>> = parts.collect();
        parts.sort_by_key(|part| matches!(part.cause, Cause::Within(_)));
        Ok(parts)
    }
}

/// The calls of a trace that have no answer.
fn unanswered_calls(trace: &Trace) -> impl Iterator<Item = (&Span, RequestSignature)> {
    trace.spans().iter().enumerate().skip(1).filter_map(|(at, span)| {
        let is_answered = || trace.children(at).any(|child| trace.span(child).kind == SpanKind::Server);
        if span.kind != SpanKind::Client || is_answered() {
            return None;
        }
        Some((span, RequestSignature::of_call(span)?))
    })
}

/// What in a trace may have caused spans that begin other ones.
struct Causes<'t> {
    trace: &'t Trace,
    unanswered: Vec<(&'t Span, RequestSignature)>,
    /// When its last span ended.
    end: Timestamp,
}

impl<'t> Causes<'t> {
    fn new(trace: &'t Trace) -> Self {
        let unanswered = unanswered_calls(trace).take(MAX_CALLS).collect();
        let end = trace.spans().iter().map(end).max().unwrap_or_default();
        Self { trace, unanswered, end }
    }

    /// The cause of a span that begins another trace; `None` if it has none here.
    fn find(&self, entry: &Span) -> Option<Cause<'t>> {
        let answered = self.unanswered.iter().find(|(call, signature)| {
            is_during(entry, call.start, end(call)) && signature.is_answered_by(entry)
        });
        if let Some((call, _)) = answered {
            return Some(Cause::Call(call));
        }
        let encloses = |span: &&Span| {
            let is_within = match entry.kind {
                SpanKind::Server => end(entry) <= end(span),
                // Messages are processed when their sender has gone on.
                SpanKind::Consumer => is_during(entry, span.start, self.end),
                SpanKind::Unspecified | SpanKind::Internal | SpanKind::Client | SpanKind::Producer => false,
            };
            is_within && span.kind != SpanKind::Client && span.start <= entry.start
        };
        let within = self.trace.spans().iter().skip(1).filter(encloses);
        within.min_by_key(|span| span.duration()).map(Cause::Within)
    }
}

fn end(span: &Span) -> Timestamp {
    span.end.unwrap_or(span.start)
}

impl LostPart<'_> {
    /// Says where a span of this trace stands, and what to do.
    fn told(&self, selected: usize) -> String {
        let (selected, entry) = (self.trace.span(selected), self.trace.span(self.entry));
        let begins = if selected.id == entry.id {
            String::new()
        } else {
            format!(" with {}", named(&entry.name, entry.service()))
        };
        let (like, span, likely) = match self.cause {
            Cause::Call(call) => {
                (format!(", like an answer to {}", named(&call.name, call.service())), call, "")
            }
            Cause::Within(span) => (String::new(), span, "probably "),
        };
        let caller = if span.service().is_empty() { "its caller" } else { span.service() };
        let header = if entry.kind == SpanKind::Consumer { "in its messages" } else { "to what it calls" };
        format!(
            "{} is in trace {}, which begins at the same moment{begins}{like}: {caller} {likely}does not pass the `traceparent` \
             header on {header}; instrument its client, and let both services use OTEL_PROPAGATORS=tracecontext,baggage",
            named(&selected.name, selected.service()),
            self.trace.id(),
        )
    }
}
