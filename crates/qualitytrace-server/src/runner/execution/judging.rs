//! Judging a run: the standing of its specs during the wait, and the verdict.

use std::collections::BTreeMap;
use std::time::Duration;

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::Test;
use qualitytrace_core::judge::{self, Compiled, FailureReason, Options, Remedy};
use qualitytrace_core::lang::Generator;
use qualitytrace_core::trace::Trace;
use qualitytrace_core::wait::{Absence, OpenSpec, SpecStatus};

use crate::base::compute;
use crate::base::redact::Redactor;
use crate::storage::variables::Variables;
use crate::wire::omitted::Room;
use crate::wire::owed::{EarlyOutcome, EarlySpec};
use crate::wire::{Outcome, Verdict, verdict};

/// Why a resumed run does not fail by absence.
const LOST_MEANWHILE: &str = "the server was restarted while it waited for this trace, and spans that were sent meanwhile \
                              may be lost: run the test again";

/// A test with compiled specs.
#[derive(Debug)]
pub(super) struct Judge {
    compiled: Compiled,
    variables: qualitytrace_core::lang::Variables,
    generator: Generator,
    /// How long after the rest of a trace the spans of a spec may end, where the spec does not say.
    within: Option<Duration>,
}

impl Judge {
    pub(super) fn compile(test: &Test, variables: &Variables, generator: Generator) -> Self {
        let variables = variables.iter().cloned().collect();
        let compiled = Compiled::new(&test.specs, &test.outputs).with_variables(&variables, &generator);
        Self { within: None, compiled, variables, generator }
    }

    /// Sets how long after the rest of a trace the spans of a spec may end, where the spec does not say.
    pub(super) fn with_within(self, within: Option<Duration>) -> Self {
        Self { within, ..self }
    }

    /// How long after the rest of a trace the spans of this spec may end.
    fn within(&self, spec: usize) -> Option<Duration> {
        let own = self.compiled.specs[spec].spec.within.as_ref();
        own.map(|within| within.duration).or(self.within)
    }

    /// Evaluates the specs on the spans that have arrived.
    pub(super) fn standing(&self, trace: &Trace) -> SpecStatus {
        let judge::TestStatus { assertions: standings, outputs_stand } =
            self.compiled.standing(trace, &self.variables, &self.options(Vec::new(), None));
        let failed_for_good = standings.iter().any(|standing| standing.is_final && !standing.passes);
        // A test that passes hands its outputs on: they are waited for like its specs.
        let all_for_good = outputs_stand && standings.iter().all(|standing| standing.is_final);
        // Whether each open spec lacks spans.
        let mut open: BTreeMap<usize, bool> = BTreeMap::new();
        for standing in standings.iter().filter(|standing| standing.remedy != Remedy::None) {
            *open.entry(standing.spec).or_default() |= standing.remedy == Remedy::MoreSpans;
        }
        let undecided = open.into_iter().map(|(spec, lacks_spans)| OpenSpec {
            name: self.title(spec),
            services: self.compiled.services(&self.compiled.specs[spec]),
            lacks_spans,
            within: self.within(spec),
        });
        SpecStatus {
            undecided: undecided.collect(),
            is_final: !standings.is_empty() && (failed_for_good || all_for_good),
        }
    }

    /// The first span that a spec would select without regard to the spans around it.
    pub(super) fn selected_alone(&self, spec: usize, trace: &Trace, budget: &Budget) -> Option<usize> {
        let Options { aliases, .. } = self.options(Vec::new(), None);
        self.compiled.specs[spec].selected_alone(trace, aliases, budget)
    }

    /// Tells the outcome of each spec with the spans that have arrived, and how long its spans may take.
    pub(super) fn early(&self, trace: &Trace) -> Vec<(EarlySpec, Option<Duration>)> {
        let options = self.options(Vec::new(), None);
        let standings = self.compiled.standing(trace, &self.variables, &options).assertions;
        let early = |spec: usize| {
            let own = || standings.iter().filter(move |standing| standing.spec == spec);
            let fails = |standing: &judge::AssertionStatus| !standing.passes;
            if own().any(|standing| fails(standing) && standing.is_final) {
                EarlyOutcome::Failed
            } else if own().any(fails) {
                EarlyOutcome::Failing
            } else if own().all(|standing| standing.is_final) {
                EarlyOutcome::Passed
            } else {
                EarlyOutcome::Passing
            }
        };
        let specs = 0..self.compiled.specs.len();
        specs
            .map(|spec| (EarlySpec { name: self.title(spec), outcome: early(spec) }, self.within(spec)))
            .collect()
    }

    /// Judges a trace that was waited for, perhaps across a restart of the server. Then spans may be lost, and a failure
    /// that one more span could turn is not decided.
    pub(super) fn verdict_after(
        &self,
        is_resumed: bool,
        trace: &Trace,
        absences: Vec<Absence>,
        refused: Option<String>,
    ) -> Verdict {
        let verdict = self.verdict(trace, absences.clone(), refused.clone());
        if !is_resumed || verdict.outcome != Outcome::Failed {
            return verdict;
        }
        let lost = Absence::of_anyone(LOST_MEANWHILE.to_owned());
        self.verdict(trace, absences.into_iter().chain([lost]).collect(), refused)
    }

