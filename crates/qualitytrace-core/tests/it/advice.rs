//! What failed says what is there instead.

use qualitytrace_core::definition::Spec;
use qualitytrace_core::judge::{Compiled, Options, SpecResult};
use qualitytrace_core::lang::{Generator, Variables, diagnose_assertion, diagnose_selector};
use qualitytrace_core::time::Timestamp;

use crate::near::shop;

/// The result of a spec with one assertion on the spans of an order.
fn judged(selector: &str, assertion: &str) -> SpecResult {
    let spec = Spec { selector: selector.into(), assertions: vec![assertion.into()], ..Spec::default() };
    let options = Options::new(Generator::in_utc(Timestamp::from_nanos(0), 1));
    let verdict = Compiled::new(&[spec], &[]).judge(&shop(), &Variables::new(), &options);
    verdict.specs.into_iter().next().expect("one spec")
}

fn check_service(selector: &str, expected: &str) {
    let unknown = judged(selector, "attr:name = \"x\"").unknown_service;
    assert_eq!(unknown.map(|unknown| unknown.to_string()).unwrap_or_default(), expected, "{selector}");
}

#[test]
fn a_service_that_is_not_in_the_trace_gets_those_that_are() {
    let services = "`catalogue`, `labels`, `mailer`, `payments`, `sessions`, `shipping`, `stock`, `web`";
    check_service(
        r#"span[service.name="billing"]"#,
        &format!("there is no span of the service `billing`; the services of the trace are {services}"),
    );
    check_service(
        r#"span[kind="server" service.name="payment"]"#,
        &format!(
            "there is no span of the service `payment`; did you mean `payments`? The services of the trace are {services}"
        ),
    );
    check_service(r#"span[service.name="web" name="nothing"]"#, "");
    check_service(r#"span[name="nothing"]"#, "");
}

fn check_assertion(assertion: &str, expected: &str) {
    let selector = r#"span[name="fraud check"]"#;
    let advice = judged(selector, assertion).assertions.remove(0).advice;
    assert_eq!(advice.unwrap_or_default(), expected, "{assertion}");
}

#[test]
fn an_unknown_attribute_gets_those_of_the_span() {
    check_assertion(
        "attr:fraud.scroe = 12",
        "did you mean `fraud.score`? `fraud check` has `fraud.model`, `fraud.score`",
    );
    check_assertion("attr:verdict = \"ok\"", "`fraud check` has `fraud.model`, `fraud.score`");
    check_assertion(
        "attr:service.nmae = \"payments\"",
        "did you mean `service.name`? `fraud check` has `fraud.model`, `fraud.score`",
    );
    check_assertion("attr:fraud.score = 13", "");
    check_assertion("attr:fraud.score = 12", "");
}

#[test]
fn a_duration_that_is_compared_with_a_bare_number_gets_units() {
    let advice = "durations are in nanoseconds, so `100` is less than a millisecond; write a unit: `100ms`, or `100ns` if that is meant";
    check_assertion("attr:tracetest.span.duration < 100", advice);
    check_assertion("100 > attr:qualitytrace.span.duration", advice);
    check_assertion("max(attr:tracetest.span.duration) < 100", advice);
    check_assertion("attr:tracetest.span.duration < 100ns", "");
    let codes = |text: &str| diagnose_selector(text).iter().map(|found| found.code).collect::<Vec<_>>();
    assert_eq!(codes("span[tracetest.span.duration < 100]"), ["no-unit"]);
    assert!(codes("span[tracetest.span.duration < 100ms]").is_empty());
    for fine in
        ["attr:tracetest.span.duration > 0", "attr:tracetest.span.duration < 50000000", "attr:size < 100"]
    {
        assert_eq!(diagnose_assertion(fine), [], "{fine}");
    }
}
