//! The server of a simulated system: what arrives, what is learned from it, and the runs that it belongs to.
//!
//! The order of calls is that of the real server: the register hears of every span first, then the run that follows its
//! trace. A run that was judged is judged again with each late span.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::TriggerSpan;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, Trace};
use qualitytrace_core::wait::{Begin, History, Learned, Policy, Progress, Register, absences};

use super::super::spans::span_id;
use super::super::system::{MS, SECOND, START};
use super::super::worlds::NEVER;
use super::claim::{Claim, Judged, Outcome, tree};
use super::request::{Leaves, Request, SimulatedSpan, SpanTrace};
use super::system::System;

pub(super) const POLICY: Policy = Policy::DEFAULT;
/// How long late spans are accepted at least, and at most if services deliver later.
const LATE_WINDOW: Duration = Duration::from_mins(1);
const MAX_LATE_WINDOW: Duration = Duration::from_mins(10);
/// How long a trace that belongs to no run must be unchanged before it is sampled.
const UNCHANGED: u64 = 6 * SECOND;

/// A run of a test.
pub(super) struct Run {
    pub(super) test: usize,
    pub(super) progress: Progress,
    pub(super) trigger: Span,
    pub(super) answered: u64,
    /// Everything that happened.
    pub(super) made: Vec<SimulatedSpan>,
    /// The spans that are here, in the order of arrival.
    pub(super) here: Vec<usize>,
    /// Its verdict, once there is one. A run without a trace is inconclusive.
    pub(super) verdict: Option<Judged>,
    pub(super) has_no_trace: bool,
    watched_until: u64,
    has_news: bool,
}

impl Run {
    /// The tree of the spans that are here.
    pub(super) fn trace(&self) -> Trace {
        tree(self.here.iter().map(|at| &self.made[*at].span), &self.trigger)
    }

    /// The tree of everything that happened.
    pub(super) fn whole_trace(&self) -> Trace {
        tree(self.made.iter().map(|made| &made.span), &self.trigger)
    }

    /// When its last span has arrived, if after the answer.
    pub(super) fn last(&self) -> u64 {
        self.here.iter().map(|at| self.made[*at].arrived).fold(self.answered, u64::max)
    }
}

/// Something on its way to the server. The order of what arrives together is that of the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shipment {
    at: u64,
    end: u64,
    left: u64,
    process: usize,
    what: Payload,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Payload {
    /// A span of a process in a trace of its own.
    Beat,
    /// A span that a run has caused.
    Span { run: usize, index: usize },
    /// The time to sample a trace that a run has caused besides its own.
    Sample { run: usize, trace: usize },
}

pub(super) struct Server<'a> {
    pub(super) system: &'a mut System,
    pub(super) claims: &'a [Claim],
    pub(super) register: Register,
    pub(super) histories: Vec<Arc<History>>,
    pub(super) runs: Vec<Run>,
    coming: BinaryHeap<Reverse<Shipment>>,
    /// What suspended processes hold.
    held: Vec<(usize, usize)>,
    /// When each process had delivered past the answer of the current run, and past its work after the answer.
    pub(super) passed: Vec<[u64; 2]>,
    passed_by: [u64; 2],
    /// The processes of which anything has arrived.
    pub(super) heard: BTreeSet<usize>,
}

impl<'a> Server<'a> {
    pub(super) fn new(system: &'a mut System, claims: &'a [Claim]) -> Self {
        let mut register = Register::default();
        register.listens(Timestamp::from_nanos(START));
        Self {
            system,
            claims,
            register,
            histories: vec![Arc::default(); claims.len()],
            runs: Vec::new(),
            coming: BinaryHeap::new(),
            held: Vec::new(),
            passed: Vec::new(),
            passed_by: [NEVER; 2],
            heard: BTreeSet::new(),
        }
    }

    /// Ends this server, and starts one that knows what a file keeps.
    pub(super) fn renew(&mut self, now: u64) {
        let services = std::mem::take(&mut self.register);
        let text = Learned { services, tests: BTreeMap::new() }.to_json();
        self.register = Learned::from_json(&text).expect("it was written like this").services;
        self.register.listens(Timestamp::from_nanos(now));
        self.heard.clear();
    }

    /// Starts to follow the trace of a request.
    pub(super) fn follow(&mut self, test: usize, request: Request, start: u64) -> usize {
        let Request { trigger, made, answered, other_traces, thawed } = request;
        let number = self.runs.len();
        let trigger = span_id(trigger).expect("ids begin at 1");
        let mut progress = Progress::new(Begin::Triggered(trigger), Arc::clone(&self.histories[test]));
        progress.sent(Timestamp::from_nanos(start), Some("gateway:80".into()));
        progress.answered(Timestamp::from_nanos(answered));
        self.passed = vec![[NEVER; 2]; self.system.processes.len()];
        self.passed_by = [answered + 50 * MS, answered + 2_050 * MS];
        for (process, at) in thawed {
            self.release(process, at);
        }
        let root = TriggerSpan {
            id: trigger,
            trace: TraceId::from_bytes([7; 16]).expect("not zero"),
            start: Timestamp::from_nanos(start),
            end: Timestamp::from_nanos(answered),
        };
        let reply = qualitytrace_core::run::Reply::Exec {
            code: 0,
            stdout: String::new(),
            stderr: String::new(),
            truncated: false,
        };
        self.runs.push(Run {
            test,
            progress,
            trigger: root.to_span(&reply),
            answered,
            made,
            here: Vec::new(),
            verdict: None,
            has_no_trace: false,
            watched_until: NEVER,
            has_news: false,
        });
        for index in 0..self.runs[number].made.len() {
            self.export(number, index);
        }
        for trace in 0..other_traces {
            let made = self.runs[number].made.iter().filter(|made| made.place == SpanTrace::Other(trace));
            if let Some(last) = made.map(|made| made.planned).filter(|at| *at < NEVER).max() {
                let (at, what) = (last + UNCHANGED, Payload::Sample { run: number, trace });
                self.coming.push(Reverse(Shipment { at, end: at, left: 0, process: 0, what }));
            }
        }
        number
    }

