//! Tests of older and newer semantic conventions on spans of newer and older ones.

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Format, Spec, with_current_conventions};
use qualitytrace_core::judge::{Compiled, Options, Verdict};
use qualitytrace_core::lang::{Generator, Variables, modern_assertions, modern_expression, modern_selector};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, Trace};
use qualitytrace_core::value::Value;

use crate::fixture;

/// A trace of one call.
fn call(attributes: &[(&str, &str)]) -> Trace {
    let mut span = Span { name: "call".into(), ..fixture::span(1, None) };
    for (name, value) in attributes {
        span.attributes.set(*name, value.parse().map_or_else(|_| Value::from(*value), Value::Int));
    }
    fixture::trace(std::iter::once(span))
}

fn older() -> Trace {
    call(&[
        ("rpc.system", "grpc"),
        ("rpc.service", "shop.Stock"),
        ("rpc.method", "Reserve"),
        ("rpc.grpc.status_code", "0"),
    ])
}

fn newer() -> Trace {
    call(&[
        ("rpc.system.name", "grpc"),
        ("rpc.method", "shop.Stock/Reserve"),
        ("rpc.response.status_code", "OK"),
    ])
}

fn judged(trace: &Trace, selector: &str, assertion: &str) -> Verdict {
    let spec = Spec { selector: selector.into(), assertions: vec![assertion.into()], ..Spec::default() };
    let options = Options::new(Generator::in_utc(Timestamp::from_nanos(0), 1));
    Compiled::new(&[spec], &[]).judge(trace, &Variables::new(), &options)
}

