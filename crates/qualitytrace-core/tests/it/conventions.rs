//! Tests of older and newer semantic conventions on spans of newer and older ones.

use qualitytrace_core::definition::Spec;
use qualitytrace_core::judge::{Compiled, Options, Verdict};
use qualitytrace_core::lang::{Generator, Variables};
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
            (r#"span[rpc.grpc.status_code=0]"#, 1),
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
