//! Finality: results that can no longer change while spans still arrive.

use qualitytrace_core::definition::{Output, Spec, Text};
use qualitytrace_core::id::SpanId;
use qualitytrace_core::judge::{Compiled, Options, Outcome, Remedy};
use qualitytrace_core::lang::{Generator, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

use crate::fixture;

/// A trace of three spans named `a` with the codes 200, 200 and 500.
fn trace() -> Trace {
    let spans = [200, 200, 500].into_iter().zip(1_u64..).map(|(code, at)| {
        let mut attributes = Attributes::default();
        attributes.set("code", Value::Int(code));
        Span {
            name: "a".into(),
            kind: SpanKind::Server,
            end: Some(Timestamp::from_nanos(at + 9)),
            attributes,
            ..fixture::span(at, SpanId::from_bytes((at - 1).to_be_bytes()))
        }
    });
    fixture::trace(spans)
}

fn spec(selector: &str, assertion: &str) -> Spec {
    Spec { name: None, selector: Text::from(selector), within: None, assertions: vec![Text::from(assertion)] }
}

/// Checks the state of the assertion: whether it passes, whether that is final, whether it waits for spans.
fn check(selector: &str, assertion: &str, passes: bool, is_final: bool, wants_more: bool) {
    let spec = spec(selector, assertion);
    let test = Compiled::new(&[spec], &[]);
    let options = Options {
        incomplete: Some("spans still arrive".to_owned()),
        ..Options::new(Generator::in_utc(Timestamp::from_nanos(1), 1))
    };
    let standing = test.standing(&trace(), &Variables::new(), &options).assertions[0];
    assert_eq!(
        (standing.passes, standing.is_final, standing.remedy != Remedy::None),
        (passes, is_final, wants_more),
        "{selector}: {assertion}"
    );
    let verdict = test.judge(&trace(), &Variables::new(), &options);
    let is_open = matches!(verdict.outcome, Outcome::Inconclusive { .. });
    assert_eq!(is_open, !is_final, "{selector}: {assertion}");
}

#[test]
fn a_failure_on_a_span_that_is_here_is_final() {
    check("span[name=\"a\"]", "attr:code = 200", false, true, false);
    check("span[name=\"a\"]", "attr:code < 600", true, false, false);
    check("span[name=\"a\"]:first", "attr:code = 500", false, false, true);
}

#[test]
fn a_selector_that_matches_nothing_waits_for_spans() {
    check("span[name=\"b\"]", "attr:code = 200", false, false, true);
}

#[test]
fn a_count_can_only_grow() {
    let count = |rest: &str| format!("attr:tracetest.selected_spans.count {rest}");
    check("span[]", &count("= 2"), false, true, false);
    check("span[]", &count("= 3"), true, false, false);
    check("span[]", &count("= 4"), false, false, true);
    check("span[]", &count(">= 3"), true, true, false);
    check("span[]", &count("> 3"), false, false, true);
    check("span[]", &count("<= 2"), false, true, false);
    check("span[]", &count("< 9"), true, false, false);
    check("span[]", &count("!= 2"), true, true, false);
    check("span[]", "4 <= count()", false, false, true);
}

#[test]
fn quantifiers_are_final_once_enough_or_too_many_spans_passed() {
    check("span[]", "any attr:code = 500", true, true, false);
    check("span[]", "any attr:code = 404", false, false, true);
    check("span[]", "none attr:code = 500", false, true, false);
    check("span[]", "none attr:code = 404", true, false, false);
    check("span[]", "at least 2 of attr:code = 200", true, true, false);
    check("span[]", "at most 1 of attr:code = 200", false, true, false);
    check("span[]", "3 of attr:code = 200", false, false, true);
    check("span[]", "1 of attr:code = 200", false, true, false);
}

#[test]
fn what_looks_at_other_spans_stays_open() {
    check("span[]", "max(attr:code) < 600", true, false, false);
    check("span[]", "sum(attr:code) > 9000", false, false, true);
    check("span[code=200]:not(span[code=500])", "attr:code = 200", true, false, false);
}

#[test]
fn what_cannot_be_understood_is_final() {
    check("span[", "attr:code = 200", false, true, false);
    check("span[]", "attr:code =", false, true, false);
}

#[test]
fn a_spec_on_the_trigger_alone_is_final() {
    for trigger in ["Tracetest trigger", "Qualitytrace trigger"] {
        let trigger = format!("span[name=\"{trigger}\"]");
        check(&trigger, "attr:tracetest.selected_spans.count = 0", true, true, false);
        check(&trigger, "attr:code = 200", false, true, false);
    }
}

#[test]
fn what_stands_below_the_trigger_is_not_about_the_trigger_alone() {
    let none = "attr:tracetest.selected_spans.count = 0";
    for rest in
        [":has(span[status=error])", ":has(> span[status=error])", ":not(span[]:has(span[status=error]))"]
    {
        let selector = format!("span[name=\"Tracetest trigger\"]{rest}");
        check(&selector, none, true, false, false);
    }
    check("span[name=\"Tracetest trigger\"]:not(span[]:leaf)", none, true, false, false);
}

/// The trace of a span that is below the trigger until its parent arrives.
fn with_orphan() -> Trace {
    let orphan = Span { name: "a".into(), ..fixture::span(2, SpanId::from_bytes(7_u64.to_be_bytes())) };
    fixture::trace([orphan].into_iter())
        .with_trigger(Span { name: "Tracetest trigger".into(), ..fixture::span(1, None) })
}

#[test]
fn the_place_of_an_orphan_is_not_final() {
    let is_final = |selector: &str, assertion: &str| {
        let spec = spec(selector, assertion);
        let options = Options::new(Generator::in_utc(Timestamp::from_nanos(1), 1));
        Compiled::new(&[spec], &[]).standing(&with_orphan(), &Variables::new(), &options).assertions[0]
            .is_final
    };
    for selector in ["> span[name=\"a\"]", "span[name=\"a\"]"] {
        let selector = format!("span[name=\"Tracetest trigger\"] {selector}");
        let is_below = !selector.contains('>');
        assert_eq!(is_final(&selector, "attr:tracetest.selected_spans.count = 0"), is_below, "{selector}");
        assert_eq!(is_final(&selector, "attr:code = 200"), is_below, "{selector}");
    }
}

#[test]
fn a_quantifier_turns_the_finality_of_a_count_around() {
    check("span[]", "none count() > 2", false, true, false);
    check("span[]", "none count() > 3", true, false, false);
    check("span[]", "none count() < 4", false, false, true);
    check("span[]", "at most 3 of attr:tracetest.selected_spans.count > 1", true, false, false);
}

/// Whether the outputs are final on the trace of three spans.
fn outputs_stand(selector: &str, value: &str) -> bool {
    let output = Output { name: "LAST".into(), selector: selector.into(), value: value.into() };
    let options = Options::new(Generator::in_utc(Timestamp::from_nanos(1), 1));
    Compiled::new(&[], &[output]).standing(&trace(), &Variables::new(), &options).outputs_stand
}

#[test]
fn an_output_stands_once_no_later_span_can_change_it() {
    assert!(outputs_stand("span[name=\"a\"]", "attr:code"));
    assert!(outputs_stand("span[name=\"a\"]:first", "attr:code"));
    assert!(outputs_stand("span[name=\"Tracetest trigger\"]", "attr:nothing"));
    for open in [
        "span[name=\"a\"]:last",
        "span[name=\"a\"]:nth_child(2)",
        "span[name=\"a\"]:leaf",
        "span[name=\"a\"]:not(span[code=200])",
        "span[name=\"b\"]",
        "span[name=\"b\"], span[name=\"a\"]",
    ] {
        assert!(!outputs_stand(open, "attr:code"), "{open}");
    }
    assert!(!outputs_stand("span[name=\"a\"]", "attr:tracetest.selected_spans.count"));
}

#[test]
fn what_uses_an_output_is_final_when_the_output_is() {
    for (selector, is_final) in [("span[name=\"a\"]", true), ("span[name=\"a\"]:last", false)] {
        let output = Output { name: "CODE".into(), selector: selector.into(), value: "attr:code".into() };
        let spec = Spec {
            name: None,
            selector: Text::from("span[name=\"Tracetest trigger\"]"),
            within: None,
            assertions: vec![Text::from("var:CODE = 200")],
        };
        let options = Options::new(Generator::in_utc(Timestamp::from_nanos(1), 1));
        let test = Compiled::new(&[spec], &[output]);
        let standing = test.standing(&trace(), &Variables::new(), &options).assertions[0];
        assert_eq!(standing.is_final, is_final, "{selector}");
    }
}

#[test]
fn too_few_spans_are_told_from_wrong_ones() {
    for (selector, assertion, expected) in [
        ("span[name=\"a\"]", "attr:tracetest.selected_spans.count = 4", Remedy::MoreSpans),
        ("span[name=\"a\"]", "attr:tracetest.selected_spans.count = 2", Remedy::None),
        ("span[name=\"a\"]", "attr:tracetest.selected_spans.count != 3", Remedy::None),
        ("span[name=\"b\"]", "attr:tracetest.selected_spans.count != 0", Remedy::MoreSpans),
        ("span[name=\"b\"]", "attr:code = 200", Remedy::MoreSpans),
        ("span[name=\"a\"]:first", "attr:code = 500", Remedy::OtherSpans),
        ("span[name=\"a\"]", "any attr:code = 404", Remedy::MoreSpans),
        ("span[name=\"a\"]", "attr:code = 200", Remedy::None),
    ] {
        let spec = spec(selector, assertion);
        let options = Options::new(Generator::in_utc(Timestamp::from_nanos(1), 1));
        let standing = Compiled::new(&[spec], &[]).standing(&trace(), &Variables::new(), &options);
        assert_eq!(standing.assertions[0].remedy, expected, "{selector}: {assertion}");
    }
}
