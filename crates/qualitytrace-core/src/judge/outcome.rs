//! Results of judging.

use crate::definition::Text;
use crate::id::SpanId;
use crate::lang::{Diagnostic, EvalErrorKind};
use crate::value::Value;

use super::{Alias, CompiledAssertion, NearMiss, UnknownService};

/// The result of a whole test.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Passed if every spec passed and no output is open; failed if a spec failed; otherwise undecided.
    pub outcome: Outcome,
    /// One result for each spec, in order.
    pub specs: Vec<SpecResult>,
    /// One result for each name of an output, in order.
    pub outputs: Vec<OutputResult>,
}

/// Passed, failed, or not decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The claim holds.
    Passed,
    /// The claim does not hold.
    Failed(FailureReason),
    /// It cannot be decided yet.
    Inconclusive {
        /// Why not.
        reason: String,
    },
}

/// Why something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// The values are not as expected.
    NoMatch,
    /// The selector matched nothing.
    NoSpan,
    /// The selector does not parse.
    InvalidSelector,
    /// The assertion does not parse.
    InvalidAssertion,
    /// A value could not be found or computed, or cannot be compared.
    NotEvaluated,
}

/// The result of a spec.
#[derive(Debug, Clone)]
pub struct SpecResult {
    /// The spec's title.
    pub name: Option<String>,
    /// The selector's text.
    pub selector: String,
    /// An earlier spec with the same selector.
    pub duplicate_of: Option<usize>,
    /// The selected spans: position in the trace and id.
    pub selected: Vec<(usize, Option<SpanId>)>,
    /// One result for each assertion, in order.
    pub assertions: Vec<AssertionResult>,
    /// Attributes of the selector that the selected spans have under the name of another convention.
    pub aliases: Vec<Alias>,
    /// The near misses of the selector, when it matched nothing.
    pub near_misses: Vec<NearMiss>,
    /// The service that the selector asks for, when it matched nothing because the trace has no span of it.
    pub unknown_service: Option<UnknownService>,
    /// The diagnostics of the selector.
    pub diagnostics: Vec<Diagnostic>,
}

/// What could make an assertion pass that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Remedy {
    /// Nothing, or it passes.
    #[default]
    None,
    /// Spans that change what it is read from.
    OtherSpans,
    /// More spans: there are too few.
    MoreSpans,
}

/// The result of an assertion.
#[derive(Debug, Clone)]
pub struct AssertionResult {
    /// The assertion's text.
    pub assertion: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// Whether it would pass if no more spans arrived.
    pub passes_now: bool,
    /// Whether no later span can change it.
    pub is_final: bool,
    /// What could make it pass that fails now.
    pub remedy: Remedy,
    /// One result for each selected span, or a single one that belongs to no span.
    pub results: Vec<SpanResult>,
    /// Attributes that were found under the name of another convention.
    pub aliases: Vec<Alias>,
    /// What helps to correct it, when it failed.
    pub advice: Option<String>,
    /// The diagnostics of the assertion's text.
    pub diagnostics: Vec<Diagnostic>,
}

/// The result of an assertion on one span.
#[derive(Debug, Clone)]
pub struct SpanResult {
    /// The span's position in the trace; `None` when the result belongs to no span.
    pub position: Option<usize>,
    /// The span's id.
    pub span: Option<SpanId>,
    /// Whether the claim holds for it.
    pub passed: bool,
    /// Whether it keeps the assertion from holding: with `none` and `at most`, spans for which the claim holds do.
    pub breaks: bool,
    /// The value of the left side.
    pub observed: Option<Value>,
    /// The value of the left side as text; empty when there is none.
    pub observed_text: String,
    /// The value of the right side.
    pub expected: Option<Value>,
    /// The value of the right side as text; empty when there is none.
    pub expected_text: String,
    /// Why it failed, in the form that Tracetest's clients recognise.
    pub error: Option<String>,
    /// The kind of failure.
    pub failure: Option<FailureReason>,
    /// The kind of evaluation error.
    pub trouble: Option<EvalErrorKind>,
}

