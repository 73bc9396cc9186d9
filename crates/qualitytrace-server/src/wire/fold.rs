//! A run as the fold of its events: its state, and the run as clients see it.

mod milestones;
mod state;
mod trigger;

use std::sync::Arc;

use qualitytrace_core::gates::Gate;
use qualitytrace_core::run::State;
use qualitytrace_core::series::RunEnding;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace;
use serde_json::{Map, Value};

use super::request::{InSeries, RunRequest};
use super::run::trigger as shown_trigger;
use super::run::{
    AssertionResult, Gates, GivenVariable, Linter, Output, Pair, Results, Run, RunTrace, SpanResult,
    SpecResult, VariableSet, selector,
};
use super::time::{NEVER, UNFINISHED, rfc3339};
use super::verdict::{self, Outcome, Spec, Verdict};
use crate::storage::store::StoredRun;
use crate::storage::variables::Variables;

pub(crate) use milestones::Milestones;
pub use state::RunState;
pub use trigger::outcome as trigger_result;

/// Builds the run for a list: without its trace.
pub fn listed(stored: &StoredRun, facts: &RunState, now: Timestamp) -> Run {
    Run { trace: RunTrace::default(), ..run(stored, facts, None, now) }
}

/// Builds the run from its events so far.
pub fn run(stored: &StoredRun, facts: &RunState, trace: Option<&Arc<trace::Trace>>, now: Timestamp) -> Run {
    if let Some(imported) = &facts.imported {
        return Run { id: stored.number, ..(**imported).clone() };
    }
    let asked = RunRequest::of(stored);
    let end = facts.completed.unwrap_or(now);
    let trigger_time = match (facts.triggered, facts.answered) {
        (Some(start), Some(end)) => u64::try_from(end.since(start).as_millis()).unwrap_or(u64::MAX),
        _ => 0,
    };
    let time = |at: Option<Timestamp>| at.map_or_else(|| NEVER.to_owned(), rfc3339);
    let outputs = || facts.verdict.iter().flat_map(|verdict| &verdict.outputs);
    let made = outputs().map(|output| (output.name.as_str(), output.value.as_str()));
    let seconds = end.since(stored.created).as_millis().div_ceil(1000).max(1);
    let own = Run {
        id: stored.number,
        trace_id: stored.trace.to_string(),
        span_id: facts.span_id.clone().unwrap_or_else(|| "0".repeat(16)),
        test_version: stored.test_version,
        state: stored.state.clone(),
        last_error_state: facts.error.clone().unwrap_or_default(),
        execution_time: u64::try_from(seconds).unwrap_or(u64::MAX),
        trigger_time,
        created_at: rfc3339(stored.created),
        service_triggered_at: time(facts.triggered),
        service_trigger_completed_at: time(facts.answered),
        obtained_trace_at: time(facts.obtained),
        completed_at: facts.completed.map_or_else(|| UNFINISHED.to_owned(), rfc3339),
        variable_set: variable_set(&stored.variables, &asked, made),
        resolved_trigger: shown_trigger(facts.trigger.as_ref()),
        trigger_result: trigger::outcome(facts),
        trace: match trace.filter(|_| facts.obtained.is_some()) {
            Some(trace) => RunTrace::Assembled(Arc::clone(trace)),
            None => RunTrace::default(),
        },
        result: facts.verdict.as_ref().map(result).unwrap_or_default(),
        linter: facts.analysis.clone().unwrap_or_default(),
        outputs: outputs().map(output).collect(),
        required_gates_result: gates(&asked.required_gates, facts),
        metadata: sorted(asked.metadata),
        test_suite_id: asked.suite.as_ref().map(|suite| suite.id.clone()).unwrap_or_default(),
        test_suite_run_id: asked.suite.map(|suite| suite.run).unwrap_or_default(),
        series: asked.series.map(|series| InSeries { first: series.first_run(stored.number), ..series }),
        missing: facts.verdict.as_ref().map(|verdict| verdict.missing.clone()).unwrap_or_default(),
    };
    let Some(earlier) = &facts.earlier else { return own };
    // The trigger and the trace are those of the run on the other server.
    Run {
        trace_id: earlier.trace_id.clone(),
        span_id: earlier.span_id.clone(),
        trigger_time: earlier.trigger_time,
        service_triggered_at: earlier.service_triggered_at.clone(),
        service_trigger_completed_at: earlier.service_trigger_completed_at.clone(),
        obtained_trace_at: earlier.obtained_trace_at.clone(),
        resolved_trigger: earlier.resolved_trigger.clone(),
        trigger_result: earlier.trigger_result.clone(),
        trace: earlier.trace.clone(),
        linter: earlier.linter.clone(),
        ..own
    }
}

/// Sorts an object by its keys.
pub(super) fn sorted(object: Map<String, Value>) -> Map<String, Value> {
    let mut entries: Vec<_> = object.into_iter().collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries.into_iter().collect()
}

/// Builds the results of the specs.
pub fn result(verdict: &Verdict) -> Results {
    Results {
        all_passed: verdict.specs.iter().all(|spec| spec.outcome == Outcome::Passed),
        results: verdict.specs.iter().map(spec).collect(),
    }
}

