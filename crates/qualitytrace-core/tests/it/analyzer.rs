//! The analyzer's results for spans.

use proptest::prelude::*;
use qualitytrace_core::analyzer::Analyzer;
use qualitytrace_core::analyzer::{Level, RuleId, Subject, analyze, rule_report};
use qualitytrace_core::id::TraceId;
use qualitytrace_core::trace::{Span, SpanKind, Trace, stored};
use serde_json::json;

/// Returns the faults that a rule finds in a span, each as `value: expected`.
fn faults(
    rule: RuleId,
    name: &str,
    kind: SpanKind,
    family: &str,
    attributes: &[(&str, &str)],
) -> Vec<String> {
    let mut attributes: Vec<_> =
        attributes.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    attributes.sort();
    let subject = Subject { id: None, name: name.to_owned(), kind, family: family.to_owned(), attributes };
    let report = rule_report(rule, 1, Level::Error, &[subject]);
    let faults = report.results.iter().flat_map(|result| &result.faults);
    faults.map(|fault| format!("{}: {}", fault.value, fault.expected)).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn span_names_follow_the_old_and_the_current_conventions() {
    use SpanKind::{Client, Consumer, Server};
    let check = |name, kind, family, attributes: &[(&str, &str)]| {
        faults(RuleId::SpanNaming, name, kind, family, attributes)
    };
    for (name, kind, family, attributes) in [
        ("GET /a", Server, "http", &[("http.request.method", "GET"), ("http.route", "/a")][..]),
        ("GET", Client, "http", &[("http.request.method", "GET")]),
        ("GET /a/{id}", Client, "http", &[("http.request.method", "GET"), ("url.template", "/a/{id}")]),
        ("HTTP /a", Server, "http", &[("http.request.method", "_OTHER"), ("http.route", "/a")]),
        (
            "SELECT shop.orders",
            Client,
            "database",
            &[("db.operation", "SELECT"), ("db.name", "shop"), ("db.sql.table", "orders")],
        ),
        (
            "SELECT orders",
            Client,
            "database",
            &[("db.operation.name", "SELECT"), ("db.namespace", "shop"), ("db.collection.name", "orders")],
        ),
        ("SELECT orders JOIN", Client, "database", &[("db.query.summary", "SELECT orders JOIN")]),
        ("postgresql", Client, "database", &[("db.system.name", "postgresql")]),
        ("get", Client, "database", &[("db.system", "redis"), ("db.statement", "GET a")]),
        ("shop.Orders/Create", Client, "rpc", &[("rpc.method", "shop.Orders/Create")]),
        (
            "orders receive",
            Consumer,
            "messaging",
            &[("messaging.destination", "orders"), ("messaging.operation", "receive")],
        ),
        (
            "send orders",
            Consumer,
            "messaging",
            &[("messaging.destination.name", "orders"), ("messaging.operation.name", "send")],
        ),
    ] {
        assert_eq!(check(name, kind, family, attributes), NONE, "{name}");
    }
    let old = [("db.operation", "SELECT"), ("db.name", "shop"), ("db.sql.table", "orders")];
    assert_eq!(check("SELECT orders", Client, "database", &old), ["tracetest.span.name: SELECT shop.orders"]);
    assert_eq!(
        check("GET /b", Server, "http", &[("http.method", "GET"), ("http.route", "/a")]),
        ["tracetest.span.name: GET /a"]
    );
}

#[test]
fn required_attributes_may_have_either_name() {
    let check = |attributes: &[(&str, &str)]| {
        faults(RuleId::RequiredAttributes, "n", SpanKind::Server, "http", attributes)
    };
    let current = [("http.request.method", ""), ("url.path", ""), ("url.scheme", ""), ("server.address", "")];
    assert_eq!(check(&current), NONE);
    assert_eq!(check(&current[..2]), ["http.scheme: ", "net.host.name: "]);
}

#[test]
fn an_attribute_is_not_named_like_a_namespace() {
    let check = |names: &[&str]| {
        let attributes: Vec<(&str, &str)> = names.iter().map(|name| (*name, "x")).collect();
        faults(RuleId::AttributeNaming, "n", SpanKind::Server, "general", &attributes)
    };
    assert_eq!(check(&["a.b", "a.b.c", "a.b.d"]), ["a.b: "]);
    assert_eq!(check(&["a.b", "a.b.c.d"]), ["a.b: "]);
    assert_eq!(check(&["a.b", "a.bc"]), NONE);
    assert_eq!(check(&["http.request.header.content-type"]), NONE);
    assert_eq!(check(&["A.b", "a.b-c", "ab"]), ["A.b: ", "a.b-c: ", "ab: "]);
}

#[test]
fn only_hosts_count_as_addresses() {
    let check = |text: &str| {
        !faults(RuleId::PreferDns, "n", SpanKind::Client, "http", &[("server.address", text)]).is_empty()
    };
    for address in [
        "10.0.0.1",
        "10.0.0.1:80",
        "http://10.0.0.1/x",
        "http://me:pw@10.0.0.1:8080/x",
        "http://[::1]:80/",
        "::1",
        "pg://a:1,10.0.0.1:5432/db",
        "host=10.0.0.1;port=5432",
    ] {
        assert!(check(address), "{address}");
    }
    for name in [
        "host",
        "http://host/1.2.3.4",
        "http://v1.2.3.4.example.com",
        "host=db;version=1.2",
        "http://host/?ip=10.0.0.1",
        "",
    ] {
        assert!(!check(name), "{name}");
    }
}

#[test]
fn credentials_are_found_in_every_spelling_and_not_repeated() {
    let attributes = [("http.request.header.X_Api_Key", "hunter2")];
    let found = faults(RuleId::NoApiKeyLeak, "n", SpanKind::Server, "general", &attributes);
    assert_eq!(found, ["x-api-key: "]);
    let subject = Subject {
        id: None,
        name: String::new(),
        kind: SpanKind::Server,
        family: "http".to_owned(),
        attributes: vec![("http.request.header.authorization".to_owned(), "hunter2".to_owned())],
    };
    let report = rule_report(RuleId::NoApiKeyLeak, 1, Level::Error, &[subject]);
    assert!(!format!("{report:?}").contains("hunter2"));
}

#[test]
fn a_report_keeps_failures_first_and_counts_what_it_leaves_out() {
    let subject = |name: &str| Subject {
        id: None,
        name: name.to_owned(),
        kind: SpanKind::Server,
        family: "http".to_owned(),
        attributes: vec![
            ("http.method".to_owned(), "GET".to_owned()),
            ("http.route".to_owned(), "/a".to_owned()),
        ],
    };
    let mut subjects: Vec<Subject> = (0..12_000).map(|_| subject("GET /a")).collect();
    subjects.extend((0..3_000).map(|_| subject("wrong")));
    let report = rule_report(RuleId::SpanNaming, 1, Level::Error, &subjects);
    let failed = report.results.iter().filter(|result| !result.passed).count();
    assert_eq!((report.results.len(), failed, report.passed), (10_000, 3_000, false));
    assert_eq!((report.omitted.passed, report.omitted.failed), (5_000, 0));
    subjects.extend((0..9_000).map(|_| subject("wrong")));
    let report = rule_report(RuleId::SpanNaming, 1, Level::Error, &subjects);
    assert!(report.results.iter().all(|result| !result.passed));
    assert_eq!((report.omitted.passed, report.omitted.failed), (12_000, 2_000));
}

#[test]
fn warnings_and_disabled_rules_cost_nothing() {
    let mut analyzer = Analyzer::default();
    let trace = trace(&[3, 1, 2, 0]);
    let strict = analyze(&analyzer, &trace).expect("it is enabled");
    assert!(!strict.passed && strict.score < 100, "{strict:?}");
    for rule in analyzer.plugins.iter_mut().flat_map(|plugin| &mut plugin.rules) {
        rule.level = Level::Warning;
    }
    let lenient = analyze(&analyzer, &trace).expect("it is enabled");
    assert!(lenient.passed && lenient.score == 100, "{lenient:?}");
    analyzer.enabled = false;
    assert_eq!(analyze(&analyzer, &trace), None);
}

/// A trace of four spans, assembled in this order.
fn trace(order: &[usize]) -> Trace {
    let span = |id: &str, name: &str, attributes: serde_json::Value, children: Vec<serde_json::Value>| {
        json!({ "ID": id, "Name": name, "Kind": "server", "StartTime": "1700000000000", "EndTime": "1700000000025",
            "Attributes": attributes, "Children": children })
    };
    let whole = stored::read(&json!({ "ID": "5b8efff798038103d269b633813fc60c",
        "RootSpan": span("eee19b7ec3c1b171", "GET /a", json!({ "http.method": "GET", "http.route": "/a" }), vec![
            span("eee19b7ec3c1b172", "x", json!({ "db.system": "pg", "b": "", "a": "" }), vec![]),
            span("eee19b7ec3c1b173", "y", json!({ "http.url": "http://10.0.0.1", "http.scheme": "http" }), vec![]),
            span("eee19b7ec3c1b174", "z", json!({}), vec![]),
        ]) }))
    .expect("it is a stored trace");
    let spans: Vec<Span> = order.iter().map(|at| whole.span(*at).clone()).collect();
    Trace::assemble(TraceId::from_bytes([1; 16]).expect("not zero"), spans)
}

proptest! {
    #[test]
    fn the_order_of_arrival_does_not_matter(order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle()) {
        let analyzer = Analyzer::default();
        prop_assert_eq!(analyze(&analyzer, &trace(&order)), analyze(&analyzer, &trace(&[0, 1, 2, 3])));
    }
}
