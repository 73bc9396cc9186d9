//! Descriptions of spans.

use proptest::prelude::*;
use qualitytrace_core::assist::{Description, ValueType, describe};
use qualitytrace_core::budget::{Budget, BudgetError};
use qualitytrace_core::definition::{Spec, Text};
use qualitytrace_core::id::SpanId;
use qualitytrace_core::judge::{Compiled, Options, Outcome};
use qualitytrace_core::lang::{Generator, Variables, parse_selector, select};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

use super::recorded;
use crate::fixture::{span, trace};

fn described(trace: &Trace, at: usize, attribute: Option<&str>) -> Description {
    describe(trace, at, attribute, &Budget::default()).expect("the budget suffices")
}

fn selected(trace: &Trace, selector: &str) -> Vec<usize> {
    let parsed = parse_selector(selector);
    assert!(parsed.is_valid(), "{selector}: {:?}", parsed.diagnostics);
    select(&parsed.tree, trace, &Budget::default()).expect("the budget suffices")
}

/// Judges the assertions on the spans of the selector.
fn all_hold(trace: &Trace, selector: &str, assertions: &[String]) -> bool {
    let spec = Spec {
        name: None,
        selector: Text::from(selector),
        within: None,
        assertions: assertions.iter().map(|text| Text::from(text.as_str())).collect(),
    };
    let generator = Generator::in_utc(Timestamp::from_nanos(0), 0);
    let verdict = Compiled::new(&[spec], &[]).judge(trace, &Variables::new(), &Options::new(generator));
    verdict.outcome == Outcome::Passed
}

/// Checks everything that a description promises.
fn check(trace: &Trace, at: usize, attribute: Option<&str>) -> Description {
    let description = described(trace, at, attribute);
    let name = &trace.span(at).name;
    assert_eq!(selected(trace, &description.selector), [at], "{name}: {}", description.selector);
    for wider in &description.wider {
        let found = selected(trace, &wider.selector);
        assert!(found.contains(&at) && found.len() == wider.count && wider.count > 1, "{name}: {wider:?}");
    }
    let assertions: Vec<String> = description.assertions.iter().map(|one| one.assertion.clone()).collect();
    assert!(!assertions.is_empty(), "{name}: {attribute:?}");
    assert!(all_hold(trace, &description.selector, &assertions), "{name}: {assertions:?}");
    description
}

#[test]
fn each_recorded_span_is_selected_alone_by_what_stays_the_same() {
    let (mut spans, mut by_position) = (0, 0);
    for trace in recorded::traces() {
        for at in 0..trace.spans().len() {
            let description = check(&trace, at, None);
            let selector = &description.selector;
            for volatile in ["port", "span.id", "time", "duration", "status", "order.id", "guest-", "ord-"] {
                assert!(!selector.contains(volatile), "{selector}");
            }
            spans += 1;
            by_position += usize::from(selector.contains("nth_child"));
        }
    }
    assert!(spans >= 500, "{spans}");
    // Most spans of real traces differ by what they are or where they are.
    assert!(by_position * 4 < spans, "{by_position} of {spans}");
}

#[test]
fn each_attribute_of_recorded_spans_gets_assertions_that_hold() {
    let mut attributes = 0;
    for trace in recorded::traces().into_iter().step_by(3) {
        for at in 0..trace.spans().len() {
            for (name, _) in trace.span(at).attributes.iter() {
                let description = check(&trace, at, Some(name));
                assert!(!description.selector.contains(&format!("{name}=")), "{}", description.selector);
                attributes += 1;
            }
        }
    }
    assert!(attributes >= 1000, "{attributes}");
}

/// A span with this parent, name and service, and one attribute.
fn named(at: u64, parent: u64, name: &str, attribute: (&str, Value)) -> Span {
    let attributes: Attributes = [attribute].into_iter().collect();
    Span { name: name.into(), attributes, ..span(at, SpanId::from_bytes(parent.to_be_bytes())) }
}

fn selector_of(spans: Vec<Span>, id: u64) -> String {
    let trace = trace(spans.into_iter());
    let id = SpanId::from_bytes(id.to_be_bytes()).expect("not zero");
    check(&trace, trace.position(id).expect("it is there"), None).selector
}