fn spec(spec: &Spec) -> SpecResult {
    let of_span = |(result, is_culprit): (&verdict::SpanResult, bool)| SpanResult {
        span_id: result.span_id.clone().unwrap_or_default(),
        observed_value: result.observed.clone(),
        // With `any` and the like a span may fail while the assertion holds, and vice versa.
        passed: !is_culprit,
        error: result.error.clone().filter(|_| is_culprit).unwrap_or_default(),
    };
    let results = spec.assertions.iter().map(|assertion| AssertionResult {
        assertion: assertion.assertion.clone(),
        all_passed: assertion.outcome == Outcome::Passed,
        span_results: assertion.marked_results().map(of_span).collect(),
        omitted: assertion.omitted,
    });
    SpecResult { selector: selector(&spec.selector), results: results.collect() }
}

fn output(output: &verdict::Output) -> Output {
    Output {
        name: output.name.clone(),
        span_id: output.span_id.clone().unwrap_or_default(),
        value: output.value.clone(),
        error: output.error.clone().unwrap_or_default(),
    }
}

/// Builds the variables of a run: the given ones, updated with the outputs.
pub(super) fn variable_set<'o>(
    kept: &str,
    asked: &RunRequest,
    outputs: impl Iterator<Item = (&'o str, &'o str)>,
) -> VariableSet {
    let kept = Variables::shown(kept);
    let mut values: Vec<Pair> = Vec::new();
    for key in asked.variables.iter().chain(kept.iter().map(|(key, _)| key)) {
        if let Some(value) = kept.get(key) {
            set(&mut values, key, value);
        }
    }
    // A row of a suite or an earlier step may have replaced a value of the set.
    let is_step = asked.suite.is_some();
    let given = values.iter().filter_map(|Pair { key, .. }| {
        let is_secret = kept.is_secret(key);
        let is_of_set = asked.from_set.contains(key) && (is_secret || !is_step);
        let kind = is_secret.then(|| "secret".to_owned());
        (!is_of_set).then(|| GivenVariable { key: key.clone(), kind, value: None })
    });
    let mut given: Vec<GivenVariable> = given.collect();
    for (name, value) in outputs {
        let replaced = set(&mut values, name, value);
        let own = given.iter_mut().find(|own| own.key == name && own.kind.is_none());
        if let (Some(own), Some(replaced)) = (own, replaced) {
            own.value.get_or_insert(replaced);
        }
    }
    let named = |key: &str| {
        let named = asked.variable_set.as_ref().and_then(|named| named.get(key)?.as_str());
        named.unwrap_or_default().to_owned()
    };
    VariableSet { id: named("id"), name: named("name"), description: named("description"), values, given }
}

/// Sets the value of a variable, and returns the one that it had.
fn set(variables: &mut Vec<Pair>, key: &str, value: &str) -> Option<String> {
    if let Some(known) = variables.iter_mut().find(|known| known.key == key) {
        return Some(std::mem::replace(&mut known.value, value.to_owned()));
    }
    variables.push(Pair { key: key.to_owned(), value: value.to_owned() });
    None
}

/// Builds the result of the gates: those that failed, and whether the required ones passed.
pub fn gates(required: &[String], facts: &RunState) -> Gates {
    let analyzed = AnalyzerGates::of(required, facts.analysis.as_ref(), facts.analysis_open.is_some());
    analyzed.with_specs(required, facts.verdict.as_ref().map(|verdict| verdict.outcome))
}

/// The gates of the analyzer that a run failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnalyzerGates {
    failed: Vec<String>,
    inconclusive: Vec<String>,
}

impl AnalyzerGates {
    /// Checks an analysis. One that `is_open` may not hold for the whole trace.
    pub fn of(required: &[String], analysis: Option<&Linter>, is_open: bool) -> Self {
        let (mut failed, mut inconclusive) = (Vec::new(), Vec::new());
        let Some(analysis) = analysis.filter(|analysis| analysis.plugins.is_some()) else {
            return Self::default();
        };
        let passes = [
            (Gate::AnalyzerRules, analysis.passed, analysis.has_errors()),
            (Gate::AnalyzerScore, analysis.score >= analysis.minimum_score, analysis.minimum_score > 0),
        ];
        for (gate, passes, can_fail) in passes {
            let gate = gate.as_str().to_owned();
            // A missing span could break a rule.
            let is_open = passes && can_fail && is_open && required.contains(&gate);
            if is_open {
                inconclusive.push(gate.clone());
            }
            if is_open || !passes {
                failed.push(gate);
            }
        }
        Self { failed, inconclusive }
    }

    /// Adds the gate of the specs, which have this outcome.
    pub fn with_specs(self, required: &[String], specs: Option<Outcome>) -> Gates {
        let Self { mut failed, inconclusive } = self;
        if specs.is_some_and(|outcome| outcome != Outcome::Passed) {
            failed.push(Gate::TestSpecs.as_str().to_owned());
        }
        let passed = !failed.iter().any(|gate| required.contains(gate));
        Gates { required: required.to_vec(), failed, passed, inconclusive }
    }
}

/// Decides how a run ended, by its state, its gates and the outcome of its specs.
pub fn ended(state: State, gates: &Gates, specs: Option<Outcome>) -> RunEnding {
    match (state, specs) {
        (State::Stopped, _) => RunEnding::Stopped,
        (State::Failed, _) => RunEnding::Interrupted,
        (State::Finished, Some(_)) if gates.passed => RunEnding::Passed,
        (State::Finished, Some(Outcome::Inconclusive)) => RunEnding::Inconclusive,
        (State::Finished, Some(_)) if gates.is_inconclusive() => RunEnding::Inconclusive,
        (State::Finished, Some(_)) => RunEnding::Failed,
        _ => RunEnding::Broken,
    }
}
