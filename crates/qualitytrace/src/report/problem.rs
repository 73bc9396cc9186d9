//! What did not pass in a test, a sentence each: what short reports list.

use qualitytrace_server::wire;
use qualitytrace_server::wire::verdict::{Assertion, SpanResult, Spec};

use super::expectation::expected;
use super::{TestEnding, TestReport};

/// How many failing spans of an assertion are named; the rest is counted.
const NAMED_SPANS: usize = 3;

/// Something that did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The indexes of its spec and of the assertion, if it is about one.
    pub(crate) place: Option<(usize, usize)>,
    /// What was checked; empty for the run as a whole.
    pub(crate) what: String,
    pub(crate) message: String,
}

impl Problem {
    /// Formats it.
    pub(crate) fn sentence(&self) -> String {
        if self.what.is_empty() { self.message.clone() } else { format!("{}: {}", self.what, self.message) }
    }
}

/// The problems of a test, in the order of its specs.
pub(crate) fn problems(report: &TestReport) -> Vec<Problem> {
    let whole = |message: &str| Problem { place: None, what: String::new(), message: message.to_owned() };
    let verdict = match &report.ending {
        TestEnding::Broken(why) => return vec![whole(why)],
        TestEnding::Skipped(why) => return vec![whole(why)],
        TestEnding::Judged(verdict) => verdict,
    };
    let mut found = Vec::new();
    if report.instead_of_specs.is_none() {
        for (at, spec) in verdict.specs.iter().enumerate() {
            let assertions = spec.assertions.iter().enumerate();
            let failed = assertions.filter(|(_, assertion)| assertion.outcome != wire::Outcome::Passed);
            found.extend(failed.map(|(number, assertion)| of_assertion((at, number), spec, assertion)));
        }
    }
    let gates = report.failed_gates.iter().map(|gate| Problem {
        place: None,
        what: format!("gate {}", gate.name),
        message: gate.message.clone(),
    });
    found.extend(gates);
    if found.is_empty() {
        found.extend(verdict.missing.iter().map(|missing| whole(missing)));
    }
    found
}

fn of_assertion(place: (usize, usize), spec: &Spec, assertion: &Assertion) -> Problem {
    let title = if spec.name.is_empty() { &spec.selector } else { &spec.name };
    let mut culprits = assertion.culprits();
    let mut said: Vec<String> =
        culprits.by_ref().take(NAMED_SPANS).map(|result| told(&assertion.assertion, result)).collect();
    let rest = culprits.count() as u64 + assertion.omitted.failed;
    if rest > 0 {
        said.push(format!("and {rest} more"));
    }
    if said.is_empty() {
        said.push(spec.problem.clone().unwrap_or_else(|| "did not hold".to_owned()));
    }
    said.extend(spec.advice.iter().chain(&assertion.advice).cloned());
    if assertion.outcome == wire::Outcome::Inconclusive {
        said.insert(0, "inconclusive".to_owned());
    }
    Problem {
        place: Some(place),
        what: format!("{title} › {}", assertion.assertion),
        message: said.join("; "),
    }
}

/// The sentence about one span, or about the selection.
pub(super) fn told(assertion: &str, result: &SpanResult) -> String {
    let place = if result.span.is_empty() { "the selection" } else { &result.span };
    match result.error.as_deref() {
        None if result.passed => format!("{place}: the claim holds here, got {}", result.observed),
        None | Some("no match") => {
            format!("{place}: got {}, expected {}", result.observed, expected(assertion, &result.expected))
        }
        Some(error) => format!("{place}: {error}"),
    }
}