#[test]
fn the_shortest_stable_condition_is_taken() {
    let spans = || {
        vec![
            named(1, 0, "GET /", ("http.route", "/".into())),
            named(2, 1, "call", ("rpc.method", "Reserve".into())),
            named(3, 1, "call", ("rpc.method", "Release".into())),
            named(4, 1, "job", ("user.id", "8d7f3c2b1a".into())),
            named(5, 1, "job", ("user.id", "17fe9ab310".into())),
        ]
    };
    assert_eq!(selector_of(spans(), 1), r#"span[name="GET /"]"#);
    assert_eq!(selector_of(spans(), 3), r#"span[rpc.method="Release"]"#);
    // An id is of no use in the next run.
    assert_eq!(selector_of(spans(), 5), r#"span[name="job"]:last"#);
}

#[test]
fn where_attributes_do_not_suffice_the_tree_does() {
    let none = || ("x", Value::Bool(true));
    let spans = || {
        vec![
            named(1, 0, "root", none()),
            named(2, 1, "left", none()),
            named(3, 1, "right", none()),
            named(4, 2, "query", none()),
            named(5, 3, "query", none()),
            named(6, 1, "call", none()),
            named(7, 1, "call", none()),
            named(8, 6, "answer", none()),
            named(9, 7, "reply", none()),
            named(10, 3, "twin", none()),
            named(11, 3, "twin", none()),
            named(12, 3, "twin", none()),
            named(13, 2, "twin", none()),
        ]
    };
    assert_eq!(selector_of(spans(), 5), r#"span[name="right"] span[name="query"]"#);
    assert_eq!(selector_of(spans(), 7), r#"span[name="call"]:has(> span[name="reply"])"#);
    assert_eq!(selector_of(spans(), 11), r#"span[name="right"] > span[name="twin"]:nth_child(2)"#);
    assert_eq!(selector_of(spans(), 13), r#"span[name="left"] span[name="twin"]"#);
}

#[test]
fn what_is_asserted_is_not_presumed() {
    let spans = vec![
        named(1, 0, "charge", ("rpc.method", "Try".into())),
        named(2, 0, "charge", ("rpc.method", "Do".into())),
    ];
    let trace = trace(spans.into_iter());
    assert_eq!(check(&trace, 1, None).selector, r#"span[rpc.method="Do"]"#);
    assert_eq!(check(&trace, 1, Some("rpc.method")).selector, r#"span[name="charge"]:last"#);
}

#[test]
fn proposals_depend_on_the_type_of_the_value() {
    let cases: [(&str, Value, ValueType, &[&str]); 9] = [
        (
            "http.status_code",
            Value::Int(201),
            ValueType::Number,
            &["attr:http.status_code = 201", "attr:http.status_code < 400"],
        ),
        ("n", Value::Int(-3), ValueType::Number, &["attr:n = -3", "attr:n <= -3"]),
        ("f", Value::Float(1.5), ValueType::Number, &["attr:f = 1.5"]),
        ("b", Value::Bool(false), ValueType::Bool, &["attr:b = false"]),
        ("s", "a \"b\" ${c}".into(), ValueType::Text, &["attr:s = \"a \\\"b\\\" \\${c}\""]),
        ("d", Value::Duration(25_000_000), ValueType::Duration, &["attr:d = 25ms", "attr:d < 100ms"]),
        ("digits", "200".into(), ValueType::Number, &["attr:digits = 200"]),
        ("list", Value::List(vec!["x".into(), "y".into()]), ValueType::List, &["attr:list contains \"x\""]),
        ("odd name", "v".into(), ValueType::Text, &["attr:\"odd name\" = \"v\""]),
    ];
    for (name, value, value_type, expected) in cases {
        let trace = trace([named(1, 0, "s", (name, value))].into_iter());
        let description = check(&trace, 0, Some(name));
        let found: Vec<&str> = description.assertions.iter().map(|one| one.assertion.as_str()).collect();
        assert!(found.starts_with(expected), "{name}: {found:?}");
        assert_eq!(description.assertions[0].value_type, value_type, "{name}");
    }
    let trace = trace([named(1, 0, "s", ("body", r#"{"id":7,"name":"Ada","tags":[]}"#.into()))].into_iter());
    let found = check(&trace, 0, Some("body")).assertions;
    assert_eq!(found[0].assertion, "attr:body | json_path '$.id' = 7");
    assert_eq!(found[1].assertion, "attr:body | json_path '$.name' = \"Ada\"");
    let lacking = check(&trace, 0, Some("absent")).assertions;
    assert_eq!(lacking[0].assertion, "attr:absent !exists");
}

#[test]
fn a_masked_secret_is_in_no_selector_and_no_assertion() {
    let spans = [
        named(1, 0, "s ********", ("key", "********".into())),
        named(2, 0, "s ********", ("key", "x".into())),
    ];
    let trace = trace(spans.into_iter());
    for attribute in [None, Some("key")] {
        let text = format!("{:?}", check(&trace, 0, attribute));
        assert!(!text.contains("***"), "{text}");
    }
}

/// So many spans, all alike, each below the one that `parent` says.
fn alike(count: u64, parent: impl Fn(u64) -> u64) -> Trace {
    trace((1..=count).map(|at| Span {
        name: "same".into(),
        ..named(at, parent(at), "same", ("http.route", "/same".into()))
    }))
}

#[test]
fn a_hostile_trace_takes_few_steps() {
    const SPANS: u64 = 20_000;
    for trace in [alike(SPANS, |_| 0), alike(SPANS, |at| at - 1), alike(SPANS, |at| at / 2)] {
        let at = 12_345;
        let description =
            describe(&trace, at, None, &Budget::new(20_000_000, 1 << 20)).expect("so many steps suffice");
        assert_eq!(selected(&trace, &description.selector), [at], "{}", description.selector);
    }
    let wide = named(1, 0, &"x".repeat(100_000), ("y", "z".repeat(100_000).into()));
    let attributes: Attributes =
        (0..5_000).map(|at| (format!("k{at}"), Value::from("v".repeat(50)))).collect();
    let trace = trace([wide, Span { attributes, ..span(2, None) }].into_iter());
    for at in 0..2 {
        let description = check(&trace, at, None);
        assert!(format!("{description:?}").len() < 10_000);
    }
    let stopped = describe(&alike(SPANS, |_| 0), 1, None, &Budget::new(10, 0));
    assert_eq!(stopped, Err(BudgetError::Steps(10)));
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        any::<bool>().prop_map(Value::Bool),
        ".{0,12}".prop_map(Value::from),
        "[0-9]{1,3}(ms|s)?".prop_map(Value::from),
        any::<i64>().prop_map(Value::Duration),
        prop::collection::vec(".{0,3}".prop_map(Value::from), 0..3).prop_map(Value::List),
        Just(Value::from(r#"{"a":1,"b":"x"}"#)),
        Just(Value::Null),
    ]
}

pub(super) fn any_spans() -> impl Strategy<Value = Vec<Span>> {
    let name = prop_oneof![Just("a".to_owned()), Just("b".to_owned()), ".{0,8}"];
    let key = prop_oneof![
        Just("http.route".to_owned()),
        Just("name".to_owned()),
        Just("kind".to_owned()),
        Just("status".to_owned()),
        Just("qualitytrace.span.type".to_owned()),
        Just("tracetest.span.name".to_owned()),
        Just("and".to_owned()),
        ".{0,8}"
    ];
    let one =
        (any::<prop::sample::Index>(), name, prop::collection::vec((key, any_value()), 0..4), 0_usize..6);
    prop::collection::vec(one, 1..12)
        .prop_map(|seeds| seeds.into_iter().enumerate().map(|(at, seed)| seeded(at, seed)).collect())
}

type Seed = (prop::sample::Index, String, Vec<(String, Value)>, usize);

fn seeded(at: usize, (parent, name, attributes, kind): Seed) -> Span {
    const KINDS: [SpanKind; 6] = [
        SpanKind::Server,
        SpanKind::Client,
        SpanKind::Internal,
        SpanKind::Producer,
        SpanKind::Consumer,
        SpanKind::Unspecified,
    ];
    let parent = parent.index(at + 1) as u64;
    Span {
        name: name.into(),
        attributes: attributes.into_iter().collect(),
        kind: KINDS[kind],
        ..span(at as u64 + 1, SpanId::from_bytes(parent.to_be_bytes()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_span_of_any_trace_is_selected_alone(spans in any_spans()) {
        let keys: Vec<String> = spans.iter().flat_map(|span| span.attributes.iter().map(|(key, _)| key.to_owned())).collect();
        let trace = trace(spans.into_iter());
        for at in 0..trace.spans().len() {
            check(&trace, at, None);
            for key in keys.iter().take(3) {
                let description = described(&trace, at, Some(key));
                prop_assert_eq!(selected(&trace, &description.selector), vec![at], "{}", description.selector);
            }
        }
    }
}
