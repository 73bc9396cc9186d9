//! A run as clients know it: the fold of its events, in the shape and with the omissions of the original's API.

mod analysis;
mod events;
mod facts;
mod junit;
mod selector;
mod spans;
mod trigger;

use qualitytrace_core::definition::settings::Gate;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::time::{NEVER, UNFINISHED, rfc3339};
use super::verdict::{Outcome, Spec, Verdict};
use crate::runner::Variables;
use crate::store::StoredRun;

pub use analysis::analysis;
pub use events::catalogue;
pub use facts::Facts;
pub use junit::junit;
pub use selector::selector;
pub use spans::tree_and_flat;
pub use trigger::{definition_trigger, trigger};

/// What was asked for when a run was started, beside its variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Asked {
    /// Free words about the run.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The variable set that was named; without values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable_set: Option<Value>,
    /// The gates that the run must pass.
    pub required_gates: Vec<String>,
    /// The names of the variables in their order.
    pub variables: Vec<String>,
    /// The run of a suite that it is a step of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<SuiteRun>,
    /// The series that it is one of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<InSeries>,
}

/// A run of a suite, as a run of a test names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteRun {
    /// The suite.
    pub id: String,
    /// Its run.
    pub run: u64,
}

/// The place of a run in its series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InSeries {
    /// The first run; 0 for the first run itself.
    pub first: u64,
    /// Counts from 1.
    pub attempt: u32,
}

/// The run as JSON. Without a trace the place for it is empty, as in lists.
pub fn run(stored: &StoredRun, facts: &Facts, trace: Option<&trace::Trace>, now: Timestamp) -> Value {
    if let Some(imported) = &facts.imported {
        let mut shown = imported.clone();
        shown["id"] = stored.number.into();
        return shown;
    }
    let asked: Asked = serde_json::from_str(&stored.request).unwrap_or_default();
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| drop(out.insert(key.to_owned(), value));
    put("id", stored.number.into());
    put("traceId", stored.trace.to_string().into());
    put("spanId", facts.span_id.clone().unwrap_or_else(|| "0".repeat(16)).into());
    put("testVersion", stored.test_version.into());
    put("state", stored.state.clone().into());
    if let Some(error) = &facts.error {
        put("lastErrorState", error.clone().into());
    }
    let end = facts.completed.unwrap_or(now);
    put("executionTime", end.since(stored.created).as_secs_f64().ceil().max(1.0).into_whole());
    let trigger_time = match (facts.triggered, facts.answered) {
        (Some(start), Some(end)) => u64::try_from(end.since(start).as_millis()).unwrap_or(u64::MAX),
        _ => 0,
    };
    if trigger_time > 0 {
        put("triggerTime", trigger_time.into());
    }
    let time = |at: Option<Timestamp>| at.map_or_else(|| NEVER.to_owned(), rfc3339);
    put("createdAt", rfc3339(stored.created).into());
    put("serviceTriggeredAt", time(facts.triggered).into());
    put("serviceTriggerCompletedAt", time(facts.answered).into());
    put("obtainedTraceAt", time(facts.obtained).into());
    put("completedAt", facts.completed.map_or_else(|| UNFINISHED.to_owned(), rfc3339).into());
    let made = facts.verdict.iter().flat_map(|verdict| &verdict.outputs);
    let made = made.map(|output| (output.name.as_str(), output.value.as_str()));
    put("variableSet", variable_set(&stored.variables, &asked, made));
    put("resolvedTrigger", trigger(facts.trigger.as_ref()));
    put("triggerResult", trigger::result(facts));
    put(
        "trace",
        match trace.filter(|_| facts.obtained.is_some()) {
            Some(trace) => tree_and_flat(trace),
            None => json!({ "tree": {} }),
        },
    );
    put("result", facts.verdict.as_ref().map_or_else(|| json!({}), result));
    put("linter", facts.analysis.clone().unwrap_or_else(|| json!({})));
    let outputs: Vec<Value> = facts.verdict.iter().flat_map(|verdict| &verdict.outputs).map(output).collect();
    if !outputs.is_empty() {
        put("outputs", outputs.into());
    }
    put("requiredGatesResult", gates(&asked, facts));
    if !asked.metadata.is_empty() {
        let mut metadata: Vec<_> = asked.metadata.into_iter().collect();
        metadata.sort_by(|a, b| a.0.cmp(&b.0));
        put("metadata", metadata.into_iter().collect::<Map<_, _>>().into());
    }
    if let Some(suite) = asked.suite {
        put("testSuiteId", suite.id.into());
        put("testSuiteRunId", suite.run.into());
    }
    if let Some(InSeries { first, attempt }) = asked.series {
        let first = if first == 0 { stored.number } else { first };
        put("series", json!({ "first": first, "attempt": attempt }));
    }
    Value::Object(out)
}

