//! The full verdict of a test: every spec, every assertion, every span.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Omitted;

/// The outcome of a test, a spec or an assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Everything holds.
    Passed,
    /// Something does not hold.
    Failed,
    /// Missing spans could change the result.
    Inconclusive,
}

impl Outcome {
    /// Returns its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// The verdict of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The outcome of the test.
    pub outcome: Outcome,
    /// Why it is inconclusive; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The specs, in the order of the definition.
    pub specs: Vec<Spec>,
    /// The outputs, in the order of the definition.
    pub outputs: Vec<Output>,
}

impl Verdict {
    /// Counts results that hold and results that do not, of all assertions on all spans. A test that did not pass
    /// counts at least one that does not hold, if only because spans are missing.
    pub fn counts(&self) -> (u64, u64) {
        let assertions = || self.specs.iter().flat_map(|spec| &spec.assertions);
        let (mut passed, mut failed) = (0, 0);
        for assertion in assertions() {
            let culprits = assertion.culprits().count() as u64;
            passed += assertion.results.len() as u64 - culprits + assertion.omitted.passed;
            failed += culprits + assertion.omitted.failed;
        }
        (passed, failed.max(u64::from(self.outcome != Outcome::Passed)))
    }
}

/// The result of one spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Its title; may be empty.
    pub name: String,
    /// Its selector, as written.
    pub selector: String,
    /// The outcome of the spec.
    pub outcome: Outcome,
    /// The number of spans that the selector matches.
    pub selected: usize,
    /// The longest duration of them, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<u64>,
    /// What is wrong with the spec as a whole: its selector is invalid, or matches nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Spans that nearly match a selector without matches, nearest first, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
    /// Where the spans that it lacks stand instead, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The assertions, in the order of the definition.
    pub assertions: Vec<Assertion>,
}

/// The result of one assertion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assertion {
    /// The assertion, as written.
    pub assertion: String,
    /// The outcome of the assertion.
    pub outcome: Outcome,
    /// One result for each span, or one for all of them.
    pub results: Vec<SpanResult>,
    /// The number of results beyond the storage limit.
    #[serde(default, skip_serializing_if = "Omitted::is_none")]
    pub omitted: Omitted,
    /// What helps to correct it, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Assertion {
    /// Iterates over the results that make the assertion fail.
    pub fn culprits(&self) -> impl Iterator<Item = &SpanResult> {
        self.marked_results().filter(|(_, is_culprit)| *is_culprit).map(|(result, _)| result)
    }

    /// Iterates over all results, with a flag for those that make the assertion fail. Verdicts of earlier versions do
    /// not contain this; there it is the results that do not hold.
    pub fn marked_results(&self) -> impl Iterator<Item = (&SpanResult, bool)> {
        let is_told = self.results.iter().any(|result| result.breaks);
        let is_broken = self.outcome != Outcome::Passed;
        self.results
            .iter()
            .map(move |result| (result, is_broken && if is_told { result.breaks } else { !result.passed }))
    }
}

/// The result of one assertion on one span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "VerdictSpanResult")]
pub struct SpanResult {
    /// The span; `None` if the assertion is about the selection as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    /// The span's name; empty without a span.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub span: String,
    /// The span's service; empty without a span.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// Whether it holds.
    pub passed: bool,
    /// Whether it makes the assertion fail: with `none` and `at most`, spans for which the claim holds do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub breaks: bool,
    /// The value of the left side.
    pub observed: String,
    /// The value of the right side.
    pub expected: String,
    /// The error; `no match` for a comparison that does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The attribute that was read instead of the named one, because it was renamed between versions of the
    /// conventions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

/// The value of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "VerdictOutput")]
pub struct Output {
    /// The name of the variable.
    pub name: String,
    /// Its value; empty if it has none.
    pub value: String,
    /// The span that it was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    /// Why it has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
