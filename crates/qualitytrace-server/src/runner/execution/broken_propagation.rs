//! Propagation that is broken between two services: spans that a run lacks stand in a trace of their own.
//!
//! A trace of the same moment is taken for a lost part of the run's if no run has caused it and it begins with an answer:
//! to a call of the run's trace that has none, or, where nothing shows the call, within a span of it.

use std::collections::{BTreeMap, BTreeSet};

use qualitytrace_core::id::TraceId;
use qualitytrace_core::trace::{Span, SpanKind, Trace};

use super::Execution;
use super::foreign_spans::{foreign_spans, is_during};
use super::judging::Judge;
use super::request_signature::RequestSignature;
use crate::storage::store;
use crate::wire::{Outcome, Verdict};

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
        if verdict.outcome == Outcome::Passed || trace.spans().len() < 2 {
            return;
        }
        let lacking = judge.lacking(trace);
        let is_open = |outcome| outcome == Outcome::Inconclusive;
        if lacking.is_empty() && !is_open(verdict.outcome) {
            return;
        }
        // This is advice: where the search fails, there is none.
        let parts = self.lost_parts(trace).await.unwrap_or_default();
        let mut told = BTreeSet::new();
        for (at, spec) in
            verdict.specs.iter_mut().enumerate().filter(|(_, spec)| spec.outcome != Outcome::Passed)
        {
            let selected = |part: &LostPart<'_>| {
                let selected = lacking.contains(&at).then(|| judge.selected_alone(at, &part.trace)).flatten();
                let answer =
                    || (is_open(spec.outcome) && matches!(part.cause, Cause::Call(_))).then_some(part.entry);
                selected.or_else(answer).map(|selected| part.told(selected))
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
        let calls: Vec<(&Span, RequestSignature)> = unanswered_calls(trace).collect();
        let parts = foreign.into_iter().filter_map(|(id, spans)| {
            let part = Trace::assemble(id, spans);
            let roots: Vec<usize> = part.roots().filter(|at| part.span(*at).parent.is_none()).collect();
            let begun = |at: usize| Some((at, cause(trace, &calls, part.span(at))?));
            let (entry, cause) = roots.into_iter().find_map(begun)?;
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

/// What in this trace may have caused a span that begins another one.
fn cause<'t>(trace: &'t Trace, calls: &[(&'t Span, RequestSignature)], entry: &Span) -> Option<Cause<'t>> {
    let ended = |span: &Span| span.end.unwrap_or(span.start);
    let answered = calls.iter().find(|(call, signature)| {
        is_during(entry, call.start, ended(call)) && signature.is_answered_by(entry)
    });
    if let Some((call, _)) = answered {
        return Some(Cause::Call(call));
    }
    let last = trace.spans().iter().map(ended).max()?;
    let encloses = |span: &&Span| {
        let is_within = match entry.kind {
            SpanKind::Server => ended(entry) <= ended(span),
            // Messages are processed when their sender has gone on.
            SpanKind::Consumer => is_during(entry, span.start, last),
            SpanKind::Unspecified | SpanKind::Internal | SpanKind::Client | SpanKind::Producer => false,
        };
        is_within && span.kind != SpanKind::Client && span.start <= entry.start
    };
    let within = trace.spans().iter().skip(1).filter(encloses);
    within.min_by_key(|span| span.duration()).map(Cause::Within)
}

impl LostPart<'_> {
    /// Says where a span of this trace stands, and what to do.
    fn told(&self, selected: usize) -> String {
        let shown = |span: &Span| format!("`{}`{}", span.name, in_brackets(span.service()));
        let (selected, entry) = (self.trace.span(selected), self.trace.span(self.entry));
        let begins = if selected.id == entry.id { String::new() } else { format!(" with {}", shown(entry)) };
        let (like, span, likely) = match self.cause {
            Cause::Call(call) => (format!(", like an answer to {}", shown(call)), call, ""),
            Cause::Within(span) => (String::new(), span, "probably "),
        };
        let caller = if span.service().is_empty() { "its caller" } else { span.service() };
        let header = if entry.kind == SpanKind::Consumer { "in its messages" } else { "to what it calls" };
        format!(
            "{} is in trace {}, which begins at the same moment{begins}{like}: {caller} {likely}does not pass the `traceparent` \
             header on {header}; instrument its client, and let both services use OTEL_PROPAGATORS=tracecontext,baggage",
            shown(selected),
            self.trace.id(),
        )
    }
}

fn in_brackets(service: &str) -> String {
    if service.is_empty() { String::new() } else { format!(" ({service})") }
}
