//! Comparison of traces: what was done to a trace is found, and nothing else is named.

mod system;

use std::time::{Duration, Instant};

use qualitytrace_core::budget::{Budget, BudgetError};
use qualitytrace_core::compare::{
    Change, Comparison, Row, Summary, Thresholds, compare, differences, services,
};
use qualitytrace_core::id::SpanId;
use qualitytrace_core::names;
use qualitytrace_core::trace::{Resource, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

use crate::fixture::{span, trace};
use system::{Mutation, Recording, System};

fn compared(a: &Trace, b: &Trace) -> Comparison {
    compare(a, b, Thresholds::default(), &Budget::default()).expect("the budget is large enough")
}

/// The rows that are named, each as its change, its name and what differs beside volatile attributes.
fn named(a: &Trace, b: &Trace) -> Vec<String> {
    let rows = compared(a, b).rows;
    rows.iter().filter(|row| row.change() != Change::Same).map(|row| line(a, b, row)).collect()
}

fn line(a: &Trace, b: &Trace, row: &Row) -> String {
    let shown = row.spans.b.map_or_else(|| a.span(row.spans.a.expect("one side is there")), |at| b.span(at));
    format!("{}{} {}", "  ".repeat(row.depth), row.change().as_str(), shown.name)
}

#[test]
fn two_hundred_mutations_are_found_and_nothing_else_is_named() {
    for seed in 0..200 {
        let mut system = System::random(seed);
        let before = system.record(seed * 2 + 1);
        let mutation = system.mutate(seed);
        let after = system.record(seed * 2 + 2);
        let found = compared(&before.trace, &after.trace);
        let expected = mutation.expected();
        let summary = Summary { same: 0, volatile: 0, ..found.summary };
        let context = || named(&before.trace, &after.trace).join("\n");
        assert_eq!(summary, expected, "seed {seed}: {mutation:?}\n{}", context());
        for row in found.rows.iter().filter(|row| row.change() != Change::Same) {
            assert!(is_guilty(row, &mutation, &before, &after), "seed {seed}: {mutation:?}\n{}", context());
        }
    }
}

/// Whether a named row is about the span that was mutated, or below it.
fn is_guilty(row: &Row, mutation: &Mutation, before: &Recording, after: &Recording) -> bool {
    let id = |trace: &Trace, at: Option<usize>| at.map(|at| trace.span(at).name.clone());
    match mutation {
        Mutation::Removed { names } => {
            id(&before.trace, row.spans.a).is_some_and(|name| names.contains(&name))
        }
        Mutation::Added { names } => id(&after.trace, row.spans.b).is_some_and(|name| names.contains(&name)),
        Mutation::Slower { node } | Mutation::Faster { node } | Mutation::Changed { node } => {
            let span = |trace: &Trace, at: Option<usize>| at.and_then(|at| trace.span(at).id);
            span(&before.trace, row.spans.a) == Some(before.ids[node])
                && span(&after.trace, row.spans.b) == Some(after.ids[node])
        }
    }
}

#[test]
fn two_recordings_of_the_same_are_the_same() {
    for seed in 1_000..1_050 {
        let system = System::random(seed);
        let (a, b) = (system.record(seed), system.record(seed + 1));
        let found = compared(&a.trace, &b.trace);
        assert_eq!(named(&a.trace, &b.trace), [""; 0], "seed {seed}");
        assert_eq!(found.rows.len(), a.trace.spans().len());
        assert!(found.summary.volatile > 0, "ids differ, and are told");
    }
}

#[test]
fn every_span_is_in_one_row_in_the_order_of_the_second_tree() {
    for seed in 0..100 {
        let (a, b) = (System::random(seed).record(1), System::random(seed + 500).record(2));
        let rows = compared(&a.trace, &b.trace).rows;
        let mut of_a: Vec<usize> = rows.iter().filter_map(|row| row.spans.a).collect();
        let of_b: Vec<usize> = rows.iter().filter_map(|row| row.spans.b).collect();
        assert!(of_b.is_sorted(), "seed {seed}");
        of_a.sort_unstable();
        assert_eq!(of_a, (0..a.trace.spans().len()).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(of_b.len(), b.trace.spans().len());
    }
}

/// A tree of named spans: each is its number, its parent's number, and its name.
fn tree(spans: &[(u64, u64, &str)]) -> Trace {
    trace(spans.iter().map(|(at, parent, name)| Span {
        name: (*name).into(),
        ..span(*at, SpanId::from_bytes(parent.to_be_bytes()))
    }))
}

#[test]
fn removed_spans_stand_where_they_stood() {
    let a = tree(&[(1, 0, "root"), (2, 1, "first"), (3, 1, "gone"), (4, 3, "below"), (5, 1, "last")]);
    let b = tree(&[(1, 0, "root"), (2, 1, "first"), (3, 1, "new"), (5, 1, "last")]);
    let rows = compared(&a, &b).rows;
    let shown: Vec<String> = rows.iter().map(|row| line(&a, &b, row)).collect();
    let expected =
        ["same root", "  same first", "  removed gone", "    removed below", "  added new", "  same last"];
    assert_eq!(shown, expected);
}

#[test]
fn what_has_another_parent_is_moved_with_what_is_below_it() {
    let a = tree(&[(1, 0, "root"), (2, 1, "left"), (3, 2, "work"), (4, 3, "query"), (5, 1, "right")]);
    let b = tree(&[(1, 0, "root"), (2, 1, "left"), (5, 1, "right"), (6, 5, "work"), (7, 6, "query")]);
    assert_eq!(named(&a, &b), ["    moved work"]);
    let lost = tree(&[(1, 0, "root"), (2, 1, "left"), (4, 3, "query"), (5, 1, "right")]);
    assert_eq!(named(&a, &lost), ["    removed work", "moved query"]);
}

#[test]
fn numbers_in_names_do_not_matter_and_repeated_siblings_are_aligned() {
    let list = |ids: &[u64]| {
        let items: Vec<String> = ids.iter().map(|id| format!("GET /items/{id}")).collect();
        let mut spans = vec![(1, 0, "root")];
        spans.extend(items.iter().zip(2..).map(|(name, at)| (at, 1, name.as_str())));
        tree(&spans)
    };
    let ids: Vec<u64> = (0..214).collect();
    let found = compared(&list(&ids), &list(&ids[1..]));
    assert_eq!((found.summary.removed, found.summary.same), (1, 214));
    let same = compared(&list(&[1, 2]), &list(&[3, 4])).summary;
    assert_eq!((same.same, same.volatile), (3, 2));
}

#[test]
fn a_trigger_is_compared_with_a_trigger_only() {
    let resource = Resource {
        attributes: [("service.name", Value::from(names::TRIGGER_SERVICE))].into_iter().collect(),
        ..Resource::default()
    };
    let trigger = |number: u64| Span {
        name: names::TRIGGER_SPAN.into(),
        kind: SpanKind::Unspecified,
        resource: resource.clone().into(),
        ..span(number, None)
    };
    let plain = || tree(&[(1, 0, "root"), (2, 1, "work")]);
    let (one, other) = (plain().with_trigger(trigger(50)), plain().with_trigger(trigger(60)));
    assert_eq!(compared(&one, &other).rows.len(), 3);
    for (a, b) in [(&one, &plain()), (&plain(), &other)] {
        let found = compared(a, b);
        assert_eq!((found.rows.len(), found.summary.same, found.rows[0].depth), (2, 2, 0));
    }
}

#[test]
fn a_threshold_can_be_set() {
    let long = |nanos: u64| {
        let mut only = span(1_000, None);
        only.end = Some(qualitytrace_core::time::Timestamp::from_nanos(1_000 + nanos));
        trace(std::iter::once(only))
    };
    let speed = |before: u64, after: u64, percent: u32, least: Duration| {
        let thresholds = Thresholds { percent, least };
        let found = compare(&long(before), &long(after), thresholds, &Budget::default()).unwrap();
        found.rows[0].change()
    };
    let millis = |count: u64| count * 1_000_000;
    let default = Thresholds::default();
    assert_eq!(speed(millis(10), millis(13), default.percent, default.least), Change::Slower);
    assert_eq!(speed(millis(13), millis(10), default.percent, default.least), Change::Faster);
    assert_eq!(speed(millis(10), millis(12), default.percent, default.least), Change::Same);
    assert_eq!(speed(millis(1), millis(2), default.percent, default.least), Change::Same);
    assert_eq!(speed(millis(1), millis(2), 20, Duration::ZERO), Change::Slower);
    assert_eq!(speed(millis(10), millis(13), 50, Duration::ZERO), Change::Same);
}

#[test]
fn attributes_are_told_with_their_types() {
    let with = |pairs: Vec<(&str, Value)>| {
        let mut only = span(1, None);
        only.attributes = pairs.into_iter().collect();
        only
    };
    let a =
        with(vec![("code", Value::Int(200)), ("gone", Value::Bool(true)), ("nan", Value::Float(f64::NAN))]);
    let b = with(vec![("code", "200".into()), ("nan", Value::Float(f64::NAN)), ("new", Value::Null)]);
    let found: Vec<_> = differences(&a, &b)
        .into_iter()
        .map(|found| (found.name.to_owned(), found.before, found.after, found.is_volatile))
        .collect();
    let expected = [
        ("code".to_owned(), Some(Value::Int(200)), Some(Value::from("200")), false),
        ("gone".to_owned(), Some(Value::Bool(true)), None, false),
        ("new".to_owned(), None, Some(Value::Null), false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn resources_are_compared_once_for_each_service() {
    let of = |version: &str, instance: &str| {
        let attributes = [("service.name", "shop"), ("service.version", version), ("host.name", instance)];
        let attributes = attributes.map(|(name, value)| (name, Value::from(value))).into_iter().collect();
        let resource = std::sync::Arc::new(Resource { attributes, ..Resource::default() });
        trace((1..5).map(|at| Span { resource: resource.clone(), ..span(at, None) }))
    };
    let (a, b) = (of("1", "x"), of("2", "y"));
    assert_eq!(compared(&a, &b).summary.changed, 0);
    let found = services(&a, &b, &Budget::default()).unwrap();
    let found: Vec<_> = found[0].differences.iter().map(|found| (found.name, found.is_volatile)).collect();
    assert_eq!(found, [("host.name", true), ("service.version", false)]);
}

/// One deep chain and one wide level, at the size that the page must be able to compare.
#[test]
fn large_traces_take_little_time_and_no_stack() {
    const SPANS: u64 = 50_000;
    let chain = || trace((1..=SPANS).map(|at| span(at, SpanId::from_bytes((at - 1).to_be_bytes()))));
    let wide = |from: u64| {
        trace(
            (1..=SPANS)
                .map(|at| Span {
                    name: "same".into(),
                    ..span(at, (at > 1).then(|| SpanId::from_bytes(1_u64.to_be_bytes())).flatten())
                })
                .skip(usize::try_from(from).unwrap()),
        )
    };
    let began = Instant::now();
    assert_eq!(compared(&chain(), &chain()).summary.same, 50_000);
    assert_eq!(compared(&wide(0), &wide(0)).summary.same, 50_000);
    assert_eq!(compared(&wide(0), &wide(1)).rows.len(), 50_000);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_comparison_ends_with_its_budget() {
    let trace = System::random(7).record(1).trace;
    let found = compare(&trace, &trace, Thresholds::default(), &Budget::new(10, 1 << 20));
    assert_eq!(found, Err(BudgetError::Steps(10)));
}
