//! Wait policies compared on the same random systems, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::{
    Begin, History, OpenSpec, Policy, Progress, Register, SpecStatus, Wait, WaitEnd, wait,
};

use super::random::Random;
use super::spans::span_id;
use super::system::{MS, Roughness, SECOND, START, Sending, Sent, System, TRIGGER};

/// The assertions of a test: these labels have exactly one span, which is not bad; perhaps also that no span is
/// bad.
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
        Self { named, every: random.chance(50), labels: system.label_count() }
    }

    fn judge(&self, seen: &[Sent]) -> Verdict {
        let mut counts = vec![0_u32; self.labels];
        for sent in seen {
            if sent.bad && (self.every || self.named.contains(&sent.label)) {
                return Verdict::Failed;
            }
            counts[sent.label] += u32::from(!sent.copy);
        }
        if self.named.iter().all(|label| counts[*label] == 1) { Verdict::Passed } else { Verdict::Undecided }
    }

    fn standing(&self, seen: &[Sent]) -> SpecStatus {
        let verdict = self.judge(seen);
        SpecStatus {
            undecided: if verdict == Verdict::Undecided { vec![OpenSpec::default()] } else { vec![] },
            is_final: verdict == Verdict::Failed,
        }
    }
}

/// When a policy stopped waiting, and how many of the spans it had by then.
struct Stop {
    at: u64,
    seen: usize,
}

fn seen_at(sending: &Sending, at: u64) -> usize {
    sending.spans.partition_point(|sent| sent.arrives <= at)
}

/// Complete when a poll brings nothing new; specs that select nothing get three more polls.
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
    Stop { at, seen: seen_at(sending, at) }
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
    Stop { at: last + silence, seen: seen_at(sending, last + silence) }
}

