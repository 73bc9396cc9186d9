//! What a run of tests comes to, as one value, and one file for each way of showing it.

pub(crate) mod junit;
pub(crate) mod pretty;
pub(crate) mod progress;
pub(crate) mod style;
pub(crate) mod waterfall;

use std::io::Write;
use std::time::Duration;

use qualitytrace_server::wire::{self, What};

/// Writes to standard output, with colours only where they are wanted. A closed pipe is no error.
pub(crate) fn out(text: &str) {
    let mut stdout = anstream::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// Writes to standard error, with colours only where they are wanted.
pub(crate) fn err(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
}

/// The result of one run of one test.
#[derive(Debug, Clone)]
pub(crate) struct TestReport {
    pub(crate) name: String,
    pub(crate) id: String,
    /// The suite that it was run in.
    pub(crate) suite: Option<String>,
    pub(crate) run: u64,
    pub(crate) trace_id: String,
    pub(crate) ending: Ending,
    pub(crate) phases: Phases,
    /// What the trace still owed when the wait ended.
    pub(crate) debts: Vec<String>,
    /// The trace, for the picture; only fetched when it is needed.
    pub(crate) trace: Option<wire::Trace>,
}

/// How a run of a test ended.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// It was judged.
    Judged(wire::Verdict),
    /// It never came to a verdict; the sentence says why.
    Broken(String),
}

/// Where the time went.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Phases {
    /// From sending the trigger to its answer.
    pub(crate) trigger: Duration,
    /// From the answer to the end of the wait.
    pub(crate) wait: Duration,
    /// From the end of the wait to the verdict.
    pub(crate) judge: Duration,
    /// From the request for the run to its last event.
    pub(crate) total: Duration,
    /// From the arrival of the last span to the verdict.
    pub(crate) after_last_span: Option<Duration>,
}

impl TestReport {
    /// Whether it passed.
    pub(crate) fn outcome(&self) -> wire::Outcome {
        match &self.ending {
            Ending::Judged(verdict) => verdict.outcome,
            Ending::Broken(_) => wire::Outcome::Failed,
        }
    }

    /// Folds the events of a run.
    pub(crate) fn fold(name: String, id: String, run: u64, trace_id: String, events: &[wire::Event]) -> Self {
        let mut ending = Ending::Broken("the run ended without a verdict".to_owned());
        let mut debts = Vec::new();
        let mut marks = Marks::default();
        for event in events {
            marks.note(event);
            match &event.what {
                What::Judged { verdict } | What::Late { verdict, .. } => {
                    ending = Ending::Judged(verdict.clone());
                }
                What::WaitEnded { debts: left, .. } => debts.clone_from(left),
                What::NotResolved { message } | What::NoTrace { message } | What::Broken { message } => {
                    ending = Ending::Broken(message.clone());
                }
                What::TriggerFailed { message, .. } => {
                    ending = Ending::Broken(format!("the trigger failed: {message}"));
                }
                What::Stopped => ending = Ending::Broken("the run was stopped".to_owned()),
                What::Interrupted => {
                    ending = Ending::Broken("the server went away during the run".to_owned());
                }
                What::Created
                | What::Requeued
                | What::Again { .. }
                | What::Imported { .. }
                | What::Resolving
                | What::Resolved { .. }
                | What::Triggering { .. }
                | What::Triggered { .. }
                | What::Waiting { .. }
                | What::Arrived { .. }
                | What::WaitSkipped
                | What::Analyzed { .. }
                | What::Judging => {}
            }
        }
        Self { name, id, suite: None, run, trace_id, ending, phases: marks.phases(), debts, trace: None }
    }
}

/// The times at which a run passed from one phase to the next, in nanoseconds.
#[derive(Debug, Default)]
struct Marks {
    created: u64,
    triggering: u64,
    triggered: u64,
    wait_ended: u64,
    judged: u64,
    last_arrival: Option<u64>,
    last: u64,
}

impl Marks {
    fn note(&mut self, event: &wire::Event) {
        self.last = event.at;
        match &event.what {
            What::Created => self.created = event.at,
            What::Triggering { .. } => self.triggering = event.at,
            What::Triggered { .. } => self.triggered = event.at,
            What::WaitEnded { last_arrival, .. } => {
                self.wait_ended = event.at;
                self.last_arrival = *last_arrival;
            }
            What::Judged { .. } => self.judged = event.at,
            What::Requeued
            | What::Again { .. }
            | What::Imported { .. }
            | What::Resolving
            | What::Resolved { .. }
            | What::NotResolved { .. }
            | What::TriggerFailed { .. }
            | What::Waiting { .. }
            | What::Arrived { .. }
            | What::WaitSkipped
            | What::NoTrace { .. }
            | What::Analyzed { .. }
            | What::Judging
            | What::Late { .. }
            | What::Stopped
            | What::Interrupted
            | What::Broken { .. } => {}
        }
    }

    fn phases(&self) -> Phases {
        // A phase that was never reached took no time.
        let between = |from: u64, to: u64| {
            if from == 0 { Duration::ZERO } else { Duration::from_nanos(to.saturating_sub(from)) }
        };
        Phases {
            trigger: between(self.triggering, self.triggered),
            wait: between(self.triggered, self.wait_ended),
            judge: between(self.wait_ended.max(self.triggered), self.judged),
            total: between(self.created, self.last),
            after_last_span: self.last_arrival.map(|last| between(last, self.judged)),
        }
    }
}
