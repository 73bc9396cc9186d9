//! The same spans owe the same in any order of arrival.

use std::cell::Cell;
use std::sync::Arc;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::SpanKind;
use qualitytrace_core::wait::{Begin, History, OpenSpec, Policy, Progress, Register, SpecStatus, Wait, wait};

use super::random::Random;
use super::spans::{Maker, service, span_id};
use super::system::{MS, Roughness, START, Sent, System, TRIGGER};

/// Returns what is owed when these have arrived in this order.
fn owed(spans: &[Sent], order: &[usize], history: &Arc<History>) -> (Progress, Wait, Vec<String>) {
    let trigger = span_id(TRIGGER).expect("not zero");
    let mut progress = Progress::new(Begin::Triggered(trigger), Arc::clone(history));
    progress.answered(Timestamp::from_nanos(START));
    for at in order {
        progress.arrived(&spans[*at].span, Timestamp::from_nanos(START + MS));
    }
    let after = Timestamp::from_nanos(START + 100_000 * MS);
    let end = wait(&Policy::DEFAULT, &progress, &Register::default(), SpecStatus::default, after);
    let (Wait::Ready(ended) | Wait::GaveUp(ended)) = &end else {
        panic!("everything is over by then");
    };
    let mut debts: Vec<String> = ended.debts.iter().map(ToString::to_string).collect();
    debts.sort();
    (progress, end, debts)
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let roughness = Roughness { jitter: 0, varies: seed % 2 == 0 };
        let system = System::new(&mut random, seed, roughness);
        let mut history = Arc::new(History::default());
        for run in 0..3 {
            let spans = system.send(&mut random, START, false).spans;
            let lost = random.index(3 * spans.len());
            let mut order: Vec<usize> = (0..spans.len()).filter(|at| run == 0 || *at != lost).collect();
            let (progress, end, expected) = owed(&spans, &order, &history);
            for _ in 0..4 {
                for at in (1..order.len()).rev() {
                    order.swap(at, random.index(at + 1));
                }
                let (_, _, debts) = owed(&spans, &order, &history);
                // The debt of a missing parent names the child that arrived first; all else is the same.
                let strip = |debts: &[String]| -> Vec<String> {
                    let text = |debt: &String| debt.split(" of span").next().unwrap_or_default().to_owned();
                    debts.iter().map(text).collect()
                };
                assert_eq!(strip(&debts), strip(&expected), "seed {seed}, run {run}");
            }
            if let Wait::Ready(ended) | Wait::GaveUp(ended) = end {
                Arc::make_mut(&mut history).learn(&progress, &ended, true);
            }
        }
    }
}

#[test]
fn circles_and_spans_without_ids_do_no_harm() {
    let mut random = Random::new(7);
    let roughness = Roughness { jitter: 0, varies: false };
    let system = System::new(&mut random, 7, roughness);
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut spans = system.send(&mut random, START, false).spans;
        for _ in 0..4 {
            let (one, other) = (random.index(spans.len()), random.index(spans.len()));
            match random.index(4) {
                0 => spans[one].span.parent = spans[other].span.id,
                1 => spans[one].span.id = None,
                2 => spans[one].span.end = None,
                _ => spans[one].span.id = spans[other].span.id,
            }
        }
        let order: Vec<usize> = (0..spans.len()).collect();
        let (progress, end, _) = owed(&spans, &order, &Arc::new(History::default()));
        let (Wait::Ready(ended) | Wait::GaveUp(ended)) = end else {
            continue;
        };
        let mut history = History::default();
        history.learn(&progress, &ended, true);
        history.late(&progress, true);
        owed(&spans, &order, &Arc::new(history));
    }
}

#[test]
fn specs_are_judged_once_a_silence_and_not_once_a_span() {
    let (maker, shop, name) = (Maker::new(), service("shop"), Arc::from("step"));
    let trigger = span_id(TRIGGER).expect("not zero");
    let mut progress = Progress::new(Begin::Triggered(trigger), Arc::default());
    progress.answered(Timestamp::from_nanos(START));
    let asked = Cell::new(0);
    let ask = |progress: &Progress, now: u64| {
        let specs = || {
            asked.set(asked.get() + 1);
            SpecStatus { undecided: vec![OpenSpec::default()], ..SpecStatus::default() }
        };
        wait(&Policy::DEFAULT, progress, &Register::default(), specs, Timestamp::from_nanos(now))
    };
    let mut now = START;
    for number in 0..20_000 {
        now += 2 * MS;
        let parent = if number == 0 { TRIGGER } else { TRIGGER + 1 };
        let ids = (TRIGGER + 1 + number, parent);
        let span = maker.span(ids.0, ids.1, &shop, SpanKind::Internal, &name, (now, now + MS));
        progress.arrived(&span, Timestamp::from_nanos(now));
        assert!(matches!(ask(&progress, now), Wait::Until(..)));
    }
    assert_eq!(asked.get(), 0, "nothing that the specs say could end the wait");
    assert!(matches!(ask(&progress, now + 150 * MS), Wait::Until(..)));
    assert!(matches!(ask(&progress, now + 6_000 * MS), Wait::Ready(_)));
    assert_eq!(asked.get(), 2);
}