/// The results of the specs.
pub fn result(verdict: &Verdict) -> Value {
    let mut out = Map::new();
    flag(&mut out, "allPassed", verdict.specs.iter().all(|spec| spec.outcome == Outcome::Passed));
    let specs: Vec<Value> = verdict.specs.iter().map(spec).collect();
    if !specs.is_empty() {
        out.insert("results".to_owned(), specs.into());
    }
    out.into()
}

fn spec(spec: &Spec) -> Value {
    let assertions: Vec<Value> = spec
        .assertions
        .iter()
        .map(|assertion| {
            let mut out = Map::new();
            out.insert("assertion".to_owned(), assertion.assertion.clone().into());
            flag(&mut out, "allPassed", assertion.outcome == Outcome::Passed);
            let results: Vec<Value> = assertion
                .results
                .iter()
                .map(|result| {
                    let mut out = Map::new();
                    text(&mut out, "spanId", result.span_id.as_deref().unwrap_or_default());
                    text(&mut out, "observedValue", &result.observed);
                    flag(&mut out, "passed", result.passed);
                    text(&mut out, "error", result.error.as_deref().unwrap_or_default());
                    out.into()
                })
                .collect();
            out.insert("spanResults".to_owned(), results.into());
            out.into()
        })
        .collect();
    json!({ "selector": selector(&spec.selector), "results": assertions })
}

fn output(output: &super::verdict::Output) -> Value {
    let mut out = Map::new();
    text(&mut out, "name", &output.name);
    text(&mut out, "spanId", output.span_id.as_deref().unwrap_or_default());
    text(&mut out, "value", &output.value);
    text(&mut out, "error", output.error.as_deref().unwrap_or_default());
    out.into()
}

/// The variables of a run: those that it was given, and what its outputs made of them.
pub(super) fn variable_set<'o>(
    given: &str,
    asked: &Asked,
    outputs: impl Iterator<Item = (&'o str, &'o str)>,
) -> Value {
    let mut out = Map::new();
    let named = asked.variable_set.clone().unwrap_or_default();
    for key in ["id", "name", "description"] {
        text(&mut out, key, named[key].as_str().unwrap_or_default());
    }
    let given = Variables::shown(given);
    let mut values: Vec<(String, String)> = Vec::new();
    let mut set = |key: &str, value: &str| match values.iter_mut().find(|(known, _)| known == key) {
        Some((_, known)) => value.clone_into(known),
        None => values.push((key.to_owned(), value.to_owned())),
    };
    for key in asked.variables.iter().chain(given.iter().map(|(key, _)| key)) {
        if let Some(value) = given.get(key) {
            set(key, value);
        }
    }
    for (name, value) in outputs {
        set(name, value);
    }
    if !values.is_empty() {
        let values: Vec<Value> = values
            .iter()
            .map(|(key, value)| {
                let mut out = Map::new();
                text(&mut out, "key", key);
                text(&mut out, "value", value);
                out.into()
            })
            .collect();
        out.insert("values".to_owned(), values.into());
    }
    out.into()
}

/// Whether a run passed what it must.
pub fn passes_gates(asked: &Asked, facts: &Facts) -> bool {
    gates(asked, facts)["passed"] == true
}

fn gates(asked: &Asked, facts: &Facts) -> Value {
    let mut failed = Vec::new();
    if let Some(analysis) = facts.analysis.as_ref().filter(|analysis| analysis.get("plugins").is_some()) {
        if analysis["passed"] != true {
            failed.push(Gate::AnalyzerRules.as_str());
        }
        if analysis["score"].as_u64().unwrap_or(0) < analysis["minimumScore"].as_u64().unwrap_or(0) {
            failed.push(Gate::AnalyzerScore.as_str());
        }
    }
    if facts.verdict.as_ref().is_some_and(|verdict| verdict.outcome != Outcome::Passed) {
        failed.push(Gate::TestSpecs.as_str());
    }
    let passed = !failed.iter().any(|gate| asked.required_gates.iter().any(|required| required == gate));
    json!({ "required": asked.required_gates, "failed": failed, "passed": passed })
}

fn text(out: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        out.insert(key.to_owned(), text.into());
    }
}

fn flag(out: &mut Map<String, Value>, key: &str, flag: bool) {
    if flag {
        out.insert(key.to_owned(), true.into());
    }
}

trait IntoWhole {
    fn into_whole(self) -> Value;
}

impl IntoWhole for f64 {
    /// A number without a fraction, for whole seconds.
    fn into_whole(self) -> Value {
        format!("{self:.0}").parse::<u64>().unwrap_or_default().into()
    }
}
