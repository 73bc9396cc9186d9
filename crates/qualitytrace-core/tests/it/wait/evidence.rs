//! Verdicts where exporters are slow, silent or down: windows of silence compared with evidence, on the same runs.
//!
//! `QUALITYTRACE_SEEDS=250 cargo test --release -p qualitytrace-core --test it evidence -- --nocapture` runs
//! 1,000,000. `QUALITYTRACE_FIRST_SEED` sets the first seed, `QUALITYTRACE_THREADS` how many seeds run in
//! parallel, and `QUALITYTRACE_WORLD` selects one world by its name.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::{
    Absence, AffectedServices, Begin, History, Meaning, OpenSpec, Policy, Progress, Register, SpecStatus,
    Wait, WaitEnd, wait,
};

use super::random::Random;
use super::spans::span_id;
use super::system::{MS, SECOND, START, TRIGGER};
use super::tally::Tally;
use super::worlds::{NEVER, Sent, System, World, end_of};

/// Runs of each test.
const RUNS: u64 = 25;
/// Tests of each world for one seed.
const TESTS: u64 = 10;
/// How long a failure by absence is checked again before it is reported.
const CONFIRM: u64 = 10 * SECOND;
const TIMEOUT: u64 = 60 * SECOND;
const SETTLE: u64 = 6 * SECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    Inconclusive,
}

/// The assertions of a test.
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
        sent.bad
            && (self.clean.contains(&sent.service) || self.exist.iter().any(|spec| is_selected(*spec, sent)))
    }

    fn missing<'a>(&'a self, seen: &'a [Sent]) -> impl Iterator<Item = (usize, bool)> + 'a {
        let here = |spec: &(usize, bool)| seen.iter().any(|sent| is_selected(*spec, sent));
        self.exist.iter().filter(move |spec| !here(spec)).copied()
    }

    fn judge(&self, seen: &[Sent], may: impl Fn(usize, Option<&str>) -> bool) -> Verdict {
        if seen.iter().any(|sent| self.is_bad(sent)) {
            return Verdict::Failed;
        }
        let mut verdict = Verdict::Passed;
        for (service, tail) in self.missing(seen) {
            if !may(service, Some(if tail { "tail" } else { "entry" })) {
                return Verdict::Failed;
            }
            verdict = Verdict::Inconclusive;
        }
        let unproven = self.clean.iter().any(|service| may(*service, None));
        if unproven { Verdict::Inconclusive } else { verdict }
    }

    fn standing(&self, system: &System, seen: &[Sent]) -> SpecStatus {
        let undecided = self.missing(seen).map(|(service, _)| OpenSpec {
            name: service.to_string(),
            services: vec![system.name(service).into()],
            lacks_spans: true,
            within: None,
        });
        SpecStatus { undecided: undecided.collect(), is_final: seen.iter().any(|sent| self.is_bad(sent)) }
    }
}

fn is_selected((service, tail): (usize, bool), sent: &Sent) -> bool {
    service == sent.service && if tail { sent.is_tail } else { sent.is_entry }
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
                AffectedServices::Anyone | AffectedServices::Refused => true,
                AffectedServices::Service(of) => **of == *service,
                AffectedServices::AnyoneBut(heard) | AffectedServices::AnyoneButIfNamed(heard) => {
                    !heard.contains(service)
                }
                // Only what is asked for and missing may still come.
                AffectedServices::StillWorking(services) => {
                    name.is_some() && (services.is_empty() || services.contains(service))
                }
            }
    })
}

/// A run that was judged and may get more spans.
struct Judged {
    progress: Progress,
    until: u64,
}

/// The end of a run.
struct RunEnd {
    verdict: Verdict,
    /// When the wait was over.
    at: u64,
    /// When the verdict was confirmed or changed.
    end: u64,
    ended: WaitEnd,
    /// When it was known that the spans a spec asks for do not exist, if that is why the run failed.
    known: Option<u64>,
}

/// The state of a simulated server, on one clock.
struct Server<'a> {
    system: &'a System,
    register: Register,
    history: Arc<History>,
    /// Spans in transit, by arrival, with their run.
    coming: BTreeMap<(u64, u64), (u64, usize)>,
    sent: Vec<Vec<Sent>>,
    judged: VecDeque<(u64, Judged)>,
    specs: &'a Specs,
    /// How long after the answer the spans that a spec asks for ended at most, in runs that passed.
    late: BTreeMap<(usize, bool), u64>,
}