/// The decision of `core::wait`, called as the runner calls it.
fn structure(
    sending: &Sending,
    specs: &Specs,
    history: &Arc<History>,
    lags: &mut Register,
) -> (Stop, Progress, WaitEnd) {
    let mut progress =
        Progress::new(Begin::Triggered(span_id(TRIGGER).expect("not zero")), Arc::clone(history));
    progress.answered(Timestamp::from_nanos(sending.answered));
    let (mut now, mut seen) = (sending.answered, 0);
    loop {
        while let Some(sent) = sending.spans.get(seen).filter(|sent| sent.arrives <= now) {
            let at = Timestamp::from_nanos(sent.arrives);
            if progress.arrived(&sent.span, at) {
                lags.arrived(&sent.span, at);
                lags.observe(progress.take_observations());
                progress.consult(lags);
            }
            seen += 1;
        }
        let standing = || specs.standing(&sending.spans[..seen]);
        match wait(&Policy::DEFAULT, &progress, lags, standing, Timestamp::from_nanos(now)) {
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
    /// Counts a verdict; returns whether it is right.
    fn count(&mut self, stop: &Stop, sending: &Sending, specs: &Specs) -> bool {
        let got = specs.judge(&sending.spans[..stop.seen]) == Verdict::Passed;
        let truth = specs.judge(&sending.spans) == Verdict::Passed;
        self.wrong += usize::from(got != truth);
        self.false_passes += usize::from(got && !truth);
        let originals = sending.spans.iter().filter(|sent| !sent.copy);
        let last = originals.map(|sent| sent.arrives).max().unwrap_or(START);
        self.waits.push(stop.at.saturating_sub(last.max(sending.answered)));
        got == truth
    }

    fn add(&mut self, other: Self) {
        self.wrong += other.wrong;
        self.false_passes += other.false_passes;
        self.waits.extend(other.waits);
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
    /// A description of each wrong verdict, to reproduce it.
    wrong: Vec<String>,
}

/// Simulates `tests` random systems, `runs` times each.
fn simulate(seed: u64, tests: u64, runs: u64, roughness: Roughness) -> Comparison {
    let mut all = Comparison::default();
    let mut lags = Register::default();
    for test in 0..tests {
        let mut random = Random::new(seed ^ (test << 20));
        let system = System::new(&mut random, test, roughness);
        let specs = Specs::new(&mut random, &system);
        let mut history = Arc::new(History::default());
        for run in 0..runs {
            let bug = random.chance(30);
            let sending = system.send(&mut random, START + run * 100 * SECOND, bug);
            if test % COMPARED == 0 {
                all.compare(&sending, &specs);
            }
            let is_first = history.runs() == 0;
            let (stop, mut progress, ended) = structure(&sending, &specs, &history, &mut lags);
            let tally = if is_first { &mut all.first } else { &mut all.known };
            if !tally.count(&stop, &sending, &specs) {
                let next = sending.spans[stop.seen..]
                    .iter()
                    .map(|sent| Duration::from_nanos(sent.arrives - stop.at));
                all.wrong.push(format!(
                    "seed {seed}, test {test}, run {run} after {} complete ones: {}; settle {:?}, silence {:?}, spans {:?} later",
                    history.runs(), ended.reason, ended.settle, ended.silence, next.collect::<Vec<_>>()
                ));
            }
            let passed = specs.judge(&sending.spans[..stop.seen]) == Verdict::Passed;
            let learned = Arc::make_mut(&mut history);
            learned.learn(&progress, &ended, passed);
            let mut late = false;
            for sent in &sending.spans[stop.seen..] {
                late |= progress.arrived(&sent.span, Timestamp::from_nanos(sent.arrives));
            }
            if late {
                learned.late(&progress, passed);
            }
        }
    }
    all
}

/// The other policies run for one in this many tests.
const COMPARED: u64 = 5;

impl Comparison {
    fn add(&mut self, other: Self) {
        self.poll_slow.add(other.poll_slow);
        self.poll_fast.add(other.poll_fast);
        self.quiet_short.add(other.quiet_short);
        self.quiet_long.add(other.quiet_long);
        self.no_history.add(other.no_history);
        self.first.add(other.first);
        self.known.add(other.known);
        self.wrong.extend(other.wrong);
    }

    fn compare(&mut self, sending: &Sending, specs: &Specs) {
        let count = |tally: &mut Tally, stop: &Stop| {
            tally.count(stop, sending, specs);
        };
        count(&mut self.poll_slow, &poll(sending, specs, 5 * SECOND));
        count(&mut self.poll_fast, &poll(sending, specs, 500 * MS));
        count(&mut self.quiet_short, &quiet(sending, 300 * MS));
        count(&mut self.quiet_long, &quiet(sending, 5_500 * MS));
        let unknown = Arc::new(History::default());
        let (stop, ..) = structure(sending, specs, &unknown, &mut Register::default());
        count(&mut self.no_history, &stop);
    }

    fn table(&mut self, title: &str) -> String {
        let lines = [
            format!("\n{title:34} wrong verdicts          wait after the last span, p50 / p90 / p99"),
            self.poll_slow.line("poll every 5 s (Tracetest)"),
            self.poll_fast.line("poll every 500 ms"),
            self.quiet_short.line("quiet for 300 ms"),
            self.quiet_long.line("quiet for 5.5 s"),
            self.no_history.line("structure, no history"),
            self.first.line("structure + history, first runs"),
            self.known.line("structure + history, known shape"),
        ];
        lines.join("\n")
    }
}

/// Returns how many seeds each test tries; `QUALITYTRACE_SEEDS` asks for more.
#[expect(clippy::disallowed_methods, reason = "the core reads no environment, but its tests may")]
fn seeds() -> u64 {
    std::env::var("QUALITYTRACE_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number of seeds"))
}

/// Checks that no verdict is wrong, and that the median wait is short once the shape is known. Prints the table.
#[expect(clippy::print_stdout, reason = "the table is what a wider search is for")]
fn check(seed: u64, (tests, runs): (u64, u64), roughness: Roughness, median: u64) {
    let mut all = Comparison::default();
    for seed in (seed..).step_by(4).take(usize::try_from(seeds()).expect("a number of seeds")) {
        all.add(simulate(seed, tests, runs, roughness));
    }
    let table = all.table(&format!("jitter up to {} ms", roughness.jitter / MS));
    println!("{table}");
    assert!(all.wrong.is_empty(), "{}", all.wrong.join("\n"));
    let measured = all.known.waits[all.known.waits.len() / 2];
    assert!(measured <= median, "the median wait is {measured} ns\n{table}");
}

/// Each run of a test sends the same kinds of spans: 4 times 5,000 runs.
const ALIKE: (u64, u64) = (125, 40);
/// Loops, branches and copies differ from run to run.
const DIFFERENT: (u64, u64) = (12, 50);

#[test]
fn no_verdict_is_wrong_without_jitter() {
    let roughness = |varies| Roughness { jitter: 0, varies };
    check(1, ALIKE, roughness(false), 150 * MS);
    check(1, DIFFERENT, roughness(true), 150 * MS);
}

#[test]
fn no_verdict_is_wrong_with_little_jitter() {
    let jitter = 20 * MS;
    let roughness = |varies| Roughness { jitter, varies };
    check(2, ALIKE, roughness(false), 150 * MS);
    check(2, DIFFERENT, roughness(true), 150 * MS + 2 * jitter);
}

#[test]
fn no_verdict_is_wrong_with_jitter() {
    let jitter = 200 * MS;
    let roughness = |varies| Roughness { jitter, varies };
    check(3, ALIKE, roughness(false), 150 * MS);
    check(3, DIFFERENT, roughness(true), 150 * MS + 2 * jitter);
}

#[test]
fn no_verdict_is_wrong_with_jitter_of_seconds() {
    let jitter = 3 * SECOND;
    let roughness = |varies| Roughness { jitter, varies };
    check(4, ALIKE, roughness(false), 150 * MS);
    check(4, DIFFERENT, roughness(true), 6 * SECOND);
}
