//! The result of judging a test, in full: every spec, every assertion, every span.

use serde::{Deserialize, Serialize};

/// What became of a test, a spec or an assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Everything held.
    Passed,
    /// Something did not hold.
    Failed,
    /// What is missing could change the result.
    Inconclusive,
}

impl Outcome {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// The result of judging a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Of the test.
    pub outcome: Outcome,
    /// Why it is inconclusive; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// In the order of the definition.
    pub specs: Vec<Spec>,
    /// In the order of the definition.
    pub outputs: Vec<Output>,
}

impl Verdict {
    /// Results that hold and results that do not, of all assertions on all spans. A test that did not pass has at least
    /// one that does not: what is missing, if nothing else.
    pub fn counts(&self) -> (u64, u64) {
        let assertions = || self.specs.iter().flat_map(|spec| &spec.assertions);
        let all: usize = assertions().map(|assertion| assertion.results.len()).sum();
        let failed: usize = assertions().map(|assertion| assertion.culprits().count()).sum();
        ((all - failed) as u64, (failed as u64).max(u64::from(self.outcome != Outcome::Passed)))
    }
}

/// The result of one spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Its title; empty when it has none.
    pub name: String,
    /// Its selector, as written.
    pub selector: String,
    /// Of the spec.
    pub outcome: Outcome,
    /// How many spans the selector picks.
    pub selected: usize,
    /// The longest of them, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<u64>,
    /// What is wrong with the spec as a whole: its selector is invalid, or picks nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Spans that nearly match a selector that picks nothing, nearest first, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
    /// In the order of the definition.
    pub assertions: Vec<Assertion>,
}

/// The result of one assertion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assertion {
    /// As written.
    pub assertion: String,
    /// Of the assertion.
    pub outcome: Outcome,
    /// One a span, or one for all of them.
    pub results: Vec<SpanResult>,
}

impl Assertion {
    /// The results that keep it from holding.
    pub fn culprits(&self) -> impl Iterator<Item = &SpanResult> {
        self.marked_results().filter(|(_, is_culprit)| *is_culprit).map(|(result, _)| result)
    }

    /// Every result, and whether it keeps the assertion from holding. Verdicts of earlier versions do not say; there it
    /// is the results that did not hold.
    pub fn marked_results(&self) -> impl Iterator<Item = (&SpanResult, bool)> {
        let is_told = self.results.iter().any(|result| result.breaks);
        let is_broken = self.outcome != Outcome::Passed;
        self.results
            .iter()
            .map(move |result| (result, is_broken && if is_told { result.breaks } else { !result.passed }))
    }
}

/// The result of one assertion on one span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpanResult {
    /// The span; `None` when the assertion is about the selection as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    /// The span's name; empty without a span.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub span: String,
    /// The span's service; empty without a span.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// Whether it held.
    pub passed: bool,
    /// Whether it keeps the assertion from holding: with `none` and `at most`, spans for which the claim holds do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub breaks: bool,
    /// The left side, as it was.
    pub observed: String,
    /// The right side, as it was.
    pub expected: String,
    /// What went wrong: `no match` for a comparison that does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The attribute that was read instead of the one named, because it was renamed between convention versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

/// The value of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The variable that it becomes.
    pub name: String,
    /// Its value; empty when it has none.
    pub value: String,
    /// The span that it was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    /// Why it has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
