//! Tests that are made from traces.

use proptest::prelude::*;
use qualitytrace_core::assist::draft;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Format, Resource, Test, Trigger, check, read};
use qualitytrace_core::judge::{Compiled, Options};
use qualitytrace_core::lang::{Generator, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

use super::describe::any_spans;
use super::recorded;
use crate::fixture::{span, trace};

/// Reads the draft of a trace, and judges it on the same trace.
fn drafted(trace: &Trace, at: Option<usize>) -> (String, Test) {
    let text = draft(trace, at, &Budget::default()).expect("the budget suffices").expect("there are spans");
    let reading = read(&text, Format::Yaml);
    assert_eq!(reading.diagnostics, [], "{text}");
    let [document] = &reading.documents[..] else { panic!("one document: {text}") };
    assert_eq!(check(&document.resource), [], "{text}");
    let Resource::Test(test) = &document.resource else { panic!("a test: {text}") };
    assert!(!test.specs.is_empty(), "{text}");
    let options = Options::new(Generator::in_utc(Timestamp::from_nanos(0), 0));
    let verdict = Compiled::new(&test.specs, &test.outputs).judge(trace, &Variables::new(), &options);
    assert!(verdict.passed(), "{text}");
    (text, test.clone())
}

#[test]
fn each_recorded_trace_satisfies_the_test_that_is_made_of_it() {
    let (mut requests, mut database_calls) = (0, 0);
    for trace in recorded::traces() {
        let (text, test) = drafted(&trace, None);
        requests += usize::from(matches!(test.trigger, Some(Trigger::Http(_))));
        database_calls += usize::from(text.contains("database call"));
        drafted(&trace, Some(trace.spans().len() - 1));
    }
    assert!(requests > 50 && database_calls > 30, "{requests} {database_calls}");
}

fn with(attributes: &[(&str, &str)]) -> Trace {
    let attributes: Attributes =
        attributes.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
    trace([Span { name: "GET /".into(), kind: SpanKind::Server, attributes, ..span(1, None) }].into_iter())
}

#[test]
fn the_trigger_repeats_the_request_where_the_trace_says_how() {
    let (text, _) = drafted(
        &with(&[
            ("http.request.method", "GET"),
            ("url.scheme", "https"),
            ("server.address", "shop"),
            ("server.port", "8443"),
            ("url.path", "/orders/${x}"),
            ("url.query", "q=1"),
        ]),
        None,
    );
    assert!(
        text.contains("      method: GET\n      url: \"https://shop:8443/orders/\\\\${x}?q=1\"\n"),
        "{text}"
    );
    let (text, _) = drafted(&with(&[("http.method", "POST"), ("http.url", "http://shop/orders")]), None);
    assert!(
        text.contains("# The trace has neither the body") && text.contains("url: http://shop/orders\n"),
        "{text}"
    );
    let rpc = [("rpc.system", "grpc"), ("rpc.service", "shop.Stock"), ("rpc.method", "Reserve")];
    let (text, _) = drafted(&with(&rpc), None);
    assert!(text.contains("# The trace does not say how to repeat the request"), "{text}");
    assert!(
        text.contains("type: traceid\n    traceid:\n      id: \"01010101010101010101010101010101\"\n"),
        "{text}"
    );
    let (text, _) = drafted(&with(&[&rpc[..], &[("server.address", "stock:9090")]].concat()), None);
    assert!(
        text.contains("address: stock:9090\n      service: Stock\n      method: shop.Stock.Reserve\n"),
        "{text}"
    );
    // The newer conventions have one name of service and method.
    let newer = [
        ("rpc.system.name", "grpc"),
        ("rpc.method", "shop.Stock/Reserve"),
        ("server.address", "stock"),
        ("server.port", "9090"),
    ];
    let (text, _) = drafted(&with(&newer), None);
    assert!(
        text.contains("address: stock:9090\n      service: Stock\n      method: shop.Stock.Reserve\n"),
        "{text}"
    );
    // A masked secret cannot be repeated.
    let (text, _) =
        drafted(&with(&[("http.method", "GET"), ("http.url", "http://shop/?key=********")]), None);
    assert!(text.contains("type: traceid") && !text.contains("***"), "{text}");
}

#[test]
fn the_caller_may_know_the_address() {
    let of = |pairs: &[(&str, &str)]| -> Attributes {
        pairs.iter().map(|(name, value)| (*name, Value::from(*value))).collect()
    };
    let rpc = [("rpc.system", "grpc"), ("rpc.service", "shop.Stock"), ("rpc.method", "Reserve")];
    let peer = [("net.peer.name", "stock"), ("net.peer.port", "9090")];
    let client = Span { kind: SpanKind::Client, attributes: of(&peer), ..span(1, None) };
    let server = Span { kind: SpanKind::Server, attributes: of(&rpc), ..span(2, client.id) };
    let (text, _) = drafted(&trace([client, server].into_iter()), None);
    assert!(text.contains("address: stock:9090\n"), "{text}");
}

#[test]
fn bounds_of_durations_leave_room() {
    let lasting = |millis: u64| {
        let start = Timestamp::from_nanos(1_000);
        let end = Some(Timestamp::from_nanos(1_000 + millis * 1_000_000));
        let (text, _) =
            drafted(&trace([Span { start, end, kind: SpanKind::Server, ..span(1, None) }].into_iter()), None);
        text
    };
    assert!(lasting(1).contains("attr:tracetest.span.duration < 50ms"), "{}", lasting(1));
    assert!(lasting(40).contains("attr:tracetest.span.duration < 200ms"), "{}", lasting(40));
}

#[test]
fn a_trace_without_spans_makes_no_test() {
    assert_eq!(draft(&trace([].into_iter()), None, &Budget::default()), Ok(None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_trace_satisfies_the_test_that_is_made_of_it(spans in any_spans()) {
        let trace = trace(spans.into_iter());
        for at in 0..trace.spans().len() {
            drafted(&trace, Some(at));
        }
    }
}