    /// Sends a span on its way, if it is exported at all.
    fn export(&mut self, run: usize, index: usize) {
        let made = &mut self.runs[run].made[index];
        if made.place == SpanTrace::Unsampled {
            return;
        }
        let process = &self.system.processes[made.process];
        let (left, at) = match made.leaves {
            Leaves::WithItsBatch => match process.export(made.end) {
                Some(export) => (export.leaves, export.arrives),
                None => return,
            },
            Leaves::Flushed(at) => (made.end, at),
            Leaves::Held => return self.held.push((run, index)),
        };
        made.planned = at;
        let what = Payload::Span { run, index };
        self.coming.push(Reverse(Shipment { at, end: made.end, left, process: made.process, what }));
    }

    /// Sends what a suspended process holds.
    fn release(&mut self, process: usize, at: u64) {
        for (run, index) in std::mem::take(&mut self.held) {
            let made = &mut self.runs[run].made[index];
            if made.process == process {
                made.leaves = Leaves::Flushed(at);
            }
            self.export(run, index);
        }
    }

    /// Receives what arrives until `to`, or until spans of the current run have arrived. Returns the time.
    pub(super) fn receive(&mut self, to: u64, current: usize) -> u64 {
        for at in 0..self.system.processes.len() {
            while let Some(end) = self.system.processes[at].beat(to) {
                if let Some(export) = self.system.processes[at].export(end) {
                    let (left, at_server) = (export.leaves, export.arrives);
                    let coming = Shipment { at: at_server, end, left, process: at, what: Payload::Beat };
                    self.coming.push(Reverse(coming));
                }
            }
        }
        while let Some(Reverse(next)) = self.coming.peek().copied().filter(|next| next.0.at <= to) {
            let at = next.at;
            while let Some(Reverse(next)) = self.coming.peek().copied().filter(|next| next.0.at == at) {
                self.coming.pop();
                self.arrived(next);
            }
            self.judge_late_spans(at);
            if std::mem::take(&mut self.runs[current].has_news) {
                return at;
            }
        }
        to
    }

    fn arrived(&mut self, coming: Shipment) {
        let Shipment { at, end, left, process, what } = coming;
        let now = Timestamp::from_nanos(at);
        if let Payload::Sample { run, trace } = what {
            return self.sample(run, trace, now);
        }
        if self.system.processes[process].has_lost(left) {
            return;
        }
        self.heard.insert(process);
        if let Some(passed) = self.passed.get_mut(process) {
            for (passed, by) in passed.iter_mut().zip(self.passed_by) {
                if end > by {
                    *passed = (*passed).min(at);
                }
            }
        }
        let Payload::Span { run, index } = what else {
            return self.register.arrived(self.system.processes[process].beating(end), now);
        };
        let run = &mut self.runs[run];
        let made = &mut run.made[index];
        made.arrived = at;
        self.register.arrived(&made.span, now);
        if made.place == SpanTrace::Run && at <= run.watched_until && run.progress.arrived(&made.span, now) {
            run.here.push(index);
            run.has_news = true;
            self.register.observe(run.progress.take_observations());
            run.progress.consult(&self.register);
        }
    }

    /// Looks at a trace that belongs to no run, to learn who answers where.
    fn sample(&mut self, run: usize, trace: usize, now: Timestamp) {
        let mut progress = Progress::new(Begin::Attached, Arc::default());
        for made in &self.runs[run].made {
            if made.place == SpanTrace::Other(trace) && made.arrived < NEVER {
                progress.arrived(&made.span, now);
            }
        }
        self.register.observe(progress.take_observations().of_answers());
    }

    /// Judges runs again that have got spans after their verdict.
    fn judge_late_spans(&mut self, at: u64) {
        for run in &mut self.runs {
            let Some(known) = run.verdict.filter(|_| run.has_news) else { continue };
            let trace = run.trace();
            let standing = self.claims[run.test].standing(&trace);
            let now = Timestamp::from_nanos(at);
            let open = absences(&POLICY, &run.progress, &self.register, &standing, now);
            let verdict = self.claims[run.test].judge(&trace, open);
            self.register.observe(run.progress.entries());
            let passed = verdict.outcome == Outcome::Passed;
            Arc::make_mut(&mut self.histories[run.test]).late(&run.progress, passed);
            // A decided verdict is not replaced by an inconclusive one while more spans are arriving.
            if verdict.outcome != known.outcome && verdict.outcome != Outcome::Inconclusive {
                run.verdict = Some(verdict);
                run.has_no_trace = false;
            }
            run.has_news = false;
        }
    }

    /// Watches a run for late spans from now on.
    pub(super) fn judged(&mut self, run: usize, verdict: Judged, has_no_trace: bool, now: u64) {
        let late = self.register.largest_lag().saturating_mul(2).min(MAX_LATE_WINDOW).max(LATE_WINDOW);
        let run = &mut self.runs[run];
        run.verdict = Some(verdict);
        run.has_no_trace = has_no_trace;
        run.watched_until = now + u64::try_from(late.as_nanos()).expect("minutes");
    }
}
