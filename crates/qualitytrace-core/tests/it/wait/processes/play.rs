//! Plays the runs of a system: waits, judges, learns and confirms as the server and the command line do.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::SpanKind;
use qualitytrace_core::wait::{
    CONFIRM, Meaning, Pending, SpecStatus, Wait, WaitEnd, is_absence_proven, wait,
};

use super::super::random::Random;
use super::super::system::{MS, SECOND, START};
use super::super::worlds::NEVER;
use super::claim::{Claim, Judged, Outcome};
use super::request::{Request, SimulatedSpan, SpanTrace};
use super::server::{POLICY, Server};
use super::system::{Bug, System};
use super::tally::{RunResult, Tally};
use super::world::World;

/// How often each test of a system is run; every second time, the system has a bug.
const ROUNDS: u64 = 9;
/// The longest pause between two evaluations of the wait: arrivals of other traces can decide it.
const EVIDENCE_INTERVAL: u64 = SECOND;
/// How often the command line folds a failed run again, and in how many of these intervals the server checks it.
const CONFIRM_INTERVAL: u64 = 250 * MS;
const CHECKED_EVERY: u64 = 2;

/// The end of a run.
struct RunEnd {
    /// When the wait was over, and when the last span had arrived by then.
    at: u64,
    last: u64,
    ended: WaitEnd,
    /// The verdict after it was confirmed, and when that was.
    verdict: Judged,
    confirmed_at: u64,
}

/// Runs the tests of one random system.
pub(super) fn play(world: World, number: u64, seed: u64, tally: &mut Tally) {
    let seeded = |part: u64| Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ (number << 48) ^ part);
    let mut random = seeded(0);
    let mut system = System::new(seeded(1), world);
    let claims = Claim::all(&mut random, &system);
    let bugs = system.bugs();
    let mut server = Server::new(&mut system, &claims);
    let mut ids = 0;
    let listening = if world.is_cold { random.between(SECOND / 2, 3 * SECOND) } else { 15 * SECOND };
    let mut clock = START + listening;
    for round in 0..ROUNDS {
        let bug = (round % 2 == 1).then(|| bugs[random.index(bugs.len())]);
        if world.is_renewed {
            server.renew(clock);
        }
        for (test, claim) in claims.iter().enumerate() {
            clock = server.system.up_since(clock);
            server.system.unfold(clock);
            let mut path = seeded((round << 8) + (test as u64) + 2);
            let request = Request::send(server.system, &mut path, &mut ids, clock, bug);
            let is_known = server.histories[test].runs() > 0;
            let run = server.follow(test, request, clock);
            let truth = claim.judge(&server.runs[run].whole_trace(), Vec::new()).outcome;
            let told = server.execute(run);
            let result = RunResult {
                is_known,
                truth,
                got: told.verdict.outcome,
                is_knowable: server.is_knowable(run),
                is_by_value: told.verdict.is_final,
                wait: told.at - told.last,
                confirmed: told.confirmed_at - told.at,
                after_proof: server.proven_since(run, &told).map(|proof| told.at - proof),
            };
            tally.count(&result, || {
                let place = format!("{}, seed {seed}, round {round}, test {test}", world.name);
                format!("{place}: instead of {truth:?}\n{}", server.story(run, bug, &told))
            });
            clock = told.confirmed_at + random.between(100 * MS, 1_500 * MS);
        }
    }
}

