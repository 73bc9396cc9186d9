//! Assertions that rest on absences.

use std::collections::BTreeSet;
use std::sync::Arc;

use qualitytrace_core::definition::{Spec, Text};
use qualitytrace_core::id::SpanId;
use qualitytrace_core::judge::{Compiled, Outcome};
use qualitytrace_core::lang::Variables;
use qualitytrace_core::trace::{Attributes, Resource, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;
use qualitytrace_core::wait::{Absence, AffectedServices};

use super::{REASON, missing, of_billing, options};
use crate::fixture;

/// Two spans of the shop with the codes 200 and 500.
fn trace() -> Trace {
    let service = [("service.name", Value::from("shop"))].into_iter().collect();
    let resource = Arc::new(Resource { attributes: service, ..Resource::default() });
    let spans = [200, 500].into_iter().zip(1_u64..).map(move |(code, at)| {
        let mut attributes = Attributes::default();
        attributes.set("code", Value::Int(code));
        Span {
            name: "order".into(),
            kind: SpanKind::Server,
            attributes,
            resource: Arc::clone(&resource),
            ..fixture::span(at, SpanId::from_bytes((at - 1).to_be_bytes()))
        }
    });
    fixture::trace(spans)
}

/// The services that sent spans.
fn heard() -> Arc<BTreeSet<Arc<str>>> {
    Arc::new(BTreeSet::from(["shop".into()]))
}

#[track_caller]
fn check(absence: Absence, selector: &str, assertion: &str, expected: &str) {
    let spec = Spec {
        name: None,
        selector: Text::from(selector),
        within: None,
        assertions: vec![Text::from(assertion)],
    };
    let verdict = Compiled::new(&[spec], &[]).judge(&trace(), &Variables::new(), &options(absence));
    let outcome = match verdict.outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Failed(_) => "failed".to_owned(),
        Outcome::Inconclusive { reason } => reason,
    };
    assert_eq!(outcome, expected, "{selector}: {assertion}");
}

const OPEN: &str = REASON;
const BILLING: &str = "span[service.name=\"billing\"]";
const SHOP: &str = "span[service.name=\"shop\"]";

#[test]
fn pass_and_fail_are_unproven_alike() {
    for count in ["= 0", "= 1", "< 2", "!= 1", "> 0"] {
        let count = format!("attr:tracetest.selected_spans.count {count}");
        check(of_billing(), BILLING, &count, OPEN);
    }
    check(of_billing(), BILLING, "attr:code = 200", OPEN);
    check(of_billing(), BILLING, "none attr:code = 500", OPEN);
}

#[test]
fn what_rests_on_spans_that_are_here_stands() {
    check(of_billing(), "span[name=\"order\"]", "attr:code = 200", "failed");
    check(of_billing(), "span[name=\"order\"]", "any attr:code = 200", "passed");
    check(of_billing(), "span[name=\"order\"]", "none attr:code = 500", "failed");
    check(of_billing(), "span[name=\"order\"]", "attr:tracetest.selected_spans.count >= 2", "passed");
    check(of_billing(), "span[name=\"order\"]", "attr:tracetest.selected_spans.count < 2", "failed");
    check(of_billing(), "span[name=\"order\"]", "attr:code < 600", OPEN);
}

#[test]
fn what_is_about_other_services_stands() {
    check(of_billing(), SHOP, "attr:code < 600", "passed");
    check(of_billing(), SHOP, "attr:tracetest.selected_spans.count = 2", "passed");
    check(of_billing(), SHOP, "attr:tracetest.selected_spans.count = 3", "failed");
    check(of_billing(), "span[service.name=\"mail\"]", "attr:tracetest.selected_spans.count = 0", "passed");
    check(
        of_billing(),
        "span[service.name=\"shop\"], span[service.name=\"billing\"]",
        "attr:code < 600",
        OPEN,
    );
}

#[test]
fn what_is_known_about_the_missing_span_rules_it_out() {
    let refund = || Absence { kind: Some(SpanKind::Consumer), name: Some("refund".into()), ..of_billing() };
    check(refund(), "span[name=\"refund\"]", "attr:tracetest.selected_spans.count = 0", OPEN);
    check(refund(), "span[name=\"charge\"]", "attr:tracetest.selected_spans.count = 0", "passed");
    check(refund(), "span[kind=\"server\"]", "attr:tracetest.selected_spans.count = 2", "passed");
    check(refund(), "span[kind=\"consumer\"]", "attr:tracetest.selected_spans.count = 0", OPEN);
    check(refund(), "span[code=500]", "attr:tracetest.selected_spans.count = 1", OPEN);
}

