//! Completion at a place of a text.

use proptest::prelude::*;
use qualitytrace_core::assist::{Completion, CompletionKind, Context, complete};
use qualitytrace_core::budget::Budget;
use qualitytrace_core::lang::{Diagnostic, Form, diagnose};
use qualitytrace_core::trace::{Attributes, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

use super::check::FORMS;
use super::recorded;
use crate::fixture::{span, trace};
use crate::properties::any_text;

/// Three spans: a server, a client and one with odd names and values.
fn shop() -> Trace {
    let spans = [
        (
            "POST /orders",
            SpanKind::Server,
            vec![("http.method", Value::from("POST")), ("http.status_code", Value::Int(201))],
        ),
        (
            "GET /stock",
            SpanKind::Client,
            vec![("http.method", "GET".into()), ("http.status_code", Value::Int(404))],
        ),
        (
            "odd",
            SpanKind::Internal,
            vec![
                ("odd name", "a \"b\"".into()),
                ("flag", Value::Bool(true)),
                ("user.id", "8d7f3c2b1a".into()),
            ],
        ),
    ];
    trace(spans.into_iter().zip(1..).map(|((name, kind, attributes), at)| Span {
        name: name.into(),
        kind,
        attributes: attributes.into_iter().collect::<Attributes>(),
        ..span(at, None)
    }))
}

/// Completes at the `|` of the text, which is no part of it.
fn completed(marked: &str, form: Form) -> (String, Vec<Completion>) {
    let at = marked.find('|').expect("the place is marked");
    let text = marked.replacen('|', "", 1);
    let trace = shop();
    let variables = ["HOST".to_owned(), "ORDER_ID".to_owned(), "no-name".to_owned()];
    let context = Context { trace: Some(&trace), variables: &variables, budget: &Budget::default() };
    let found = complete(&text, at, form, &context);
    (text, found)
}

/// The texts after the first completions.
fn applied(marked: &str, form: Form) -> Vec<String> {
    let (text, found) = completed(marked, form);
    let apply = |one: &Completion| {
        let mut text = text.clone();
        text.replace_range(one.replaces.clone(), &one.insert);
        text
    };
    found.iter().map(apply).collect()
}

fn check(marked: &str, form: Form, first: &[&str]) {
    let found = applied(marked, form);
    assert!(
        found.iter().map(String::as_str).take(first.len()).eq(first.iter().copied()),
        "{marked}: {found:?}"
    );
}

#[test]
fn a_selector_is_completed_wherever_it_ends() {
    let check = |marked: &str, first: &[&str]| check(marked, Form::Selector, first);
    check("|", &["span["]);
    check("sp|", &["span["]);
    check("span[|", &["span[name", "span[kind", "span[status"]);
    check("span[http.m|", &["span[http.method"]);
    check("span[method|", &["span[http.method"]);
    check("span[odd|", &["span[\"odd name\""]);
    check("span[\"od|", &["span[\"odd name\""]);
    check("span[qualitytrace.span.ty|", &["span[qualitytrace.span.type"]);
    check("span[name |", &["span[name =", "span[name !=", "span[name contains"]);
    check("span[name st|", &["span[name startsWith"]);
    check("span[name !|", &["span[name !=", "span[name !~", "span[name !exists"]);
    check("span[name|", &["span[name"]);
    check("span[http.method = |", &["span[http.method = \"GET\"", "span[http.method = \"POST\""]);
    check("span[http.method = \"P|", &["span[http.method = \"POST\""]);
    check("span[http.method = \"P|OS\"]", &["span[http.method = \"POST\"]"]);
    check("span[http.method = P|]", &["span[http.method = \"POST\"]"]);
    check("span[http.status_code >= 4|", &["span[http.status_code >= 404"]);
    check("span[flag = |", &["span[flag = true"]);
    check("span[name in (\"GET /stock\", |", &["span[name in (\"GET /stock\", \"GET /stock\""]);
    check("span[kind = prod|", &["span[kind = \"producer\""]);
    check("span[tracetest.span.type = d|", &["span[tracetest.span.type = \"database\""]);
    check("span[name=\"x\" |", &["span[name=\"x\" and", "span[name=\"x\" name"]);
    check("span[name=\"x\" and h|", &["span[name=\"x\" and http.method"]);
    check("span[name=\"x\"]:f|", &["span[name=\"x\"]:first"]);
    check("span[]:has(span[na|", &["span[]:has(span[name"]);
    check("span[] > |", &["span[] > span["]);
    check("span[kind=client] sp|", &["span[kind=client] span["]);
    // What is broken before the place does not matter.
    check("span[a == 1, http.me|", &["span[a == 1, http.method"]);
    assert_eq!(applied("span[ // na|", Form::Selector), [""; 0]);
    assert_eq!(applied("span[ /* na|", Form::Selector), [""; 0]);
}

#[test]
fn expressions_and_templates_are_completed() {
    let assertion = |marked: &str, first: &[&str]| check(marked, Form::Assertion, first);
    assertion("at|", &["attr:"]);
    assertion("attr:|", &["attr:tracetest.span.name"]);
    assertion("attr:http.s|", &["attr:http.status_code"]);
    assertion("attr:odd|", &["attr:\"odd name\""]);
    assertion(
        "attr:http.status_code |",
        &["attr:http.status_code = ", "attr:http.status_code != "].map(str::trim_end),
    );
    assertion("attr:http.status_code = |", &["attr:http.status_code = 201", "attr:http.status_code = 404"]);
    assertion("attr:http.method = \"P|", &["attr:http.method = \"POST\""]);
    assertion("attr:a sta|", &["attr:a startsWith"]);
    assertion("none at|", &["none attr:"]);
    assertion("bef|", &["before"]);
    assertion("before span[http.me|", &["before span[http.method"]);
    assertion("count(sp|", &["count(span["]);
    assertion("attr:x \u{7c}", &["attr:x ="]);
    assertion("attr:a = \"${va|", &["attr:a = \"${var:"]);
    let (_, found) = completed("uu|", Form::Expression);
    assert_eq!((found[0].insert.as_str(), found[0].kind), ("uuid()", CompletionKind::Function));
    check("http://${var:H|", Form::Template, &["http://${var:HOST"]);
    check("http://${var:|}/x", Form::Template, &["http://${var:HOST}/x", "http://${var:ORDER_ID}/x"]);
    check("${|", Form::Template, &["${var:", "${var:HOST"]);
    // A trigger has no span, and what is outside of `${...}` is plain text.
    assert!(applied("${attr|", Form::Template).iter().all(|text| !text.contains("attr:")));
    assert_eq!(applied("span|", Form::Template), [""; 0]);
}

#[test]
fn filters_are_completed_behind_their_sign() {
    let found = {
        let text = "attr:x | js";
        let context = Context { trace: None, variables: &[], budget: &Budget::default() };
        complete(text, text.len(), Form::Expression, &context)
    };
    assert_eq!(found[0].insert, "json_path '$'");
    assert_eq!(found[0].replaces, 9..11);
}

#[test]
fn without_a_trace_the_conventions_are_offered() {
    let context = Context { trace: None, variables: &[], budget: &Budget::default() };
    let found = complete("attr:http.ro", 12, Form::Assertion, &context);
    let offered: Vec<&str> = found.iter().map(|one| one.insert.as_str()).collect();
    assert_eq!(offered, ["http.route"]);
}

#[test]
fn what_is_volatile_or_masked_comes_last_or_not_at_all() {
    let (_, found) = completed("span[|", Form::Selector);
    let place = |label: &str| found.iter().position(|one| one.label == label).expect("it is offered");
    assert!(place("user.id") > place("http.method"));
    let masked = trace([Span { name: "********".into(), ..span(1, None) }].into_iter());
    let context = Context { trace: Some(&masked), variables: &[], budget: &Budget::default() };
    assert_eq!(complete("span[name = ", 12, Form::Selector, &context), []);
}

#[test]
fn what_is_offered_is_bounded() {
    let spans = (1..3_000).map(|at| Span {
        name: format!("name {at}").into(),
        attributes: (0..5).map(|key| (format!("key {at} {key}"), Value::from("v".repeat(500)))).collect(),
        ..span(at, None)
    });
    let large = trace(spans);
    let context = Context { trace: Some(&large), variables: &[], budget: &Budget::default() };
    for text in ["span[", "span[name = ", "span[key", "attr:"] {
        let form = if text == "attr:" { Form::Assertion } else { Form::Selector };
        let found = complete(text, text.len(), form, &context);
        assert!(!found.is_empty() && found.len() <= 100, "{text}: {}", found.len());
    }
    // Without a budget the language itself is still offered.
    let context = Context { budget: &Budget::new(0, 0), ..context };
    assert!(!complete("span[", 5, Form::Selector, &context).is_empty());
}

/// Texts around a completion that make it a valid text, with the kind of completion that fits there.
const AROUND: [(&str, &str, Form, CompletionKind); 9] = [
    ("span[", " = \"x\"]", Form::Selector, CompletionKind::Attribute),
    ("span[kind=client and ", " exists]", Form::Selector, CompletionKind::Attribute),
    ("span[name = ", "]", Form::Selector, CompletionKind::Value),
    ("span[http.request.method = ", "]", Form::Selector, CompletionKind::Value),
    ("span[]", "", Form::Selector, CompletionKind::PseudoClass),
    ("attr:", " exists", Form::Assertion, CompletionKind::Attribute),
    ("attr:name = ", "", Form::Assertion, CompletionKind::Value),
    ("attr:x | ", "", Form::Expression, CompletionKind::Filter),
    ("", "", Form::Expression, CompletionKind::Function),
];

#[test]
fn a_completion_in_a_valid_text_is_valid() {
    let traces: Vec<Trace> = recorded::traces().into_iter().step_by(9).chain([shop()]).collect();
    let mut applied = 0;
    for trace in &traces {
        let context = Context { trace: Some(trace), variables: &[], budget: &Budget::default() };
        for (before, after, form, kind) in AROUND {
            for one in complete(before, before.len(), form, &context) {
                if one.kind != kind {
                    continue;
                }
                let text = format!("{}{}{after}", &before[..one.replaces.start], one.insert);
                let errors: Vec<_> = diagnose(&text, form).into_iter().filter(Diagnostic::is_error).collect();
                assert!(errors.is_empty(), "{text}: {errors:?}");
                applied += 1;
            }
        }
    }
    assert!(applied > 1000, "{applied}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_place_of_any_text_gets_an_answer(text in any_text(), at in 0_usize..90) {
        let trace = shop();
        let variables = ["X".to_owned()];
        let context = Context { trace: Some(&trace), variables: &variables, budget: &Budget::default() };
        for form in FORMS {
            for one in complete(&text, at, form, &context) {
                prop_assert!(one.replaces.start <= one.replaces.end && one.replaces.end <= text.len());
                prop_assert!(text.is_char_boundary(one.replaces.start) && text.is_char_boundary(one.replaces.end));
                prop_assert!(one.replaces.start <= at);
            }
        }
    }
}
