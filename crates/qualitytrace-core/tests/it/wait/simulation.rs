//! Policies compared on the same random systems, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::{Begin, Ended, History, Lags, Policy, Progress, Standing, Wait, wait};

use super::random::Random;
use super::spans::span_id;
use super::system::{MS, Roughness, SECOND, START, Sending, Sent, System, TRIGGER};

/// What a test asserts: these labels have exactly one span, which is not bad; perhaps also that no span is bad.
struct Specs {
    named: Vec<usize>,
    every: bool,
    labels: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Undecided,
}

impl Specs {
    fn new(random: &mut Random, system: &System) -> Self {
        let mut labels = system.labels();
        let count = 1 + random.index(3);
        let mut named = Vec::new();
        while named.len() < count && !labels.is_empty() {
            named.push(labels.swap_remove(random.index(labels.len())));
        }
        Self {
            named,
            every: random.chance(50),
            labels: system.label_count(),
        }
    }

    fn judge(&self, seen: &[Sent]) -> Verdict {
        let mut counts = vec![0_u32; self.labels];
        let mut ids = std::collections::HashSet::new();
        for sent in seen {
            if sent.bad && (self.every || self.named.contains(&sent.label)) {
                return Verdict::Failed;
            }
            if ids.insert(sent.span.id) {
                counts[sent.label] += 1;
            }
        }
        if self.named.iter().all(|label| counts[*label] == 1) {
            Verdict::Passed
        } else {
            Verdict::Undecided
        }
    }

    fn standing(&self, seen: &[Sent]) -> Standing {
        let verdict = self.judge(seen);
        Standing {
            undecided: if verdict == Verdict::Undecided {
                vec!["spec".to_owned()]
            } else {
                vec![]
            },
            is_final: verdict == Verdict::Failed,
        }
    }
}

/// When a policy stopped waiting, and how many of the spans it had then.
struct Stop {
    at: u64,
    seen: usize,
}

fn seen_at(sending: &Sending, at: u64) -> usize {
    sending.spans.partition_point(|sent| sent.arrives <= at)
}

/// Complete when a look brings nothing new; specs that select nothing get three more looks.
fn poll(sending: &Sending, specs: &Specs, delay: u64) -> Stop {
    let (mut at, mut last, mut retries) = (sending.answered + delay, None, 0);
    while at < sending.answered + 60 * SECOND {
        let seen = seen_at(sending, at);
        if seen > 0 && last == Some(seen) {
            if retries == 3 || specs.judge(&sending.spans[..seen]) != Verdict::Undecided {
                break;
            }
            retries += 1;
        }
        last = Some(seen);
        at += delay;
    }
    Stop {
        at,
        seen: seen_at(sending, at),
    }
}

/// Complete after a silence.
fn quiet(sending: &Sending, silence: u64) -> Stop {
    let mut last = sending.answered.max(sending.spans[0].arrives);
    for sent in &sending.spans {
        if sent.arrives > last + silence {
            break;
        }
        last = last.max(sent.arrives);
    }
    Stop {
        at: last + silence,
        seen: seen_at(sending, last + silence),
    }
}

/// What `core::wait` says, asked as the runner asks.
fn structure(
    sending: &Sending,
    specs: &Specs,
    history: &Arc<History>,
    lags: &mut Lags,
) -> (Stop, Progress, Ended) {
    let mut progress = Progress::new(Begin::Triggered(span_id(TRIGGER).unwrap()), Arc::clone(history));
    progress.answered(Timestamp::from_nanos(sending.answered));
    let (mut now, mut seen) = (sending.answered, 0);
    loop {
        while let Some(sent) = sending.spans.get(seen).filter(|sent| sent.arrives <= now) {
            let at = Timestamp::from_nanos(sent.arrives);
            if progress.arrived(&sent.span, at) {
                lags.arrived(&sent.span, at);
            }
            seen += 1;
        }
        let standing = || specs.standing(&sending.spans[..seen]);
        match wait(
            &Policy::DEFAULT,
            &progress,
            lags,
            standing,
            Timestamp::from_nanos(now),
        ) {
            Wait::Ready(ended) | Wait::GaveUp(ended) => return (Stop { at: now, seen }, progress, ended),
            Wait::Until(at, _) => {
                let next = sending.spans.get(seen).map_or(u64::MAX, |sent| sent.arrives);
                assert!(at.as_nanos() > now, "a wait must not ask again at the same time");
                now = at.as_nanos().min(next);
            }
        }
    }
}

