//! A run as clients see it: the fold of its events, in the shape of Tracetest's API, including its omissions.

mod analysis;
mod events;
mod junit;
mod selector;
mod spans;
mod state;
mod trigger;

use std::sync::Arc;

use qualitytrace_core::definition::settings::Gate;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Omitted;
use super::time::{NEVER, UNFINISHED, rfc3339};
use super::verdict::{Outcome, Spec, Verdict};
use crate::store::StoredRun;
use crate::variables::Variables;

pub use analysis::{FailedRule, Linter, analysis};
pub use events::{RunEvent, catalogue};
pub use junit::junit;
pub use selector::{Selector, selector};
pub use spans::{RunTrace, ShownTrace, imported_trace};
pub use state::RunState;
pub use trigger::{Trigger, TriggerOutcome, definition_trigger, trigger};

/// The request that started a run, without the values of its variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunRequest {
    /// Free-form metadata of the run.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The variable set that was named; without values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable_set: Option<Value>,
    /// The gates that the run must pass.
    pub required_gates: Vec<String>,
    /// The names of the variables in their order.
    pub variables: Vec<String>,
    /// Settings of this run, which override those of the server.
    #[serde(skip_serializing_if = "is_blank")]
    pub settings: RunSettings,
    /// The run of a suite that this run is a step of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<SuiteRun>,
    /// The series that this run belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<InSeries>,
}

/// Settings of one run. Each is the `spec` of a resource of that kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RunSettings {
    /// The rules of the analyzer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analyzer: Option<Map<String, Value>>,
    /// How to wait for the trace of a test that has no profile of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polling_profile: Option<Map<String, Value>>,
}

impl RunRequest {
    /// Returns the request that started this run.
    pub fn of(run: &StoredRun) -> Self {
        serde_json::from_str(&run.request).unwrap_or_default()
    }

    /// Returns the index of its step in the suite, counted from 0.
    pub fn step(&self) -> Option<usize> {
        let step: usize = self.metadata.get("step")?.as_str()?.parse().ok()?;
        self.suite.as_ref()?;
        step.checked_sub(1)
    }
}

/// A reference to a run of a suite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteRun {
    /// The suite.
    pub id: String,
    /// The number of the run.
    pub run: u64,
}

/// The position of a run in its series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InSeries {
    /// The first run; 0 for the first run itself.
    pub first: u64,
    /// Its number in the series, counted from 1.
    pub attempt: u32,
}

impl InSeries {
    /// Returns the number of the first run of the series, where `run` has this position.
    pub const fn first_run(self, run: u64) -> u64 {
        if self.first == 0 { run } else { self.first }
    }
}

/// A run. Empty values are left out, except for objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Run {
    /// Its number among the runs of its test.
    pub id: u64,
    /// The trace of the run.
    pub trace_id: String,
    /// The span of the trigger.
    pub span_id: String,
    /// The version of the test that was run.
    pub test_version: u64,
    /// Its state.
    pub state: String,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "is_blank")]
    pub last_error_state: String,
    /// Its duration in seconds, rounded up.
    pub execution_time: u64,
    /// The duration of the trigger in milliseconds.
    #[serde(skip_serializing_if = "is_blank")]
    pub trigger_time: u64,
    /// When it was created.
    pub created_at: String,
    /// When the trigger was sent.
    pub service_triggered_at: String,
    /// When the trigger got its response.
    pub service_trigger_completed_at: String,
    /// When the wait for the trace ended.
    pub obtained_trace_at: String,
    /// When it ended.
    pub completed_at: String,
    /// The given variables, updated with the outputs.
    pub variable_set: VariableSet,
    /// The trigger with its values.
    pub resolved_trigger: Trigger,
    /// The result of the trigger.
    pub trigger_result: TriggerOutcome,
    /// The trace; empty in lists.
    pub trace: RunTrace,
    /// The results of the specs.
    pub result: Results,
    /// The report of the analyzer.
    pub linter: Linter,
    /// The values of its outputs.
    #[serde(skip_serializing_if = "is_blank")]
    pub outputs: Vec<Output>,
    /// The result of the gates.
    pub required_gates_result: Gates,
    /// Free-form metadata.
    #[serde(skip_serializing_if = "is_blank")]
    pub metadata: Map<String, Value>,
    /// The suite that it is a step of.
    #[serde(skip_serializing_if = "is_blank")]
    pub test_suite_id: String,
    /// The run of that suite.
    #[serde(skip_serializing_if = "is_blank")]
    pub test_suite_run_id: u64,
    /// Its position in a series.
    #[serde(skip_serializing_if = "is_blank")]
    pub series: Option<InSeries>,
    /// What is missing of the trace and could change the result: if there is any, the run is inconclusive.
    #[serde(skip_serializing_if = "is_blank")]
    pub missing: Vec<String>,
}

/// The results of specs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Results {
    /// Whether all of them passed.
    #[serde(skip_serializing_if = "is_blank")]
    pub all_passed: bool,
    /// One for each spec.
    #[serde(skip_serializing_if = "is_blank")]
    pub results: Vec<SpecResult>,
}

/// The results of one spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SpecResult {
    /// The selector of the spec.
    pub selector: Selector,
    /// One for each assertion.
    pub results: Vec<AssertionResult>,
}