#[test]
fn calls_are_found_in_both_conventions() {
    for trace in [older(), newer()] {
        for (selector, count) in [
            (r#"span[rpc.service="shop.Stock" rpc.method="Reserve"]"#, 1),
            (r#"span[rpc.method="shop.Stock/Reserve"]"#, 1),
            (r#"span[rpc.method in ("Reserve", "Release")]"#, 1),
            (r"span[rpc.grpc.status_code=0]", 1),
            (r#"span[rpc.response.status_code="OK"]"#, 1),
            (r#"span[rpc.system="grpc"]"#, 1),
            (r#"span[rpc.method!="Reserve"]"#, 0),
            (r#"span[rpc.method="shop.Cart/Reserve"]"#, 0),
            (r#"span[rpc.service="shop.Cart"]"#, 0),
            (r#"span[rpc.response.status_code="INTERNAL"]"#, 0),
        ] {
            let claim = format!("attr:tracetest.selected_spans.count = {count}");
            assert!(
                judged(&trace, selector, &claim).passed(),
                "{selector} on {:?}",
                trace.span(0).attributes
            );
        }
    }
}

#[test]
fn calls_are_asserted_in_both_conventions() {
    for trace in [older(), newer()] {
        for (assertion, holds) in [
            (r#"attr:rpc.service = "shop.Stock""#, true),
            (r#"attr:rpc.method = "Reserve""#, true),
            (r#"attr:rpc.method = "shop.Stock/Reserve""#, true),
            (r#""shop.Stock/Reserve" = attr:rpc.method"#, true),
            (r#"attr:rpc.method != "Reserve""#, false),
            (r#"attr:rpc.method = "shop.Cart/Reserve""#, false),
            ("attr:rpc.grpc.status_code = 0", true),
            ("attr:rpc.grpc.status_code = 13", false),
            (r#"attr:rpc.response.status_code = "OK""#, true),
        ] {
            let passed = judged(&trace, "span[]", assertion).passed();
            assert_eq!(passed, holds, "{assertion} on {:?}", trace.span(0).attributes);
        }
    }
}

#[test]
fn a_failed_assertion_of_older_conventions_gets_its_line_of_the_newer_ones() {
    let verdict = judged(&newer(), "span[]", "attr:rpc.grpc.status_code = 13");
    let result = &verdict.specs[0].assertions[0];
    assert_eq!(result.results[0].observed_text, "0");
    assert_eq!(
        result.advice.as_deref(),
        Some(
            "the span follows newer conventions, in which this is `attr:rpc.response.status_code = \"INTERNAL\"`"
        )
    );
    assert_eq!(
        judged(&older(), "span[]", "attr:rpc.grpc.status_code = 13").specs[0].assertions[0].advice,
        None
    );
}

#[test]
fn values_that_were_renamed_are_the_same() {
    for (older, newer) in [
        (("net.transport", "ip_tcp"), ("network.transport", "tcp")),
        (("db.system", "mssql"), ("db.system.name", "microsoft.sql_server")),
        (("messaging.operation", "publish"), ("messaging.operation.type", "send")),
    ] {
        for ((recorded, value), (asked, expected)) in [(older, newer), (newer, older)] {
            let claim = format!("attr:{asked} = \"{expected}\"");
            assert!(judged(&call(&[(recorded, value)]), "span[]", &claim).passed(), "{claim}");
        }
    }
}

#[test]
fn selectors_are_rewritten_in_the_current_conventions() {
    for (older, newer) in [
        (r#"span[rpc.service="a.B" rpc.method="C"]"#, r#"span[rpc.method="a.B/C"]"#),
        (
            r#"span[name = "x" rpc.method = "C"  rpc.service = "a.B"]"#,
            r#"span[name = "x" rpc.method="a.B/C"]"#,
        ),
        (r#"span[rpc.service="a.B"]"#, r#"span[rpc.method startsWith "a.B/"]"#),
        (r#"span[rpc.method = "C" kind="server"]"#, r#"span[rpc.method endsWith "/C" kind="server"]"#),
        (r#"span[rpc.method="a.B/C"]"#, r#"span[rpc.method="a.B/C"]"#),
        ("span[rpc.grpc.status_code = 0]", r#"span[rpc.response.status_code="OK"]"#),
        ("span[http.status_code >= 500]", "span[http.response.status_code >= 500]"),
        (
            r#"span[db.system="mssql"]:not(span[http.method = "GET"])"#,
            r#"span[db.system.name="microsoft.sql_server"]:not(span[http.request.method = "GET"])"#,
        ),
        (r#"span[name="http.method"]"#, r#"span[name="http.method"]"#),
        ("span[http.method", "span[http.method"),
    ] {
        assert_eq!(modern_selector(older), newer);
        assert_eq!(modern_selector(newer), newer, "again");
    }
}

#[test]
fn assertions_are_rewritten_in_the_current_conventions() {
    let check = |older: &[&str], newer: &[&str]| assert_eq!(modern_assertions(older.iter().copied()), newer);
    check(&["attr:http.status_code = 200"], &["attr:http.response.status_code = 200"]);
    check(&["any attr:rpc.grpc.status_code = 0"], &["any attr:rpc.response.status_code = \"OK\""]);
    check(&["attr:rpc.service = \"a.B\""], &["attr:rpc.method startsWith \"a.B/\""]);
    check(
        &["attr:rpc.service = \"a.B\"", "attr:rpc.method = \"C\""],
        &["attr:rpc.method startsWith \"a.B/\"", "attr:rpc.method = \"a.B/C\""],
    );
    check(&["attr:db.statement contains \"http.method\""], &["attr:db.query.text contains \"http.method\""]);
    check(&["before span[http.method = \"GET\"]"], &["before span[http.request.method = \"GET\"]"]);
    assert_eq!(modern_expression("attr:http.url | length"), "attr:url.full | length");
}

#[test]
fn a_file_keeps_all_but_the_names_of_older_conventions() {
    let source = "# Stock.
type: Test
spec:
  name: T   # a name
  specs:
  - selector: 'span[rpc.service=\"a.B\" rpc.method=\"C\"]'
    assertions:
      # It works.
      - attr:rpc.grpc.status_code = 0
      - \"attr:name = \\\"x\\\"\"
  outputs:
  - name: S
    selector: span[]
    value: attr:http.status_code
";
    let expected = source
        .replace("rpc.service=\"a.B\" rpc.method=\"C\"", "rpc.method=\"a.B/C\"")
        .replace("attr:rpc.grpc.status_code = 0", "attr:rpc.response.status_code = \"OK\"")
        .replace("attr:http.status_code", "attr:http.response.status_code");
    let text = with_current_conventions(source, Format::Yaml, &Budget::default()).expect("it can be edited");
    assert_eq!(text, expected);
}
