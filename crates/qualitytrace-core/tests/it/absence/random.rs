//! Random traces of which a part is missing: what is decided without that part must be what the whole trace gives.

use proptest::prelude::*;
use qualitytrace_core::definition::Spec;
use qualitytrace_core::id::SpanId;
use qualitytrace_core::judge::{Compiled, Options, Outcome};
use qualitytrace_core::lang::{Generator, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Note, Resource, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;
use qualitytrace_core::wait::{Absence, AffectedServices};

use super::{missing, of_billing};
use crate::fixture;

const SELECTORS: [&str; 24] = [
    "span[service.name=\"shop\"]",
    "span[service.name=\"billing\"]",
    "span[service.name=\"shop\"]:has(span[service.name=\"billing\"])",
    "span[service.name=\"shop\"]:has(> span[service.name=\"billing\"])",
    "span[service.name=\"shop\"]:has(~ span[service.name=\"billing\"])",
    "span[service.name=\"shop\"]:has(+ span[service.name=\"shop\"])",
    "span[service.name=\"shop\"]:leaf",
    "span[service.name=\"shop\"]:first",
    "span[service.name=\"shop\"]:nth_child(2)",
    "span[]:nth_child(3)",
    "span[service.name=\"shop\"]:not(span[service.name=\"billing\"])",
    "span[service.name=\"shop\"]:not(span[]:has(span[service.name=\"billing\"]))",
    "span[service.name=\"shop\"]:not(span[]:leaf)",
    "span[service.name=\"shop\"]:not(span[]:nth_child(2))",
    "span[service.name=\"shop\"]:not(span[service.name=\"billing\"] ~ span[])",
    "span[service.name=\"billing\"] ~ span[service.name=\"shop\"]",
    "span[service.name=\"shop\"] + span[service.name=\"shop\"]",
    "span[service.name=\"shop\"] > span[service.name=\"shop\"]",
    "span[service.name=\"billing\"] span[service.name=\"shop\"]",
    "span[name=\"Tracetest trigger\"]",
    "span[name=\"Tracetest trigger\"]:has(span[n=1])",
    "span[name=\"Tracetest trigger\"]:not(span[]:leaf)",
    "span[name=\"Tracetest trigger\"] > span[n=1]",
    "span[name=\"Tracetest trigger\"]:has(> span[n=1])",
];

const ASSERTIONS: [&str; 12] = [
    "attr:tracetest.selected_spans.count = 0",
    "attr:tracetest.selected_spans.count = 1",
    "attr:tracetest.selected_spans.count <= 1",
    "none attr:tracetest.selected_spans.count > 1",
    "at most 1 of attr:tracetest.selected_spans.count > 0",
    "none count() > 1",
    "attr:n = 1",
    "any attr:n = 1",
    "none attr:n = 1",
    "1 of attr:n = 1",
    "count(span[service.name=\"billing\"]) = 0",
    "none max(attr:n) > 1",
];

/// Spans of two services, each below one of the spans before it or below the trigger.
fn spans() -> impl Strategy<Value = Vec<Span>> {
    let span = (any::<prop::sample::Index>(), 1_u64..9, any::<bool>(), 0_i64..3);
    prop::collection::vec(span, 1..10).prop_map(|seeds| {
        let span = |(at, (parent, start, is_late, n)): (usize, (prop::sample::Index, u64, bool, i64))| {
            let (mut attributes, mut of_resource) = (Attributes::default(), Attributes::default());
            attributes.set("n", Value::Int(n));
            of_resource.set("service.name", Value::from(if is_late { "billing" } else { "shop" }));
            let parent = parent.index(at + 1);
            Span {
                kind: SpanKind::Server,
                attributes,
                start: Timestamp::from_nanos(start),
                end: Some(Timestamp::from_nanos(start + 1)),
                resource: Resource { attributes: of_resource, ..Resource::default() }.into(),
                ..fixture::span(at as u64 + 1, if parent == 0 { trigger().id } else { id(parent as u64) })
            }
        };
        seeds.into_iter().enumerate().map(span).collect()
    })
}

fn id(number: u64) -> Option<SpanId> {
    SpanId::from_bytes(number.to_be_bytes())
}

fn trigger() -> Span {
    Span { name: "Tracetest trigger".into(), ..fixture::span(99, None) }
}

fn below_trigger(spans: impl Iterator<Item = Span>) -> Trace {
    fixture::trace(spans).with_trigger(trigger())
}

fn options(absences: Vec<Absence>) -> Options {
    Options { absences, ..Options::new(Generator::in_utc(Timestamp::from_nanos(1), 1)) }
}

fn compiled(selector: &str, assertion: &str) -> Compiled {
    let spec =
        Spec { name: None, selector: selector.into(), within: None, assertions: vec![assertion.into()] };
    Compiled::new(&[spec], &[])
}

/// Whether the test passes; `None` where it is inconclusive.
fn passes(test: &Compiled, trace: &Trace, absences: Vec<Absence>) -> Option<bool> {
    match test.judge(trace, &Variables::new(), &options(absences)).outcome {
        Outcome::Passed => Some(true),
        Outcome::Failed(_) => Some(false),
        Outcome::Inconclusive { .. } => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_final_stands_whatever_arrives(spans in spans(), order in any::<u64>()) {
        let whole = below_trigger(spans.iter().cloned());
        let here = |at: &usize| (order >> at) & 1 == 1;
        let part = below_trigger(spans.iter().enumerate().filter(|(at, _)| here(at)).map(|(_, span)| span.clone()));
        for selector in SELECTORS {
            for assertion in ASSERTIONS {
                let test = compiled(selector, assertion);
                let standing = |trace| test.standing(trace, &Variables::new(), &options(Vec::new())).assertions[0];
                let (early, late) = (standing(&part), standing(&whole));
                if early.is_final {
                    prop_assert_eq!(early.passes, late.passes, "{}: {}", selector, assertion);
                }
            }
        }
    }

    #[test]
    fn what_is_decided_without_a_service_stands_when_its_spans_arrive(spans in spans()) {
        let whole = below_trigger(spans.iter().cloned());
        let part = below_trigger(spans.iter().filter(|span| span.service() != "billing").cloned());
        let mut absences = vec![of_billing()];
        if part.notes().iter().any(|note| matches!(note, Note::MissingParent { .. })) {
            absences.push(missing(AffectedServices::Anyone));
        }
        if part.spans().len() == whole.spans().len() {
            return Ok(());
        }
        for selector in SELECTORS {
            for assertion in ASSERTIONS {
                let test = compiled(selector, assertion);
                if let Some(early) = passes(&test, &part, absences.clone()) {
                    prop_assert_eq!(Some(early), passes(&test, &whole, Vec::new()), "{}: {}", selector, assertion);
                }
            }
        }
    }
}