impl Server<'_> {
    /// Waits for the trace of a run, judges it, learns from it, and confirms its failure.
    fn execute(&mut self, run: usize) -> RunEnd {
        let claim = &self.claims[self.runs[run].test];
        let (mut now, ended) = self.wait(run);
        let at = now;
        let last = self.runs[run].last();
        let has_no_trace = ended.meaning() == Meaning::NoTrace;
        let verdict = if has_no_trace {
            Judged { outcome: Outcome::Inconclusive, is_final: false, selects_nothing: true }
        } else {
            // A final failure leaves other specs open, so the absences count in any case.
            let verdict = claim.judge(&self.runs[run].trace(), ended.absences.clone());
            let (test, passed) = (self.runs[run].test, verdict.outcome == Outcome::Passed);
            let progress = &self.runs[run].progress;
            Arc::make_mut(&mut self.histories[test]).learn(progress, &ended, passed);
            self.register.observe(progress.entries());
            self.register.stayed_mute(&progress.mute_addresses());
            verdict
        };
        self.judged(run, verdict, has_no_trace, now);
        let mut is_proven = verdict.outcome == Outcome::Failed && self.is_proven(run, now);
        let (until, mut checks) = (now + nanos(CONFIRM), 0);
        while now < until && self.rests_on_absence(run, &ended, is_proven) {
            let next = until.min(now + CONFIRM_INTERVAL);
            while self.receive(next, run) < next {}
            now = next;
            checks += 1;
            if verdict.outcome == Outcome::Failed && checks % CHECKED_EVERY == 0 {
                is_proven |= self.is_proven(run, now);
            }
        }
        let verdict = self.runs[run].verdict.expect("it was judged");
        RunEnd { at, last, ended, verdict, confirmed_at: now }
    }

    /// Waits as the runner does: asks, sleeps until the given time, an arrival or a second later, and asks again.
    fn wait(&mut self, run: usize) -> (u64, WaitEnd) {
        let claim = &self.claims[self.runs[run].test];
        let mut now = self.runs[run].answered;
        while self.receive(now, run) < now {}
        let observations = self.runs[run].progress.take_observations();
        self.register.observe(observations);
        let mut known: Option<(usize, SpecStatus)> = None;
        loop {
            let following = &self.runs[run];
            let specs = || {
                let count = following.here.len();
                let is_known = |(spans, specs): &&(usize, SpecStatus)| *spans == count || specs.is_final;
                match known.as_ref().filter(is_known) {
                    Some((_, specs)) => specs.clone(),
                    None => known.insert((count, claim.standing(&following.trace()))).1.clone(),
                }
            };
            match wait(&POLICY, &following.progress, &self.register, specs, Timestamp::from_nanos(now)) {
                Wait::Ready(ended) | Wait::GaveUp(ended) => return (now, ended),
                Wait::Until(at, _) => {
                    assert!(at.as_nanos() > now, "a wait must not ask again at the same time");
                    now = self.receive(at.as_nanos().min(now + EVIDENCE_INTERVAL), run);
                }
            }
        }
    }

    fn is_proven(&self, run: usize, now: u64) -> bool {
        let progress = &self.runs[run].progress;
        is_absence_proven(&POLICY, CONFIRM, progress, &self.register, Timestamp::from_nanos(now))
    }

    /// Whether more spans could make a run pass that has failed.
    fn rests_on_absence(&self, run: usize, ended: &WaitEnd, is_proven: bool) -> bool {
        let run = &self.runs[run];
        let verdict = run.verdict.expect("it was judged");
        let wants_more = ended.debts.iter().any(|debt| matches!(debt, Pending::Spec { .. }));
        let is_open = !ended.debts.is_empty() && !is_proven;
        let fails = verdict.outcome == Outcome::Failed;
        run.has_no_trace || (fails && is_open && (verdict.selects_nothing || wants_more))
    }

    /// Whether a rule can know what a run lacks: not where a mute consumer took a message, where a process or its exporter
    /// died, or where nothing was heard yet of a process.
    fn is_knowable(&self, run: usize) -> bool {
        let is_unknowable = |made: &SimulatedSpan| {
            let process = &self.system.processes[made.process];
            let is_mute = process.is_silent || made.place == SpanTrace::Unsampled;
            let dies = self.system.world.is_killed || process.mute_from < NEVER;
            let is_new = !process.is_silent && !self.heard.contains(&made.process);
            (is_mute && made.span.kind == SpanKind::Consumer) || dies || is_new
        };
        let mut missing = self.runs[run].made.iter().filter(|made| made.arrived == NEVER);
        !missing.any(is_unknowable)
    }

    /// When every process in the trace had delivered past the answer, or past its work after the answer if the test
    /// asks for that; `None` if that was not before the end of the wait.
    fn proven_since(&self, run: usize, told: &RunEnd) -> Option<u64> {
        let run = &self.runs[run];
        let about = usize::from(self.claims[run.test].is_about_tail);
        let entries = run.made.iter().filter(|made| {
            matches!(made.span.kind, SpanKind::Server | SpanKind::Consumer) && made.planned < NEVER
        });
        let passed = entries.map(|made| self.passed[made.process][about]);
        Some(passed.fold(told.last, u64::max)).filter(|proof| *proof <= told.at)
    }

    /// Describes the events of a run, times in milliseconds after the answer.
    fn story(&self, run: usize, bug: Option<Bug>, told: &RunEnd) -> String {
        let (system, run) = (&*self.system, &self.runs[run]);
        let claim = &self.claims[run.test];
        let after = |at: u64| match (at, at < run.answered) {
            (NEVER, _) => "never".to_owned(),
            (at, true) => format!("-{}", (run.answered - at) / MS),
            (at, false) => ((at - run.answered) / MS).to_string(),
        };
        let mut story = format!(
            "    {:?} at {} ({}), told at {}, odd service {}, bug {bug:?}\n    claims {}: {}, within {:?}\n",
            told.verdict.outcome,
            after(told.at),
            told.ended.reason,
            after(told.confirmed_at),
            system.services[system.odd].texts.service,
            claim.selector,
            claim.assertion,
            claim.within,
        );
        for made in &run.made {
            let (span, process) = (&made.span, made.process);
            let status = span.status.as_ref().map(|status| &status.message);
            let came = match (made.planned, made.arrived) {
                (_, at) if at < NEVER => "arrived",
                (NEVER, _) => "not sent",
                (_, _) => "planned",
            };
            let _ = writeln!(
                story,
                "    {came}, {}: process {process} {} {} `{}` {:?}, ended {}, {status:?}",
                after(made.planned),
                span.service(),
                span.kind.as_str(),
                span.name,
                made.place,
                after(made.end),
            );
        }
        for service in &system.services {
            for at in &service.processes {
                let process = &system.processes[*at];
                let _ = writeln!(
                    story,
                    "    process {at} of {}: every {} ms, {} to {}, exports until {}, silent {}, frozen {}",
                    service.texts.service,
                    process.delay / MS,
                    after(process.born),
                    after(process.gone),
                    after(process.mute_from),
                    process.is_silent,
                    process.is_frozen,
                );
            }
        }
        for debt in &told.ended.debts {
            let _ = writeln!(story, "    owed: {debt}");
        }
        for absence in &told.ended.absences {
            let _ = writeln!(story, "    open: {absence:?}");
        }
        for view in self.register.views() {
            let _ = writeln!(story, "    known: {view:?}");
        }
        story
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a short time")
}