impl Server<'_> {
    /// Receives the spans that arrive by then. Spans of `run` go to `progress`, others to the run that they belong
    /// to.
    fn take_in(&mut self, now: u64, run: u64, progress: &mut Progress) {
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), (of, index)) = entry.remove_entry();
            let sent = &self.sent[place(of)];
            let (span, at) = (&sent[index].span, Timestamp::from_nanos(at));
            self.register.arrived(span, at);
            if of == run {
                progress.arrived(span, at);
                self.register.observe(progress.take_observations());
                progress.consult(&self.register);
            } else {
                self.judged.retain(|(_, judged)| judged.until >= now);
                let Some((_, late)) = self.judged.iter_mut().find(|(number, _)| *number == of) else {
                    continue;
                };
                if !late.progress.arrived(span, at) {
                    continue;
                }
                let passed = self.specs.judge(arrived(sent, now), |_, _| false) == Verdict::Passed;
                Arc::make_mut(&mut self.history).late(&late.progress, passed);
                self.register.observe(late.progress.take_observations());
                self.register.observe(late.progress.entries());
            }
        }
    }

    fn seen(&self, run: u64, now: u64) -> &[Sent] {
        arrived(&self.sent[place(run)], now)
    }

    /// Returns when the next span of any run arrives.
    fn next(&self) -> u64 {
        self.coming.first_key_value().map_or(NEVER, |((at, _), _)| *at)
    }

    /// Waits as the runner does.
    fn run(&mut self, run: u64, answered: u64) -> RunEnd {
        let begin = Begin::Triggered(span_id(TRIGGER).expect("not zero"));
        let mut progress = Progress::new(begin, Arc::clone(&self.history));
        // A stall does not count: the deadline moves with it.
        let mut stalled = 0;
        progress.answered(Timestamp::from_nanos(answered));
        let (mut now, mut known) = (answered, None);
        let left_out: Vec<(usize, bool)> = self.specs.missing(&self.sent[place(run)]).collect();
        let ended = loop {
            self.take_in(now, run, &mut progress);
            if known.is_none() {
                known = self.known_to_be_left_out(&left_out, run, answered, now);
            }
            let seen = self.seen(run, now);
            let specs = || self.specs.standing(self.system, seen);
            let timeout = Duration::from_nanos(TIMEOUT + stalled);
            let policy = Policy { timeout, ..Policy::DEFAULT };
            match wait(&policy, &progress, &self.register, specs, Timestamp::from_nanos(now)) {
                Wait::Ready(ended) | Wait::GaveUp(ended) => break ended,
                Wait::Until(at, _) => {
                    let at = at.as_nanos();
                    assert!(at > now, "a wait must not ask again at the same time");
                    let wanted = at.min(self.next());
                    // The runner wakes every second, so that it notices a stall that begins before its wake-up
                    // time.
                    let stall = self.system.stall(now, wanted);
                    if let Some((from, to)) = stall {
                        stalled += to - from.max(now);
                        progress.resumed(Timestamp::from_nanos(to));
                    }
                    now = stall.map_or(wanted, |(_, to)| to);
                }
            }
        };
        let absences = if ended.meaning() == Meaning::Judge { &[][..] } else { &ended.absences };
        let judge = |server: &Self, at: u64| match ended.meaning() {
            Meaning::NoTrace => Verdict::Inconclusive,
            Meaning::Judge | Meaning::Inconclusive => {
                server.specs.judge(server.seen(run, at), |service, name| {
                    may(absences, server.system.name(service), name)
                })
            }
        };
        let mut verdict = judge(self, now);
        let mut end = now;
        let is_final = self.specs.standing(self.system, self.seen(run, now)).is_final;
        if verdict == Verdict::Failed && !is_final {
            let until = now + CONFIRM;
            while verdict == Verdict::Failed && end < until {
                end = self.next().min(until);
                self.take_in(end, run, &mut progress);
                verdict = judge(self, end);
            }
        }
        self.learn(run, answered, &progress, &ended, verdict, end);
        self.judged.push_back((run, Judged { progress, until: end + self.late_window() }));
        let known = known.filter(|_| verdict == Verdict::Failed && !is_final);
        RunEnd { verdict, at: now, end, ended, known }
    }

    fn learn(
        &mut self,
        run: u64,
        answered: u64,
        progress: &Progress,
        ended: &WaitEnd,
        verdict: Verdict,
        end: u64,
    ) {
        Arc::make_mut(&mut self.history).learn(progress, ended, verdict == Verdict::Passed);
        self.register.observe(progress.entries());
        self.register.stayed_mute(&progress.mute_addresses());
        if verdict != Verdict::Passed {
            return;
        }
        for sent in arrived(&self.sent[place(run)], end) {
            for spec in self.specs.exist.iter().filter(|spec| is_selected(**spec, sent)) {
                let late = self.late.entry(*spec).or_default();
                *late = (*late).max(end_of(sent).saturating_sub(answered));
            }
        }
    }

    /// Returns how long late spans are accepted.
    fn late_window(&self) -> u64 {
        let lag = (0..self.system.count()).filter_map(|at| self.register.largest(self.system.name(at))).max();
        lag.map_or(0, |lag| 2 * nanos(lag)).max(TIMEOUT)
    }

    /// Returns since when the arrivals alone prove that these do not exist: every process of the service delivered
    /// a span that ended later than they would have, or the maximum delivery time is over.
    fn known_to_be_left_out(
        &self,
        left_out: &[(usize, bool)],
        run: u64,
        answered: u64,
        now: u64,
    ) -> Option<u64> {
        let last = self.seen(run, now).iter().map(end_of).max().unwrap_or(answered).max(answered);
        let views = if left_out.is_empty() { Vec::new() } else { self.register.views() };
        let mut known = None;
        for spec in left_out {
            let name = self.system.name(spec.0);
            let service = views.iter().find(|view| &*view.name == name)?;
            // Work after the answer may take twice as long as ever, and longer while few runs are known.
            let unsure = if self.history.runs() < 20 { 2 * SECOND } else { 0 };
            let late =
                self.late.get(spec).map_or(SETTLE, |late| if *late > 0 { 2 * late + unsure } else { 0 });
            let by = last + late + nanos(service.clock_ahead);
            let slack = 2 * nanos(service.overtaking) + 50 * MS;
            let passed = |mark: Option<Timestamp>| mark.is_some_and(|mark| mark.as_nanos() > by + slack);
            let lag = nanos(service.largest_lag);
            let delivered_by = by + lag + lag / 4 + 100 * MS;
            let is_over = service.deliveries >= 20 && service.first_heard.is_some() && now >= delivered_by;
            let since = match (is_over, service.instances.iter().all(|process| passed(process.watermark))) {
                (true, _) => delivered_by,
                (false, true) => now,
                (false, false) => return None,
            };
            known = known.max(Some(since));
        }
        known
    }
}

