//! Short forms of verdicts and analyses: counts, and the first failures of each list. The rest is read page by page.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::event::RunEventKind;
use super::run::{Linter, ShortPlugin};
use super::verdict::{Assertion, Outcome, Output, SpanResult, Spec, Verdict};

/// Failures of one assertion or rule in a short form.
pub const FIRST_FAILURES: usize = 20;

/// A verdict with counts instead of all results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShortVerdict {
    /// The outcome of the test.
    pub outcome: Outcome,
    /// Why it is inconclusive; empty otherwise.
    pub missing: Vec<String>,
    /// The specs, in the order of the definition.
    pub specs: Vec<ShortSpec>,
    /// The outputs, in the order of the definition.
    pub outputs: Vec<Output>,
}

/// The result of one spec.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShortSpec {
    /// Its title; may be empty.
    name: String,
    /// Its selector, as written.
    selector: String,
    /// The outcome of the spec.
    outcome: Outcome,
    /// The number of spans that the selector matches.
    selected: usize,
    /// The longest duration of them, in nanoseconds.
    longest: Option<String>,
    /// What is wrong with the spec as a whole: its selector is invalid, or matches nothing.
    problem: Option<String>,
    /// Spans that nearly match a selector without matches, nearest first, a sentence each.
    nearest: Vec<String>,
    /// Where the spans that it lacks stand instead, and what to do about it.
    advice: Option<String>,
    /// The assertions, in the order of the definition.
    assertions: Vec<ShortAssertion>,
}

/// The result of one assertion.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShortAssertion {
    /// The assertion, as written.
    assertion: String,
    /// The outcome of the assertion.
    outcome: Outcome,
    /// The number of results that do not make it fail.
    passed: u64,
    /// The number of results that make it fail.
    failed: u64,
    /// The first results that make it fail, at most 20.
    failures: Vec<SpanResult>,
    /// What helps to correct it, if it failed.
    advice: Option<String>,
}

impl From<&Verdict> for ShortVerdict {
    fn from(verdict: &Verdict) -> Self {
        Self {
            outcome: verdict.outcome,
            missing: verdict.missing.clone(),
            specs: verdict.specs.iter().map(ShortSpec::from).collect(),
            outputs: verdict.outputs.clone(),
        }
    }
}

impl From<&Spec> for ShortSpec {
    fn from(spec: &Spec) -> Self {
        Self {
            name: spec.name.clone(),
            selector: spec.selector.clone(),
            outcome: spec.outcome,
            selected: spec.selected,
            longest: spec.longest.map(|nanos| nanos.to_string()),
            problem: spec.problem.clone(),
            nearest: spec.nearest.clone(),
            advice: spec.advice.clone(),
            assertions: spec.assertions.iter().map(ShortAssertion::from).collect(),
        }
    }
}

impl From<&Assertion> for ShortAssertion {
    fn from(assertion: &Assertion) -> Self {
        let culprits = assertion.culprits().count() as u64;
        Self {
            assertion: assertion.assertion.clone(),
            outcome: assertion.outcome,
            passed: assertion.results.len() as u64 - culprits + assertion.omitted.passed,
            failed: culprits + assertion.omitted.failed,
            failures: assertion.culprits().take(FIRST_FAILURES).cloned().collect(),
            advice: assertion.advice.clone(),
        }
    }
}

/// Replaces the large parts of an event in its JSON: verdicts and analyses become short, and events of other runs that
/// it contains are left out.
pub fn shorten(event: &RunEventKind, shown: &mut Value) {
    let (field, short) = match event {
        RunEventKind::Judged { verdict } | RunEventKind::Late { verdict, .. } => {
            ("verdict", serde_json::to_value(ShortVerdict::from(verdict)))
        }
        RunEventKind::Analyzed { analysis, .. } => {
            ("analysis", serde_json::to_value(ShortAnalysis::from(analysis)))
        }
        RunEventKind::Again { .. } => ("events", Ok(Value::Array(Vec::new()))),
        RunEventKind::Imported { .. } => ("run", Ok(Value::Null)),
        _ => return,
    };
    shown[field] = short.unwrap_or_default();
}

/// A page of the results of one assertion.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssertionPage {
    /// The assertion with its counts.
    #[serde(flatten)]
    assertion: ShortAssertion,
    /// Its results, in the order of the trace.
    results: Vec<SpanResult>,
    /// The number of stored results that pass the filter.
    total: usize,
    /// The number of results beyond the storage limit.
    omitted: u64,
}

impl AssertionPage {
    /// Returns a page of the results of an assertion, or only of those that make it fail.
    pub fn of(assertion: &Assertion, take: usize, skip: usize, only_failed: bool) -> Self {
        let results = || {
            let results = assertion.marked_results();
            results.filter(|(_, is_culprit)| *is_culprit || !only_failed).map(|(result, _)| result)
        };
        let omitted = assertion.omitted;
        Self {
            assertion: assertion.into(),
            results: results().skip(skip).take(take).cloned().collect(),
            total: results().count(),
            omitted: if only_failed { omitted.failed } else { omitted.failed + omitted.passed },
        }
    }
}

/// A report of the analyzer with counts instead of all results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShortAnalysis {
    /// The minimum score.
    minimum_score: u32,
    /// Whether no rule of level `error` has failed.
    passed: bool,
    /// The score, from 0 to 100.
    score: u32,
    /// The results of the plugins.
    plugins: Vec<ShortPlugin>,
}

impl From<&Linter> for ShortAnalysis {
    fn from(report: &Linter) -> Self {
        Self {
            minimum_score: report.minimum_score,
            passed: report.passed,
            score: report.score,
            plugins: report.plugins.iter().flatten().map(|plugin| plugin.short(FIRST_FAILURES)).collect(),
        }
    }
}
