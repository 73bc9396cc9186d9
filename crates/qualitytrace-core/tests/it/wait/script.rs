//! Runs written as text, and the end of their wait as text.
//!
//! A line is `<ms of arrival> <id><<parent> <service>/<kind>/<name> <attribute>... !<exception> ><linked id>`; id 1 is the
//! trigger, parent 0 is none. Other lines are `undecided <spec> [of <service>]`, `final`, `attached` (no trigger of ours) and
//! `failed` (the shape is not learned from this run). The trigger is answered at 0 ms.

use std::sync::Arc;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Event, Span, SpanKind};
use qualitytrace_core::wait::{
    Begin, History, OpenSpec, Policy, Progress, Register, SpecStatus, Wait, WaitEnd, wait,
};

use super::spans::{Maker, attributes, link, service, span_id};
use super::system::{MS, START};

/// One run, parsed from text.
#[derive(Default)]
pub(super) struct Script {
    spans: Vec<(u64, Span)>,
    standing: SpecStatus,
    attached: bool,
    failed: bool,
}

impl Script {
    pub(super) fn read(text: &str) -> Self {
        let mut script = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.split_once(' ') {
                None if line == "final" => script.standing.is_final = true,
                None if line == "attached" => script.attached = true,
                None if line == "failed" => script.failed = true,
                Some(("undecided", spec)) => {
                    let (name, services) = match spec.split_once(" of ") {
                        Some((name, service)) => (name, vec![service.into()]),
                        None => (spec, Vec::new()),
                    };
                    let undecided = OpenSpec { name: name.to_owned(), services, ..OpenSpec::default() };
                    script.standing.undecided.push(undecided);
                }
                Some((at, span)) => script.spans.push((number(at), read_span(number(at), span))),
                None => panic!("`{line}` is no line of a run"),
            }
        }
        script.spans.sort_by_key(|(at, _)| *at);
        script
    }

    /// Simulates the runner on this run, and lets history learn from it.
    pub(super) fn play(
        &self,
        policy: &Policy,
        history: &mut Arc<History>,
        lags: &mut Register,
        run: u64,
    ) -> (u64, Wait) {
        let base = START + run * 1_000_000 * MS;
        let time = |ms: u64| Timestamp::from_nanos(base + ms * MS);
        let begin = match (self.attached, span_id(1)) {
            (false, Some(trigger)) => Begin::Triggered(trigger),
            _ => Begin::Attached,
        };
        let mut progress = Progress::new(begin, Arc::clone(history));
        progress.answered(time(0));
        let shifted = |at: u64, span: &Span| Span {
            start: time(at),
            end: span.end.map(|end| time(end.as_nanos() / MS)),
            ..span.clone()
        };
        let (mut now, mut seen) = (time(0), 0);
        let end = loop {
            while let Some((at, span)) = self.spans.get(seen).filter(|(at, _)| time(*at) <= now) {
                let shifted = shifted(*at, span);
                if progress.arrived(&shifted, time(*at)) {
                    lags.arrived(&shifted, time(*at));
                    lags.observe(progress.take_observations());
                    progress.consult(lags);
                }
                seen += 1;
            }
            match wait(policy, &progress, lags, || self.standing.clone(), now) {
                Wait::Until(at, _) => {
                    let next = self.spans.get(seen).map_or(at, |(at, _)| time(*at));
                    now = at.min(next);
                }
                end @ (Wait::Ready(_) | Wait::GaveUp(_)) => break end,
            }
        };
        if let Wait::Ready(ended) | Wait::GaveUp(ended) = &end {
            Arc::make_mut(history).learn(&progress, ended, !self.failed);
            lags.observe(progress.entries());
            lags.stayed_mute(&progress.mute_addresses());
        }
        for (at, span) in &self.spans[seen..] {
            if progress.arrived(&shifted(*at, span), time(*at)) {
                Arc::make_mut(history).late(&progress, true);
                lags.observe(progress.entries());
            }
        }
        ((now.as_nanos() - base) / MS, end)
    }
}

/// Describes how the last of these runs of one test ends.
pub(super) fn play_all(runs: &[&str]) -> String {
    let (mut history, mut lags) = (Arc::new(History::default()), Register::default());
    let mut last = String::new();
    for (run, text) in (0..).zip(runs) {
        let (at, end) = Script::read(text).play(&Policy::DEFAULT, &mut history, &mut lags, run);
        last = describe(at, &end);
    }
    last
}

pub(super) fn describe(at: u64, end: &Wait) -> String {
    let (verb, ended) = match end {
        Wait::Ready(ended) => ("ready", ended),
        Wait::GaveUp(ended) => ("gave up", ended),
        Wait::Until(..) => return "still waiting".to_owned(),
    };
    let WaitEnd { reason, debts, .. } = ended;
    let lines = [format!("{at} ms: {verb}, {reason}; {:?}", ended.meaning())];
    let lines: Vec<String> = lines.into_iter().chain(debts.iter().map(ToString::to_string)).collect();
    lines.join("\n")
}

fn read_span(at: u64, text: &str) -> Span {
    let mut words = text.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (id, parent) = next().split_once('<').expect("an id, `<` and a parent");
    let mut place = next().splitn(3, '/');
    let mut part = || place.next().expect("service/kind/name");
    let (service_name, kind, name) = (part(), part(), part());
    let words: Vec<&str> = words.collect();
    let (links, words): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| word.starts_with('>'));
    let (ends, words): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| word.starts_with("end="));
    let (thrown, words): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| word.starts_with('!'));
    let end = ends.first().map_or(at, |end| number(&end[4..])) * MS;
    let ids = (number(id), number(parent));
    let kind = kind_of(kind);
    let mut span =
        Maker::new().span(ids.0, ids.1, &service(service_name), kind, &name.into(), (at * MS, end));
    span.attributes = attributes(&words);
    span.events = thrown.iter().map(|word| exception(&word[1..])).collect();
    span.links = links.iter().map(|word| link(number(&word[1..]))).collect();
    span
}

fn exception(kind: &str) -> Event {
    Event {
        time: Timestamp::from_nanos(START),
        name: "exception".into(),
        attributes: attributes(&[&format!("exception.type={kind}")]),
        dropped_attributes: 0,
    }
}

fn kind_of(word: &str) -> SpanKind {
    let kinds =
        [SpanKind::Internal, SpanKind::Server, SpanKind::Client, SpanKind::Producer, SpanKind::Consumer];
    let named = kinds.into_iter().find(|kind| kind.as_str() == word);
    named.expect("a kind of span")
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}
