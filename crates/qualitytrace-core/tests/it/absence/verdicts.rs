//! Verdicts and outputs that rest on absences of one service.

use qualitytrace_core::definition::{Output, Spec};
use qualitytrace_core::judge::{Compiled, FailureReason, Outcome, Verdict};
use qualitytrace_core::lang::Variables;
use qualitytrace_core::trace::{Attributes, Resource, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

use super::{REASON, of_billing, options};
use crate::fixture;

/// A server span of `web` with `n` = 1, and one of `shop` below it with `n` = 2.
fn trace() -> Trace {
    let spans = [("web", 1), ("shop", 2)].into_iter().map(|(service, n)| {
        let (mut attributes, mut of_resource) = (Attributes::default(), Attributes::default());
        attributes.set("n", Value::Int(n));
        of_resource.set("service.name", Value::from(service));
        let parent = fixture::span(1, None).id.filter(|_| n > 1);
        let resource = Resource { attributes: of_resource, ..Resource::default() };
        Span {
            kind: SpanKind::Server,
            attributes,
            resource: resource.into(),
            ..fixture::span(u64::try_from(n).expect("it is small"), parent)
        }
    });
    fixture::trace(spans)
}

fn judged(specs: &[(&str, &str)], outputs: &[(&str, &str, &str)]) -> Verdict {
    let spec = |(selector, assertion): &(&str, &str)| Spec {
        name: None,
        selector: (*selector).into(),
        within: None,
        assertions: vec![(*assertion).into()],
    };
    let output = |(name, selector, value): &(&str, &str, &str)| Output {
        name: (*name).into(),
        selector: (*selector).into(),
        value: (*value).into(),
    };
    let specs: Vec<Spec> = specs.iter().map(spec).collect();
    let outputs: Vec<Output> = outputs.iter().map(output).collect();
    Compiled::new(&specs, &outputs).judge(&trace(), &Variables::new(), &options(of_billing()))
}

#[track_caller]
fn check(selector: &str, assertion: &str, expected: &str) {
    let verdict = judged(&[(selector, assertion)], &[]);
    let outcome = match &verdict.outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) => "failed",
        Outcome::Inconclusive { reason } => {
            assert_eq!(reason, REASON);
            "inconclusive"
        }
    };
    assert_eq!(outcome, expected, "{selector}: {assertion}");
}

#[test]
fn a_claim_of_presence_and_one_of_absence_are_both_inconclusive() {
    let billing = "span[service.name=\"billing\"]";
    check(billing, "attr:tracetest.selected_spans.count = 0", "inconclusive");
    check(billing, "attr:tracetest.selected_spans.count = 1", "inconclusive");
    check(billing, "attr:n = 1", "inconclusive");
    check("span[n exists]", "none attr:n > 10", "inconclusive");
    check("span[n exists]", "any attr:n = 50", "inconclusive");
}

#[test]
fn what_rests_on_spans_that_are_here_stands() {
    let web = "span[service.name=\"web\"]";
    check(web, "attr:n = 1", "passed");
    check(web, "attr:n = 2", "failed");
    check(web, "attr:tracetest.selected_spans.count = 1", "passed");
    check("span[n exists]", "attr:n > 1", "failed");
    check("span[n exists]", "any attr:n = 2", "passed");
    check("span[service.name != \"billing\"]", "attr:tracetest.selected_spans.count = 2", "passed");
}

#[test]
fn a_claim_that_looks_at_another_selection_rests_on_that_too() {
    let web = "span[service.name=\"web\"]";
    for claim in [
        "count(span[service.name=\"billing\"]) = 0",
        "0 = count(span[service.name=\"billing\"])",
        "sum(span[service.name=\"billing\"]).n = 0",
        "\"${count(span[service.name=\"billing\"])}\" = \"0\"",
        "attr:n + count(span[service.name=\"billing\"]) = 1",
        "first(span[service.name=\"billing\"]).n !exists",
        "before span[service.name=\"billing\"]",
    ] {
        check(web, claim, "inconclusive");
    }
    check(web, "count(span[service.name=\"shop\"]) = 1", "passed");
}

#[test]
fn an_output_that_may_be_another_is_not_handed_on() {
    let billing = "span[service.name=\"billing\"]";
    let count = "attr:tracetest.selected_spans.count";
    for (selector, value) in [
        (billing, count),
        (billing, "attr:n"),
        ("span[service.name=\"web\"]", "count(span[service.name=\"billing\"])"),
    ] {
        let verdict = judged(&[("span[service.name=\"web\"]", "attr:n = 1")], &[("N", selector, value)]);
        assert_eq!(
            verdict.outcome,
            Outcome::Inconclusive { reason: REASON.to_owned() },
            "{selector} {value}"
        );
        let output = &verdict.outputs[0];
        assert!(!output.resolved && output.value.is_empty(), "{output:?}");
        assert_eq!(output.open.as_deref(), Some(REASON));
        assert!(output.error.is_some(), "{output:?}");
    }
    let stands = judged(&[], &[("N", "span[service.name=\"web\"]", "attr:n"), ("M", "span[]", "attr:n")]);
    assert_eq!(stands.outcome, Outcome::Passed);
    assert_eq!((&*stands.outputs[0].value, &*stands.outputs[1].value), ("1", "1"));
}

#[test]
fn what_uses_an_output_rests_on_what_the_output_rests_on() {
    let outputs = [
        ("N", "span[service.name=\"billing\"]", "attr:tracetest.selected_spans.count"),
        ("M", "span[service.name=\"web\"]", "\"${var:N}!\""),
    ];
    for claim in ["\"${var:M}\" = \"0!\"", "var:N = 7", "var:M !exists"] {
        let verdict = judged(&[("span[service.name=\"web\"]", claim)], &outputs);
        let spec = verdict.specs[0].outcome();
        assert_eq!(spec, Outcome::Inconclusive { reason: REASON.to_owned() }, "{claim}");
    }
}

#[test]
fn an_output_that_was_read_from_a_span_leaves_nothing_open() {
    let outputs = [("N", "span[n = 1]", "attr:n"), ("M", "span[]", "\"${var:N}!\"")];
    for (claim, expected) in [
        ("var:N = 1", Outcome::Passed),
        ("attr:nothing = var:M", Outcome::Failed(FailureReason::NotEvaluated)),
    ] {
        let verdict = judged(&[("span[service.name=\"web\"]", claim)], &outputs);
        assert_eq!(verdict.specs[0].outcome(), expected, "{claim}");
    }
}

#[test]
fn a_claim_that_cannot_be_evaluated_proves_nothing() {
    let web = "span[service.name=\"web\"]";
    for quantifier in ["none", "at most 1 of", "0 of"] {
        check(web, &format!("{quantifier} attr:n = var:UNKNOWN"), "failed");
        check(web, &format!("{quantifier} [attr:n, var:UNKNOWN] = 1"), "failed");
        check(
            web,
            &format!("{quantifier} attr:n = first(span[service.name=\"web\" name=\"nothing\"]).n"),
            "failed",
        );
        // A missing attribute is a known fact about a span.
        check(web, &format!("{quantifier} attr:nothing >= 500"), "passed");
    }
}