/// Returns the spans that have arrived.
fn arrived(sent: &[Sent], now: u64) -> &[Sent] {
    &sent[..sent.partition_point(|sent| sent.arrives <= now)]
}

fn place(run: u64) -> usize {
    usize::try_from(run).expect("a run")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a short time")
}

/// The previous policy, simplified: absence is a window of silence. It knows which spans will come, and waits for
/// each.
fn windows(server: &Server<'_>, run: u64, answered: u64, known: bool) -> (u64, Verdict) {
    let spans = &server.sent[place(run)];
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
        } else if !known || !complete || server.specs.missing(seen).next().is_some() {
            SETTLE
        } else {
            150 * MS
        };
        let until =
            if rooted || orphaned { last + silence } else { answered + TIMEOUT }.min(answered + TIMEOUT);
        if now >= until {
            let unsure = orphaned || !rooted;
            return (now, server.specs.judge(seen, |_, _| unsure));
        }
        let next = spans.get(seen.len()).map_or(NEVER, |sent| sent.arrives);
        now = server.system.awake(until.min(next));
    }
}

/// Runs the tests of a world with one seed.
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
            late: BTreeMap::new(),
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
            let answered = system.awake(answered);
            let truth = specs.judge(&spans, |_, _| false);
            let came = arrived(&spans, NEVER - 1).last().map_or(answered, |sent| sent.arrives.max(answered));
            server.sent.push(spans);
            let (at, verdict) = windows(&server, run, answered, run > 0);
            old.count(verdict, truth, at.saturating_sub(came), None, String::new);
            let told = server.run(run, answered);
            let after = told.known.map(|known| told.at.saturating_sub(known.max(came)));
            new.count(told.verdict, truth, told.at.saturating_sub(came), after, || {
                let place = format!("{}, seed {seed}, test {test}, run {run}", world.name);
                format!("{place}: instead of {truth:?}\n{}", story(&server, run, answered, &told))
            });
            clock = told.end + random.between(100 * MS, 3 * SECOND);
        }
    }
}