/// The result of an output.
#[derive(Debug, Clone)]
pub struct OutputResult {
    /// The variable's name.
    pub name: String,
    /// Its value as text; empty when it is unresolved.
    pub value: String,
    /// The span that it was read from.
    pub span: Option<SpanId>,
    /// Whether there is a value.
    pub resolved: bool,
    /// Why there is none.
    pub error: Option<String>,
    /// Whether it was read from a span that is here, so that later spans do not change it.
    pub is_read: bool,
    /// Whether no later span can change it, nor what it uses.
    pub is_final: bool,
    /// Why the value is not certain: a span that may be missing would change it.
    pub open: Option<String>,
    /// The value of an earlier output with the same name, which this one replaces.
    pub replaces: Option<String>,
}

impl Verdict {
    pub(super) fn new(specs: Vec<SpecResult>, outputs: Vec<OutputResult>) -> Self {
        let open = outputs.iter().filter_map(|output| output.open.clone());
        let outputs_outcome = open.map(|reason| Outcome::Inconclusive { reason });
        let outcome = combined(specs.iter().map(SpecResult::outcome).chain(outputs_outcome));
        Self { outcome, specs, outputs }
    }

    /// Whether the test passed.
    pub fn passed(&self) -> bool {
        self.outcome == Outcome::Passed
    }
}

impl OutputResult {
    /// Withdraws the value, because a missing span may change it.
    pub(super) fn leave_open(&mut self, reason: &str) {
        self.resolved = false;
        self.value.clear();
        // Existing clients recognise the text for an output without a value.
        self.error.get_or_insert_with(|| format!("output \"{}\" is inconclusive: {reason}", self.name));
        self.open = Some(reason.to_owned());
    }
}

impl SpecResult {
    /// Passed if every assertion passed; failed if one failed; otherwise undecided. An invalid selector fails.
    pub fn outcome(&self) -> Outcome {
        if self.diagnostics.iter().any(Diagnostic::is_error) {
            return Outcome::Failed(FailureReason::InvalidSelector);
        }
        combined(self.assertions.iter().map(|assertion| assertion.outcome.clone()))
    }
}

/// Combines outcomes: one failure fails all; without failures one undecided outcome leaves all undecided.
fn combined(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let mut combined = Outcome::Passed;
    for outcome in outcomes {
        match outcome {
            Outcome::Failed(_) => return outcome,
            Outcome::Inconclusive { .. } if combined == Outcome::Passed => combined = outcome,
            Outcome::Inconclusive { .. } | Outcome::Passed => {}
        }
    }
    combined
}

impl AssertionResult {
    /// A failure that does not depend on the trace.
    pub(super) fn hopeless(text: &Text, failure: FailureReason, results: Vec<SpanResult>) -> Self {
        Self {
            assertion: text.value.clone(),
            outcome: Outcome::Failed(failure),
            passes_now: false,
            is_final: true,
            remedy: Remedy::None,
            results,
            aliases: Vec::new(),
            advice: None,
            diagnostics: Vec::new(),
        }
    }

    pub(super) fn invalid_selector(assertion: &CompiledAssertion, message: &str) -> Self {
        let error = format!("invalid selector: {message}");
        Self {
            diagnostics: assertion.parsed.diagnostics.clone(),
            ..Self::hopeless(
                &assertion.text,
                FailureReason::InvalidSelector,
                vec![SpanResult::failed(FailureReason::InvalidSelector, error, Some(EvalErrorKind::Syntax))],
            )
        }
    }

    /// The selector exceeds the budget.
    pub(super) fn not_evaluated(assertion: &CompiledAssertion, message: &str) -> Self {
        let failed = SpanResult::failed(
            FailureReason::NotEvaluated,
            message.to_owned(),
            Some(EvalErrorKind::Evaluation),
        );
        Self {
            diagnostics: assertion.parsed.diagnostics.clone(),
            ..Self::hopeless(&assertion.text, FailureReason::NotEvaluated, vec![failed])
        }
    }

    /// Whether it passed.
    pub fn passed(&self) -> bool {
        self.outcome == Outcome::Passed
    }
}

impl SpanResult {
    pub(super) fn failed(failure: FailureReason, error: String, trouble: Option<EvalErrorKind>) -> Self {
        Self {
            position: None,
            span: None,
            passed: false,
            breaks: true,
            observed: None,
            observed_text: String::new(),
            expected: None,
            expected_text: String::new(),
            error: Some(error),
            failure: Some(failure),
            trouble,
        }
    }
}
