//! Verdicts in worlds where exporters are slow, silent or away: windows of silence beside evidence, on the same runs.
//!
//! `QUALITYTRACE_SEEDS=286 cargo test --release -p qualitytrace-core --test it evidence -- --nocapture` plays 1,000,000.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::{
    Absence, Begin, History, Meaning, Policy, Progress, Register, Standing, Wait, Whose, wait,
};

use super::random::Random;
use super::spans::span_id;
use super::system::{MS, SECOND, START, TRIGGER};
use super::worlds::{NEVER, Sent, System, World};

/// Runs of each test.
const RUNS: u64 = 25;
/// Tests of each world for one seed.
const TESTS: u64 = 10;
/// How long a failure by absence is looked at again before it is told.
const CONFIRM: u64 = 10 * SECOND;
const TIMEOUT: u64 = 60 * SECOND;
const SETTLE: u64 = 6 * SECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Inconclusive,
}

/// What a test asserts.
struct Specs {
    /// These services have one entry, or one tail.
    exist: Vec<(usize, bool)>,
    /// No span of these services is bad.
    clean: Vec<usize>,
}

impl Specs {
    fn new(random: &mut Random, system: &System) -> Self {
        let steady = (0..system.count()).filter(|service| system.is_steady(*service));
        let mut keys: Vec<(usize, bool)> = steady
            .flat_map(|service| {
                let tail = system.has_tail(service).then_some((service, true));
                std::iter::once((service, false)).chain(tail)
            })
            .collect();
        let mut exist = Vec::new();
        for _ in 0..random.index(3).min(keys.len()) {
            exist.push(keys.swap_remove(random.index(keys.len())));
        }
        let clean = (0..=random.index(2)).map(|_| random.index(system.count())).collect();
        Self { exist, clean }
    }

    fn is_bad(&self, sent: &Sent) -> bool {
        let exists = |(service, tail): &(usize, bool)| {
            *service == sent.service && if *tail { sent.is_tail } else { sent.is_entry }
        };
        sent.bad && (self.clean.contains(&sent.service) || self.exist.iter().any(exists))
    }

    fn missing<'a>(&'a self, seen: &'a [&Sent]) -> impl Iterator<Item = &'a (usize, bool)> {
        self.exist.iter().filter(|(service, tail)| {
            !seen
                .iter()
                .any(|sent| sent.service == *service && if *tail { sent.is_tail } else { sent.is_entry })
        })
    }

    fn judge(&self, seen: &[&Sent], may: impl Fn(usize, Option<&str>) -> bool) -> Verdict {
        if seen.iter().any(|sent| self.is_bad(sent)) {
            return Verdict::Failed;
        }
        let mut verdict = Verdict::Passed;
        for (service, tail) in self.missing(seen) {
            if !may(*service, Some(if *tail { "tail" } else { "entry" })) {
                return Verdict::Failed;
            }
            verdict = Verdict::Inconclusive;
        }
        let unproven = self.clean.iter().any(|service| may(*service, None));
        if unproven { Verdict::Inconclusive } else { verdict }
    }

    fn standing(&self, seen: &[&Sent]) -> Standing {
        let undecided = self.missing(seen).map(|(service, _)| service.to_string()).collect();
        Standing { undecided, is_final: seen.iter().any(|sent| self.is_bad(sent)) }
    }
}

/// Whether a span of this service, and with this name, may be missing.
fn may(absences: &[Absence], service: &str, name: Option<&str>) -> bool {
    absences.iter().any(|absence| {
        let named = match (&absence.name, name) {
            (Some(missing), Some(name)) => **missing == *name,
            (None, _) | (_, None) => true,
        };
        named
            && match &absence.of {
                Whose::Anyone => true,
                Whose::Service(of) => **of == *service,
                Whose::NeverHeard(heard) | Whose::NeverHeardIfNamed(heard) => !heard.contains(service),
            }
    })
}

/// A run that was judged and may get more spans.
struct Judged {
    progress: Progress,
    until: u64,
}

/// What a server knows and does, on one clock.
struct Server<'a> {
    system: &'a System,
    register: Register,
    history: Arc<History>,
    /// Spans on their way, by arrival, with their run.
    coming: BTreeMap<(u64, u64), (u64, usize)>,
    sent: Vec<Vec<Sent>>,
    judged: VecDeque<(u64, Judged)>,
    specs: &'a Specs,
}