/// Describes the events of a run, times in milliseconds after the answer.
fn story(server: &Server<'_>, run: u64, answered: u64, told: &RunEnd) -> String {
    let after = |at: u64| {
        let (sign, distance) = if at < answered { ("-", answered - at) } else { ("", at - answered) };
        format!("{sign}{}", distance / MS)
    };
    let RunEnd { verdict, at, end, ended, .. } = told;
    let mut story =
        format!("    {verdict:?} at {} ({}), told at {}\n", after(*at), ended.reason, after(*end));
    let _ = writeln!(story, "    asks for {:?}, clean {:?}", server.specs.exist, server.specs.clean);
    for sent in &server.sent[place(run)] {
        let arrives = if sent.arrives == NEVER { "never".to_owned() } else { after(sent.arrives) };
        let (name, bad) = (&sent.span.name, if sent.bad { ", bad" } else { "" });
        let _ = writeln!(story, "    {arrives}: {} {name}, ended {}{bad}", sent.service, after(end_of(sent)));
    }
    for debt in &ended.debts {
        let _ = writeln!(story, "    owed: {debt}");
    }
    for Absence { of, name, reason, .. } in &ended.absences {
        let _ = writeln!(story, "    open: {of:?} {name:?}: {reason}");
    }
    for view in server.register.views() {
        let (lag, overtaking) = (view.largest_lag.as_millis(), view.overtaking.as_millis());
        let times = format!("{} deliveries, {lag} ms late, overtaking {overtaking}", view.deliveries);
        let _ = writeln!(story, "    {}: {times}, ahead {}", view.name, view.clock_ahead.as_millis());
    }
    story
}

/// Reads a number or a name from the environment.
#[expect(clippy::disallowed_methods, reason = "the core reads no environment, but its tests may")]
pub(super) fn asked(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(super) fn number(name: &str) -> u64 {
    asked(name).map_or(1, |number| number.parse().expect("a number"))
}

/// Runs these seeds of a world in parallel threads.
fn play_all(world: World, seeds: &Range<u64>, threads: u64) -> (Tally, Tally) {
    let part = |first: u64| {
        let (mut old, mut new) = (Tally::default(), Tally::default());
        for seed in seeds.clone().filter(|seed| seed % threads == first) {
            play(world, seed, &mut old, &mut new);
        }
        (old, new)
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
        let parts = parts.into_iter().map(|part| part.join().expect("no part panics"));
        parts.fold((Tally::default(), Tally::default()), |(old, new), part| {
            (old.with(part.0), new.with(part.1))
        })
    })
}

#[test]
fn absence_is_not_taken_for_evidence_in_any_world() {
    let (first, threads) = (number("QUALITYTRACE_FIRST_SEED"), number("QUALITYTRACE_THREADS"));
    let seeds = first..first + number("QUALITYTRACE_SEEDS");
    let only = asked("QUALITYTRACE_WORLD");
    let mut wrong = Vec::new();
    println!("{}", Tally::HEADER);
    for world in World::ALL.into_iter().filter(|world| only.as_ref().is_none_or(|only| only == world.name)) {
        let (old, new) = play_all(world, &seeds, threads);
        println!("{}", old.line(world.name, "windows"));
        println!("{}", new.line(world.name, "**evidence**"));
        // A service that dies silently looks like a consumer that got no message.
        if !world.dies || new.wrong.len() * 100 > new.runs() {
            wrong.extend(new.wrong);
        }
    }
    assert!(wrong.is_empty(), "{} wrong verdicts\n{}", wrong.len(), wrong.join("\n"));
}
