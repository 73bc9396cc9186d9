//! Truncates long texts for reports. The API has them in full.

use qualitytrace_server::wire::Verdict;
use qualitytrace_server::wire::verdict::{Assertion, Output, SpanResult, Spec};

/// The number of characters that are shown.
const LONGEST: usize = 500;

/// The text, or its beginning and its length.
pub(crate) fn text(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => {
            format!("{}… (the first {LONGEST} of {} characters)", &text[..end], text.chars().count())
        }
    }
}

/// A verdict with long texts truncated.
pub(super) fn verdict(verdict: &Verdict) -> Verdict {
    each_text(verdict, text)
}

/// A verdict with a function applied to each of its texts.
pub(super) fn each_text(verdict: &Verdict, text: Change) -> Verdict {
    Verdict {
        outcome: verdict.outcome,
        missing: verdict.missing.iter().map(|missing| text(missing)).collect(),
        specs: verdict.specs.iter().map(|known| spec(known, text)).collect(),
        outputs: verdict.outputs.iter().map(|known| output(known, text)).collect(),
    }
}

/// A function on texts.
type Change = fn(&str) -> String;

fn spec(spec: &Spec, text: Change) -> Spec {
    Spec {
        name: text(&spec.name),
        selector: text(&spec.selector),
        problem: spec.problem.as_deref().map(text),
        nearest: spec.nearest.iter().map(|hint| text(hint)).collect(),
        advice: spec.advice.as_deref().map(text),
        assertions: spec.assertions.iter().map(|known| assertion(known, text)).collect(),
        ..*spec
    }
}

fn assertion(assertion: &Assertion, text: Change) -> Assertion {
    Assertion {
        assertion: text(&assertion.assertion),
        outcome: assertion.outcome,
        results: assertion.results.iter().map(|known| result(known, text)).collect(),
        omitted: assertion.omitted,
        advice: assertion.advice.as_deref().map(text),
    }
}

fn result(result: &SpanResult, text: Change) -> SpanResult {
    SpanResult {
        span: text(&result.span),
        service: text(&result.service),
        alias: result.alias.as_deref().map(text),
        observed: text(&result.observed),
        expected: text(&result.expected),
        error: result.error.as_deref().map(text),
        ..result.clone()
    }
}

fn output(output: &Output, text: Change) -> Output {
    Output {
        name: text(&output.name),
        value: text(&output.value),
        span_id: output.span_id.clone(),
        error: output.error.as_deref().map(text),
    }
}