    /// Judges a trace. `absences` are spans that are neither here nor known to be absent; `refused` says what was
    /// refused and will never arrive.
    pub(super) fn verdict(&self, trace: &Trace, absences: Vec<Absence>, refused: Option<String>) -> Verdict {
        let judged = self.compiled.judge(trace, &self.variables, &self.options(absences, refused));
        let mut missing = Vec::new();
        if let judge::Outcome::Inconclusive { .. } = judged.outcome {
            let assertions = judged.specs.iter().flat_map(|spec| &spec.assertions);
            for assertion in assertions {
                if let judge::Outcome::Inconclusive { reason } = &assertion.outcome
                    && !missing.contains(reason)
                {
                    missing.push(reason.clone());
                }
            }
        }
        let mut room = Room::new(judged.specs.iter().map(|spec| spec.assertions.len()).sum());
        Verdict {
            outcome: outcome(&judged.outcome),
            missing,
            specs: judged.specs.iter().map(|spec| shown_spec(spec, trace, &mut room)).collect(),
            outputs: judged.outputs.iter().map(shown_output).collect(),
        }
    }

    fn options(&self, absences: Vec<Absence>, incomplete: Option<String>) -> Options {
        Options { incomplete, absences, budget: compute::budget(), ..Options::new(self.generator.clone()) }
    }

    fn title(&self, spec: usize) -> String {
        let spec = &self.compiled.specs[spec].spec;
        spec.name.clone().unwrap_or_else(|| spec.selector.value.clone())
    }
}

fn outcome(judged: &judge::Outcome) -> Outcome {
    match judged {
        judge::Outcome::Passed => Outcome::Passed,
        judge::Outcome::Failed(_) => Outcome::Failed,
        judge::Outcome::Inconclusive { .. } => Outcome::Inconclusive,
    }
}

fn shown_spec(spec: &judge::SpecResult, trace: &Trace, room: &mut Room) -> verdict::Spec {
    let judged = spec.outcome();
    let longest = spec.selected.iter().map(|(at, _)| trace.span(*at).duration()).max();
    verdict::Spec {
        name: spec.name.clone().unwrap_or_default(),
        selector: spec.selector.clone(),
        outcome: outcome(&judged),
        selected: spec.selected.len(),
        longest: longest.and_then(|time| u64::try_from(time.as_nanos()).ok()),
        problem: problem(spec, &judged),
        nearest: nearest(spec, &judged),
        advice: None,
        assertions: spec.assertions.iter().map(|assertion| shown_assertion(assertion, trace, room)).collect(),
    }
}

/// The span that a selector without a match was probably meant for. Where spans may be missing, the one that was meant
/// may be among them.
fn nearest(spec: &judge::SpecResult, judged: &judge::Outcome) -> Vec<String> {
    let near = spec.near_misses.iter().filter(|_| matches!(judged, judge::Outcome::Failed(_)));
    near.take(1).map(ToString::to_string).collect()
}

/// What is wrong with the spec as a whole.
fn problem(spec: &judge::SpecResult, judged: &judge::Outcome) -> Option<String> {
    if let (judge::Outcome::Failed(_), Some(unknown)) = (judged, &spec.unknown_service) {
        return Some(format!("the selector matches no span: {unknown}"));
    }
    match judged {
        judge::Outcome::Failed(FailureReason::InvalidSelector) => {
            spec.diagnostics.first().map(|found| format!("the selector is invalid: {}", found.message))
        }
        judge::Outcome::Failed(FailureReason::NoSpan) => Some("the selector matches no span".to_owned()),
        judge::Outcome::Failed(
            FailureReason::NoMatch | FailureReason::InvalidAssertion | FailureReason::NotEvaluated,
        )
        | judge::Outcome::Passed => None,
        judge::Outcome::Inconclusive { reason } => Some(reason.clone()),
    }
}

fn shown_assertion(assertion: &judge::AssertionResult, trace: &Trace, room: &mut Room) -> verdict::Assertion {
    let alias = assertion.aliases.first().map(|alias| alias.found.clone());
    let outcome = outcome(&assertion.outcome);
    let is_told = assertion.results.iter().any(|result| result.breaks);
    let (kept, omitted) = room.keep(&assertion.results, |result| {
        outcome != Outcome::Passed && if is_told { result.breaks } else { !result.passed }
    });
    verdict::Assertion {
        assertion: assertion.assertion.clone(),
        outcome,
        results: kept.into_iter().map(|result| shown_result(result, alias.as_ref(), trace)).collect(),
        omitted,
        advice: assertion.advice.clone(),
    }
}

fn shown_result(result: &judge::SpanResult, alias: Option<&String>, trace: &Trace) -> verdict::SpanResult {
    let span = result.position.map(|at| trace.span(at));
    verdict::SpanResult {
        span_id: result.span.map(|id| id.to_string()),
        span: span.map(|span| span.name.to_string()).unwrap_or_default(),
        service: span.map(|span| span.service().to_owned()).unwrap_or_default(),
        passed: result.passed,
        breaks: result.breaks,
        observed: result.observed_text.clone(),
        expected: result.expected_text.clone(),
        error: result.error.clone(),
        alias: alias.cloned(),
    }
}

fn shown_output(output: &judge::OutputResult) -> verdict::Output {
    verdict::Output {
        name: output.name.clone(),
        value: output.value.clone(),
        span_id: output.span.map(|id| id.to_string()),
        error: output.error.clone(),
    }
}

/// The outputs of a verdict that contain secrets.
pub(super) fn secret_outputs(verdict: &Verdict, redactor: &Redactor) -> Variables {
    let mut secret = Variables::default();
    for output in verdict.outputs.iter().filter(|output| redactor.text(&output.value) != output.value) {
        secret.set(&output.name, &output.value, true);
    }
    secret
}

/// The resolved outputs of a stored verdict, with their redacted secrets restored.
pub(in crate::runner) fn outputs(verdict: &Verdict, secrets: &Variables) -> Variables {
    let mut outputs = Variables::default();
    for output in verdict.outputs.iter().filter(|output| output.error.is_none()) {
        let secret = secrets.get(&output.name);
        outputs.set(&output.name, secret.unwrap_or(&output.value), secret.is_some());
    }
    outputs
}
