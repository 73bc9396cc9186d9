//! Required gates of a run besides its specs, and messages about those that failed.

use qualitytrace_core::gates::Gate;
use qualitytrace_server::wire;
use qualitytrace_server::wire::fold::{self, RunState};
use qualitytrace_server::wire::run::{FailedRule, Linter};

use super::Outcome;
use crate::terminal::counted;

/// How many failed rules are named; the rest is counted.
const SHOWN_RULES: usize = 5;

/// A required gate that did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedGate {
    /// Its name in definitions.
    pub(crate) name: &'static str,
    /// One sentence about the failure.
    pub(crate) message: String,
    /// Whether it could still pass once the missing spans come.
    pub(crate) is_open: bool,
}

/// The result of the required gates of a run.
pub(super) struct Gates {
    passed: bool,
    /// Whether those that failed could still pass.
    is_open: bool,
    pub(super) requires_specs: bool,
    /// Gates of the analyzer that passed.
    pub(super) passing: Vec<&'static str>,
    /// Gates of the analyzer that failed.
    pub(super) failed: Vec<FailedGate>,
    /// Further notes.
    pub(super) notes: Vec<String>,
}

impl Gates {
    pub(super) fn of(required: &[String], events: &[wire::Event]) -> Self {
        let facts = RunState::of(events);
        let analysis = facts.analysis.as_ref().filter(|analysis| analysis.plugins.is_some());
        let is_required = |gate: Gate| required.iter().any(|name| name == gate.as_str());
        let gates = fold::gates(required, &facts);
        let (failed, passing): (Vec<Gate>, Vec<Gate>) = [Gate::AnalyzerScore, Gate::AnalyzerRules]
            .into_iter()
            .filter(|gate| is_required(*gate))
            .partition(|gate| gates.failed.iter().any(|name| name == gate.as_str()));
        let is_checked = analysis.is_some_and(Linter::has_rules);
        let passing = passing.into_iter().filter(|_| is_checked).map(Gate::as_str).collect();
        let failed = failed.into_iter().filter_map(|gate| {
            let is_open = gates.inconclusive.iter().any(|open| open == gate.as_str());
            let message = match &facts.analysis_open {
                Some(reason) if is_open => format!("a span that is not here could break it: {reason}"),
                _ => message(gate, analysis?),
            };
            Some(FailedGate { name: gate.as_str(), message, is_open })
        });
        let mut notes = Vec::new();
        for gate in [Gate::AnalyzerScore, Gate::AnalyzerRules] {
            let why = match analysis {
                None => "is switched off",
                Some(analysis) if !analysis.has_rules() => "has no rules",
                Some(_) => continue,
            };
            if is_required(gate) {
                notes.push(format!("the gate {} was not checked: the analyzer {why}", gate.as_str()));
            }
        }
        let requires_specs = is_required(Gate::TestSpecs);
        let has_failed_specs = gates.failed.iter().any(|name| name == Gate::TestSpecs.as_str());
        if has_failed_specs && !requires_specs {
            notes.push("failed specs do not count: the required gates leave out test-specs".to_owned());
        }
        let is_open = gates.is_inconclusive();
        Self { passed: gates.passed, is_open, requires_specs, passing, failed: failed.collect(), notes }
    }

    /// The outcome of the test, given the outcome of its specs.
    pub(super) fn outcome(&self, specs: wire::Outcome) -> Outcome {
        match (self.passed, self.requires_specs) {
            (true, false) => Outcome::Passed,
            (false, _) if self.is_open => Outcome::Inconclusive,
            (false, _) if specs == wire::Outcome::Passed || !self.requires_specs => Outcome::Failed,
            (true | false, true) | (false, false) => specs.into(),
        }
    }
}

fn message(gate: Gate, analysis: &Linter) -> String {
    let rules = analysis.failed_rules();
    match gate {
        Gate::AnalyzerScore => format!(
            "the analyzer gives the trace {} of 100 points, {} are required{}",
            analysis.score,
            analysis.minimum_score,
            named(&rules)
        ),
        Gate::AnalyzerRules => {
            let errors: Vec<_> = rules.into_iter().filter(|rule| rule.level == "error").collect();
            format!("rules of the analyzer did not pass{}", named(&errors))
        }
        Gate::TestSpecs => "specs did not pass".to_owned(),
    }
}

/// Formats `: span-naming (3 spans), prefer-dns (1 span)`, or nothing.
fn named(rules: &[FailedRule<'_>]) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = rules
        .iter()
        .take(SHOWN_RULES)
        .map(|rule| format!("{} ({})", rule.id, counted(rule.spans, "span")))
        .collect();
    let rest = match rules.len().saturating_sub(SHOWN_RULES) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!(": {}{rest}", shown.join(", "))
}
