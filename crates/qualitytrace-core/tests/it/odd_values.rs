//! Selectors and assertions on spans whose values are unusual.

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::Spec;
use qualitytrace_core::judge::{Compiled, FailureReason, Options, Outcome};
use qualitytrace_core::lang::{self, Generator, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Event, Span, Trace};
use qualitytrace_core::value::Value;

use crate::fixture;

/// Spans of these durations in nanoseconds, each with the value `x`.
fn spans(values: &[(u64, Value)]) -> Trace {
    let spans = values.iter().zip(1_u64..).map(|((nanos, x), at)| {
        let mut span = Span { end: Some(Timestamp::from_nanos(at + nanos)), ..fixture::span(at, None) };
        span.attributes.set("x", x.clone());
        span
    });
    fixture::trace(spans)
}

fn outcome(trace: &Trace, assertion: &str) -> Outcome {
    let spec =
        Spec { name: None, selector: "span[]".into(), within: None, assertions: vec![assertion.into()] };
    let options = Options::new(Generator::in_utc(Timestamp::from_nanos(1), 1));
    Compiled::new(&[spec], &[]).judge(trace, &Variables::new(), &options).outcome
}

#[track_caller]
fn holds(trace: &Trace, assertion: &str, expected: bool) {
    assert_eq!(outcome(trace, assertion) == Outcome::Passed, expected, "{assertion}");
}

fn selected(trace: &Trace, selector: &str) -> usize {
    let parsed = lang::parse_selector(selector);
    assert!(parsed.is_valid(), "{selector}");
    lang::select(&parsed.tree, trace, &Budget::default()).expect("small enough").len()
}

#[test]
fn a_quantifier_before_an_aggregate_counts_its_one_result() {
    let trace = spans(&[(1, Value::Int(4)), (1, Value::Int(6))]);
    for (claim, is_true) in [
        ("max(attr:x) > 5", true),
        ("max(attr:x) > 6", false),
        ("count(span[x=4]) > 0", true),
        ("count() = 3", false),
    ] {
        for (quantifier, expected) in [
            ("", is_true),
            ("any ", is_true),
            ("1 of ", is_true),
            ("at least 1 of ", is_true),
            ("none ", !is_true),
        ] {
            holds(&trace, &format!("{quantifier}{claim}"), expected);
        }
        holds(&trace, &format!("0 of {claim}"), !is_true);
        holds(&trace, &format!("at most 0 of {claim}"), !is_true);
    }
    // What cannot be evaluated is not shown to be false.
    holds(&trace, "none max(attr:nothing) > 5", false);
}

#[test]
fn what_is_calculated_from_durations_compares_with_durations() {
    let none = || Value::Int(0);
    let trace = spans(&[(10_000_000, none()), (20_000_000, none()), (25_000_000, none())]);
    holds(&trace, "avg(attr:tracetest.span.duration) < 50ms", true);
    holds(&trace, "avg(attr:tracetest.span.duration) < 18ms", false);
    holds(&trace, "avg(attr:tracetest.span.duration) + 1ms > 19ms", true);
    holds(&trace, "attr:tracetest.span.duration / 3 < 1s", true);
    holds(&trace, "attr:tracetest.span.duration * 1.5 > 37ms", false);
    // The number stays a number.
    holds(&trace, "attr:tracetest.span.duration / 1000000 < 25.5", true);
    holds(&trace, "attr:x / 3 < 1s", true);
}

#[test]
fn what_is_no_number_has_no_place_in_an_order() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let values: Vec<_> =
            (0..30).map(|at| (1, if at == 7 { Value::Float(odd) } else { Value::Int(at) })).collect();
        let trace = spans(&values);
        for function in ["min", "max", "p50", "sum", "avg"] {
            let assertion = format!("{function}(attr:x) >= 0");
            assert_eq!(
                outcome(&trace, &assertion),
                Outcome::Failed(FailureReason::NotEvaluated),
                "{odd}: {assertion}"
            );
        }
    }
}

#[test]
fn a_negated_condition_on_a_list_holds_for_each_of_its_items() {
    let with = |names: &[&str]| {
        let event = |name: &&str| Event {
            name: (*name).into(),
            time: Timestamp::from_nanos(1),
            attributes: Attributes::default(),
            dropped_attributes: 0,
        };
        let span = Span { events: names.iter().map(event).collect(), ..fixture::span(1, None) };
        fixture::trace([span].into_iter())
    };
    let (all, some, none) =
        (with(&["exception", "exception"]), with(&["exception", "retry"]), with(&["retry", "log"]));
    for condition in
        ["!= \"exception\"", "not-contains \"except\"", "!~ \"^exc\"", "not in (\"exception\", \"error\")"]
    {
        let selector = format!("span[event.name {condition}]");
        let found = [&all, &some, &none].map(|trace| selected(trace, &selector));
        assert_eq!(found, [0, 0, 1], "{selector}");
    }
    assert_eq!(
        [&all, &some, &none].map(|trace| selected(trace, "span[event.name = \"exception\"]")),
        [1, 1, 0]
    );
}

#[test]
fn a_sender_cannot_shadow_what_is_measured() {
    let mut span = Span { end: Some(Timestamp::from_nanos(5_000_000_001)), ..fixture::span(1, None) };
    for (name, value) in [
        ("tracetest.span.duration", "1"),
        ("tracetest.span.name", "other"),
        ("tracetest.span.type", "database"),
        ("tracetest.span.status_code", "STATUS_CODE_ERROR"),
        ("span.events", "[1]"),
    ] {
        span.attributes.set(name, Value::from(value));
    }
    let trace = fixture::trace([span].into_iter());
    holds(&trace, "attr:tracetest.span.duration = 5s", true);
    holds(&trace, "attr:tracetest.span.name = \"s1\"", true);
    holds(&trace, "attr:tracetest.span.type = \"general\"", true);
    holds(&trace, "attr:tracetest.span.status_code = \"STATUS_CODE_UNSET\"", true);
    holds(&trace, "attr:span.events = \"[]\"", true);
    assert_eq!(selected(&trace, "span[tracetest.span.type = \"database\"]"), 0);
    let stored = trace.as_stored();
    holds(&stored, "attr:tracetest.span.duration = 1", true);
    assert_eq!(selected(&stored, "span[tracetest.span.type = \"database\"]"), 1);
}