impl Server<'_> {
    /// Takes in what arrives by then. Spans of `run` go to `progress`, others to the run that they belong to.
    fn take_in(&mut self, now: u64, run: u64, progress: &mut Progress) {
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), (of, index)) = entry.remove_entry();
            let (span, at) =
                (&self.sent[usize::try_from(of).expect("a run")][index].span, Timestamp::from_nanos(at));
            self.register.arrived(span, at);
            let answers = if of == run {
                progress.arrived(span, at);
                progress.take_answers()
            } else {
                self.judged.retain(|(_, judged)| judged.until >= now);
                let Some((_, late)) = self.judged.iter_mut().find(|(number, _)| *number == of) else {
                    continue;
                };
                if !late.progress.arrived(span, at) {
                    continue;
                }
                let seen: Vec<&Sent> = self.sent[usize::try_from(of).expect("a run")]
                    .iter()
                    .filter(|sent| sent.arrives <= now)
                    .collect();
                let passed = self.specs.judge(&seen, |_, _| false) == Verdict::Passed;
                Arc::make_mut(&mut self.history).late(&late.progress, passed);
                late.progress.take_answers()
            };
            for answer in answers {
                self.register.answered(&answer.address, &answer.service, answer.ahead);
            }
        }
    }

    fn seen(&self, run: u64, now: u64) -> Vec<&Sent> {
        self.sent[usize::try_from(run).expect("a run")].iter().filter(|sent| sent.arrives <= now).collect()
    }

    /// Waits as the runner does. Returns when, and the verdict.
    fn run(&mut self, run: u64, answered: u64) -> (u64, Verdict) {
        let begin = Begin::Triggered(span_id(TRIGGER).expect("not zero"));
        let mut progress = Progress::new(begin, Arc::clone(&self.history));
        // A stall does not count: the deadline moves with it.
        let mut stalled = 0;
        progress.answered(Timestamp::from_nanos(answered));
        let mut now = answered;
        let ended = loop {
            self.take_in(now, run, &mut progress);
            let seen = self.seen(run, now);
            let specs = || self.specs.standing(&seen);
            let timeout = Duration::from_nanos(TIMEOUT + stalled);
            let policy = Policy { timeout, ..Policy::DEFAULT };
            match wait(&policy, &progress, &self.register, specs, Timestamp::from_nanos(now)) {
                Wait::Ready(ended) | Wait::GaveUp(ended) => break ended,
                Wait::Until(at, _) => {
                    let at = at.as_nanos();
                    assert!(at > now, "a wait must not ask again at the same time");
                    let next = self.coming.keys().map(|(at, _)| *at).find(|at| *at > now).unwrap_or(NEVER);
                    let wanted = at.min(next);
                    now = self.system.awake(wanted);
                    if now > wanted {
                        stalled += now - wanted;
                        progress.resumed(Timestamp::from_nanos(now));
                    }
                }
            }
        };
        let absences = if ended.meaning() == Meaning::Judge { &[][..] } else { &ended.absences };
        let judge = |server: &Self, at: u64| match ended.meaning() {
            Meaning::NoTrace => Verdict::Inconclusive,
            Meaning::Judge | Meaning::Inconclusive => {
                server.specs.judge(&server.seen(run, at), |service, name| {
                    may(absences, server.system.name(service), name)
                })
            }
        };
        let mut verdict = judge(self, now);
        let mut end = now;
        let is_red = |verdict, specs: &Standing| verdict == Verdict::Failed && !specs.is_final;
        if is_red(verdict, &self.specs.standing(&self.seen(run, now))) {
            let until = now + CONFIRM;
            while verdict == Verdict::Failed && end < until {
                let next = self.coming.keys().map(|(at, _)| *at).find(|at| *at > end).unwrap_or(NEVER);
                end = next.min(until);
                self.take_in(end, run, &mut progress);
                verdict = judge(self, end);
            }
        }
        Arc::make_mut(&mut self.history).learn(&progress, &ended, verdict == Verdict::Passed);
        let lag = (0..self.system.count()).filter_map(|at| self.register.largest(self.system.name(at))).max();
        let late = lag.map_or(0, |lag| 2 * u64::try_from(lag.as_nanos()).expect("a lag"));
        self.judged.push_back((run, Judged { progress, until: end + late.max(TIMEOUT) }));
        (end, verdict)
    }
}

/// The policy of before: absence is a window of silence.
fn windows(server: &Server<'_>, run: u64, answered: u64, known: bool) -> (u64, Verdict) {
    let spans = &server.sent[usize::try_from(run).expect("a run")];
    let mut now = answered;
    loop {
        let seen = server.seen(run, now);
        let last = seen.last().map_or(answered, |sent| sent.arrives.max(answered));
        let has = |id| seen.iter().any(|sent| sent.span.id == id);
        let rooted = seen.iter().any(|sent| sent.span.parent == span_id(TRIGGER));
        let orphaned = seen.iter().any(|sent| sent.span.parent != span_id(TRIGGER) && !has(sent.span.parent));
        let complete = seen.len() == spans.len();
        let silence = if orphaned {
            2 * SETTLE
        } else if !known || !complete || server.specs.missing(&seen).next().is_some() {
            SETTLE
        } else {
            150 * MS
        };
        let until =
            if rooted || orphaned { last + silence } else { answered + TIMEOUT }.min(answered + TIMEOUT);
        if now >= until {
            let unsure = orphaned || !rooted;
            return (now, server.specs.judge(&seen, |_, _| unsure));
        }
        let next = spans.iter().map(|sent| sent.arrives).find(|at| *at > now).unwrap_or(NEVER);
        now = server.system.awake(until.min(next));
    }
}