#[derive(Default)]
struct Tally {
    wrong: usize,
    false_passes: usize,
    waits: Vec<u64>,
}

impl Tally {
    fn count(&mut self, stop: &Stop, sending: &Sending, specs: &Specs) {
        let got = specs.judge(&sending.spans[..stop.seen]) == Verdict::Passed;
        let truth = specs.judge(&sending.spans) == Verdict::Passed;
        self.wrong += usize::from(got != truth);
        self.false_passes += usize::from(got && !truth);
        let last = sending
            .spans
            .iter()
            .map(|sent| sent.arrives)
            .max()
            .unwrap_or(START);
        self.waits
            .push(stop.at.saturating_sub(last.max(sending.answered)));
    }

    fn line(&mut self, name: &str) -> String {
        self.waits.sort_unstable();
        let at = |percent: usize| {
            let wait = self.waits[(self.waits.len() * percent / 100).min(self.waits.len() - 1)];
            format!("{:.2}", Duration::from_nanos(wait).as_secs_f64())
        };
        format!(
            "{name:34} {:5} of {} {:6} false passes   {} / {} / {} s",
            self.wrong,
            self.waits.len(),
            self.false_passes,
            at(50),
            at(90),
            at(99)
        )
    }
}

#[derive(Default)]
struct Comparison {
    poll_slow: Tally,
    poll_fast: Tally,
    quiet_short: Tally,
    quiet_long: Tally,
    no_history: Tally,
    first: Tally,
    known: Tally,
}

/// Runs `tests` random systems `runs` times each.
fn simulate(seed: u64, tests: u64, runs: u64, roughness: Roughness) -> Comparison {
    let mut all = Comparison::default();
    let mut lags = Lags::default();
    for test in 0..tests {
        let mut random = Random::new(seed ^ (test << 20));
        let system = System::new(&mut random, test, roughness);
        let specs = Specs::new(&mut random, &system);
        let (mut history, unknown) = (Arc::new(History::default()), Arc::new(History::default()));
        for _ in 0..runs {
            let bug = random.chance(30);
            let sending = system.send(&mut random, bug);
            all.poll_slow
                .count(&poll(&sending, &specs, 5 * SECOND), &sending, &specs);
            all.poll_fast
                .count(&poll(&sending, &specs, 500 * MS), &sending, &specs);
            all.quiet_short
                .count(&quiet(&sending, 300 * MS), &sending, &specs);
            all.quiet_long
                .count(&quiet(&sending, 5_500 * MS), &sending, &specs);
            let (stop, ..) = structure(&sending, &specs, &unknown, &mut Lags::default());
            all.no_history.count(&stop, &sending, &specs);
            let is_first = history.runs() == 0;
            let (stop, mut progress, ended) = structure(&sending, &specs, &history, &mut lags);
            let tally = if is_first { &mut all.first } else { &mut all.known };
            tally.count(&stop, &sending, &specs);
            let passed = specs.judge(&sending.spans[..stop.seen]) == Verdict::Passed;
            let learned = Arc::make_mut(&mut history);
            learned.learn(&progress, &ended, passed);
            let mut late = false;
            for sent in &sending.spans[stop.seen..] {
                late |= progress.arrived(&sent.span, Timestamp::from_nanos(sent.arrives));
            }
            if late {
                learned.late(&progress);
            }
        }
    }
    all
}

fn report(title: &str, all: &mut Comparison) {
    println!("\n{title:34} wrong verdicts          wait after the last span, p50 / p90 / p99");
    println!("{}", all.poll_slow.line("poll every 5 s (Tracetest)"));
    println!("{}", all.poll_fast.line("poll every 500 ms"));
    println!("{}", all.quiet_short.line("quiet for 300 ms"));
    println!("{}", all.quiet_long.line("quiet for 5.5 s"));
    println!("{}", all.no_history.line("structure, no history"));
    println!("{}", all.first.line("structure + history, first runs"));
    println!("{}", all.known.line("structure + history, known shape"));
}

#[test]
fn no_verdict_is_wrong_whatever_the_jitter() {
    for (seed, jitter) in [(1, 0), (2, 20 * MS), (3, 200 * MS), (4, 3 * SECOND)] {
        let roughness = Roughness {
            jitter,
            varies: false,
        };
        let mut all = simulate(seed, 250, 20, roughness);
        report(&format!("jitter up to {} ms", jitter / MS), &mut all);
        assert_eq!(all.known.wrong, 0, "jitter {jitter}");
    }
}