#[test]
fn an_unheard_peer_may_be_any_unheard_service() {
    let peer = || missing(AffectedServices::AnyoneBut(heard()));
    check(peer(), "span[service.name=\"mail\"]", "attr:tracetest.selected_spans.count = 0", OPEN);
    check(peer(), SHOP, "attr:code < 600", "passed");
    // A selector that names no service may select its spans too; but a claim about each span that is here stands.
    check(peer(), "span[name=\"order\"]", "attr:code < 600", "passed");
    check(peer(), "span[name=\"order\"]", "none attr:code > 600", OPEN);
    check(peer(), "span[name=\"order\"]", "max(attr:code) < 600", OPEN);
    check(peer(), "span[name=\"order\"]", "attr:tracetest.selected_spans.count = 2", "passed");
    check(peer(), "span[name=\"mail\"]", "attr:tracetest.selected_spans.count = 0", OPEN);
    check(peer(), "span[name=\"order\"]", "attr:code = 200", "failed");
}

#[test]
fn a_peer_known_to_stay_silent_matters_to_assertions_that_name_a_service() {
    let leaf = || missing(AffectedServices::AnyoneButIfNamed(heard()));
    check(leaf(), "span[service.name=\"mail\"]", "attr:tracetest.selected_spans.count = 0", OPEN);
    check(leaf(), "span[name=\"order\"]", "attr:code < 600", "passed");
    check(leaf(), SHOP, "attr:code < 600", "passed");
}

#[test]
fn a_spec_on_the_trigger_alone_is_decided_without_the_rest() {
    let anyone = || missing(AffectedServices::Anyone);
    for trigger in ["Tracetest trigger", "Qualitytrace trigger"] {
        let trigger = format!("span[name=\"{trigger}\"]");
        check(anyone(), &trigger, "attr:tracetest.selected_spans.count = 0", "passed");
        check(anyone(), &trigger, "attr:tracetest.selected_spans.count = 1", "failed");
    }
}

#[test]
fn what_a_pseudo_class_or_a_neighbour_asks_for_may_be_missing() {
    let none = "attr:tracetest.selected_spans.count = 0";
    let others = [
        "span[service.name=\"shop\"]:has(span[service.name=\"billing\"])",
        "span[service.name=\"shop\"]:has(> span[kind=\"consumer\"])",
        "span[service.name=\"shop\"]:not(span[]:has(span[service.name=\"billing\"]))",
        "span[service.name=\"shop\"]:leaf",
        "span[service.name=\"shop\"]:not(span[]:leaf)",
        "span[service.name=\"billing\"] ~ span[service.name=\"shop\"]",
        "span[service.name=\"shop\"] + span[service.name=\"shop\"]",
    ];
    for selector in others {
        check(of_billing(), selector, none, OPEN);
    }
    // What is excluded by itself, or named as another service, is no part of these.
    let two = "attr:tracetest.selected_spans.count = 2";
    check(of_billing(), "span[service.name=\"shop\"]:not(span[service.name=\"billing\"])", two, "passed");
    check(of_billing(), "span[service.name=\"shop\"]:has(span[service.name=\"mail\"])", none, "passed");
    check(of_billing(), "span[service.name=\"mail\"] ~ span[service.name=\"shop\"]", none, "passed");
}

#[test]
fn a_service_that_is_named_in_a_pseudo_class_is_named() {
    let none = "attr:tracetest.selected_spans.count = 0";
    let has_mail = "span[name=\"order\"]:has(span[service.name=\"mail\"])";
    check(missing(AffectedServices::AnyoneButIfNamed(heard())), has_mail, none, OPEN);
    let has_none = "span[name=\"order\"]:not(span[]:has(span[service.name=\"mail\"]))";
    check(missing(AffectedServices::AnyoneBut(heard())), has_none, "attr:code < 600", OPEN);
    check(
        missing(AffectedServices::AnyoneButIfNamed(heard())),
        "span[name=\"order\"]:leaf",
        "attr:code = 500",
        "passed",
    );
}