#[derive(Default)]
struct Tally {
    false_passes: usize,
    false_fails: usize,
    inconclusive: usize,
    waits: Vec<u64>,
    wrong: Vec<String>,
}

impl Tally {
    fn count(&mut self, got: Verdict, truth: Verdict, wait: u64, told: impl FnOnce() -> String) {
        self.false_passes += usize::from(got == Verdict::Passed && truth == Verdict::Failed);
        self.false_fails += usize::from(got == Verdict::Failed && truth == Verdict::Passed);
        self.inconclusive += usize::from(got == Verdict::Inconclusive);
        self.waits.push(wait);
        if got != Verdict::Inconclusive && got != truth {
            self.wrong.push(told());
        }
    }

    fn line(&mut self, world: &str, policy: &str) -> String {
        self.waits.sort_unstable();
        let at = |percent: usize| {
            let wait = self.waits[(self.waits.len() * percent / 100).min(self.waits.len() - 1)];
            format!("{:.2}", Duration::from_nanos(wait).as_secs_f64())
        };
        format!(
            "| {world} | {policy} | {} | {} | {} | {} | {} / {} / {} |",
            self.false_passes,
            self.false_fails,
            self.inconclusive,
            self.waits.len(),
            at(50),
            at(90),
            at(99)
        )
    }
}

/// Plays the tests of a world with one seed.
fn play(world: World, seed: u64, old: &mut Tally, new: &mut Tally) {
    for test in 0..TESTS {
        let mut random = Random::new(seed ^ (test << 24));
        let system = System::new(&mut random, test, world, START);
        let specs = Specs::new(&mut random, &system);
        let mut register = Register::default();
        register.listens(Timestamp::from_nanos(START));
        let mut server = Server {
            system: &system,
            register,
            history: Arc::default(),
            coming: BTreeMap::new(),
            sent: Vec::new(),
            judged: VecDeque::new(),
            specs: &specs,
        };
        let mut clock = START + SECOND;
        for run in 0..RUNS {
            clock = system.awake(clock);
            let bug = random.chance(30);
            let (spans, answered) = system.send(&mut random, run, clock, bug);
            for (index, sent) in spans.iter().enumerate().filter(|(_, sent)| sent.arrives < NEVER) {
                let id = sent.span.id.map_or(0, |id| u64::from_be_bytes(id.to_bytes()));
                server.coming.insert((sent.arrives, id), (run, index));
            }
            server.sent.push(spans);
            let answered = system.awake(answered);
            let all: Vec<&Sent> = server.sent[usize::try_from(run).expect("a run")].iter().collect();
            let truth = specs.judge(&all, |_, _| false);
            let came = all.iter().map(|sent| sent.arrives).filter(|at| *at < NEVER).max().unwrap_or(answered);
            let came = came.max(answered);
            let (at, verdict) = windows(&server, run, answered, run > 0);
            old.count(verdict, truth, at.saturating_sub(came), String::new);
            let (at, verdict) = server.run(run, answered);
            new.count(verdict, truth, at.saturating_sub(came), || {
                format!(
                    "{}: seed {seed}, test {test}, run {run}: {verdict:?} instead of {truth:?}",
                    world.name
                )
            });
            clock = at + random.between(100 * MS, 3 * SECOND);
        }
    }
}

/// How many seeds are tried; a wider search is asked for by `QUALITYTRACE_SEEDS`.
#[expect(clippy::disallowed_methods, reason = "the core reads no environment, but its tests may")]
fn seeds() -> u64 {
    std::env::var("QUALITYTRACE_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number of seeds"))
}

#[test]
fn absence_is_not_taken_for_evidence_in_any_world() {
    let mut wrong = Vec::new();
    println!("| world | policy | false pass | false fail | inconclusive | of | wait p50 / p90 / p99 (s) |");
    println!("|---|---|---:|---:|---:|---:|---|");
    for world in World::ALL {
        let (mut old, mut new) = (Tally::default(), Tally::default());
        for seed in 1..=seeds() {
            play(world, seed, &mut old, &mut new);
        }
        println!("{}", old.line(world.name, "windows"));
        println!("{}", new.line(world.name, "**evidence**"));
        // Who dies without a word looks like a consumer that got no message.
        if !world.dies || new.wrong.len() * 100 > new.waits.len() {
            wrong.append(&mut new.wrong);
        }
    }
    assert!(wrong.is_empty(), "{} wrong verdicts\n{}", wrong.len(), wrong.join("\n"));
}