/// The results of one assertion.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AssertionResult {
    /// The assertion, as written.
    pub assertion: String,
    /// Whether it holds for all spans.
    #[serde(skip_serializing_if = "is_blank")]
    pub all_passed: bool,
    /// One for each span, or one for all of them.
    pub span_results: Vec<SpanResult>,
    /// The number of results beyond the storage limit.
    #[serde(skip_serializing_if = "is_blank")]
    pub omitted: Omitted,
}

/// The result of one assertion on one span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SpanResult {
    /// The span.
    #[serde(skip_serializing_if = "is_blank")]
    pub span_id: String,
    /// The value of the left side.
    #[serde(skip_serializing_if = "is_blank")]
    pub observed_value: String,
    /// Whether it holds.
    #[serde(skip_serializing_if = "is_blank")]
    pub passed: bool,
    /// The error message.
    #[serde(skip_serializing_if = "is_blank")]
    pub error: String,
}

/// The value of an output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Output {
    /// The name of the variable.
    #[serde(skip_serializing_if = "is_blank")]
    pub name: String,
    /// The span that it was read from.
    #[serde(skip_serializing_if = "is_blank")]
    pub span_id: String,
    /// Its value.
    #[serde(skip_serializing_if = "is_blank")]
    pub value: String,
    /// Why it has none.
    #[serde(skip_serializing_if = "is_blank")]
    pub error: String,
}

/// The variables of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "RunVariables")]
pub struct VariableSet {
    /// The variable set that was named.
    #[serde(skip_serializing_if = "is_blank")]
    pub id: String,
    /// Its title.
    #[serde(skip_serializing_if = "is_blank")]
    pub name: String,
    /// Its description.
    #[serde(skip_serializing_if = "is_blank")]
    pub description: String,
    /// The variables.
    #[serde(skip_serializing_if = "is_blank")]
    pub values: Vec<Pair>,
}

/// A variable or a header: name and value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pair {
    /// Its name.
    #[serde(skip_serializing_if = "is_blank")]
    pub key: String,
    /// Its value.
    #[serde(skip_serializing_if = "is_blank")]
    pub value: String,
}

/// The result of the gates of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Gates {
    /// The required gates.
    pub required: Vec<String>,
    /// The gates that failed, required or not.
    pub failed: Vec<String>,
    /// Whether the required gates passed.
    pub passed: bool,
    /// The required gates that failed only because spans may be missing.
    #[serde(skip_serializing_if = "is_blank")]
    pub inconclusive: Vec<String>,
}

impl Gates {
    /// Whether all required gates that failed are inconclusive.
    pub fn is_inconclusive(&self) -> bool {
        let missed = self.failed.iter().filter(|gate| self.required.contains(gate));
        !self.inconclusive.is_empty() && missed.count() == self.inconclusive.len()
    }
}

/// Whether a value is the default, which is left out.
pub(super) fn is_blank<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

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
        resolved_trigger: trigger(facts.trigger.as_ref()),
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
    let of_span = |(result, is_culprit): (&super::verdict::SpanResult, bool)| SpanResult {
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

fn output(output: &super::verdict::Output) -> Output {
    Output {
        name: output.name.clone(),
        span_id: output.span_id.clone().unwrap_or_default(),
        value: output.value.clone(),
        error: output.error.clone().unwrap_or_default(),
    }
}

/// Builds the variables of a run: the given ones, updated with the outputs.
pub(super) fn variable_set<'o>(
    given: &str,
    asked: &RunRequest,
    outputs: impl Iterator<Item = (&'o str, &'o str)>,
) -> VariableSet {
    let given = Variables::shown(given);
    let mut values: Vec<Pair> = Vec::new();
    let mut set = |key: &str, value: &str| match values.iter_mut().find(|known| known.key == key) {
        Some(known) => value.clone_into(&mut known.value),
        None => values.push(Pair { key: key.to_owned(), value: value.to_owned() }),
    };
    for key in asked.variables.iter().chain(given.iter().map(|(key, _)| key)) {
        if let Some(value) = given.get(key) {
            set(key, value);
        }
    }
    for (name, value) in outputs {
        set(name, value);
    }
    let named = |key: &str| {
        let named = asked.variable_set.as_ref().and_then(|named| named.get(key)?.as_str());
        named.unwrap_or_default().to_owned()
    };
    VariableSet { id: named("id"), name: named("name"), description: named("description"), values }
}

/// Builds the result of the gates: those that failed, and whether the required ones passed.
pub fn gates(required: &[String], facts: &RunState) -> Gates {
    let (mut failed, mut inconclusive) = (Vec::new(), Vec::new());
    if let Some(analysis) = facts.analysis.as_ref().filter(|analysis| analysis.plugins.is_some()) {
        let passes = [
            (Gate::AnalyzerRules, analysis.passed, analysis.has_errors()),
            (Gate::AnalyzerScore, analysis.score >= analysis.minimum_score, analysis.minimum_score > 0),
        ];
        for (gate, passes, can_fail) in passes {
            let gate = gate.as_str().to_owned();
            // A missing span could break a rule.
            let is_open = passes && can_fail && facts.analysis_open.is_some() && required.contains(&gate);
            if is_open {
                inconclusive.push(gate.clone());
            }
            if is_open || !passes {
                failed.push(gate);
            }
        }
    }
    if facts.verdict.as_ref().is_some_and(|verdict| verdict.outcome != Outcome::Passed) {
        failed.push(Gate::TestSpecs.as_str().to_owned());
    }
    let passed = !failed.iter().any(|gate| required.contains(gate));
    Gates { required: required.to_vec(), failed, passed, inconclusive }
}
