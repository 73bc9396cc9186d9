//! The report of a test run as one value; submodules render it.

mod brief;
mod exchange;
mod expectation;
mod gate;
pub(crate) mod github;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod junit;
mod level;
pub(crate) mod link;
mod live;
pub(crate) mod markdown;
pub(crate) mod pretty;
mod problem;
pub(crate) mod progress;
mod shared_errors;
pub(crate) mod tap;
pub(crate) mod visible;
pub(crate) mod waterfall;

use std::borrow::Cow;
use std::time::Duration;

use qualitytrace_core::series::Attempts;
use qualitytrace_server::wire::{self, RunEventKind};

use crate::client::Flakiness;
use crate::terminal::counted;

pub(crate) use self::brief::text as brief;
pub(crate) use self::exchange::Exchange;
pub(crate) use self::gate::FailedGate;
pub(crate) use self::level::Level;
pub(crate) use self::link::Link;
pub(crate) use self::problem::problems;

/// Note on a run whose response was longer than is kept.
const CUT_OFF: &str =
    "the answer is longer than the server keeps (limits.replyBytes): only its beginning was judged";

/// Note on a run that a restarted server went on with.
const RESUMED: &str = "the server was restarted while the run waited for its trace, and went on";

/// Note on a run whose response was not UTF-8.
const BINARY: &str = "the answer is not UTF-8: invalid bytes were replaced before it was judged";

/// The result of one run of one test.
#[derive(Debug, Clone)]
pub(crate) struct TestReport {
    pub(crate) name: String,
    pub(crate) id: String,
    /// The suite that it was run in.
    pub(crate) suite: Option<String>,
    /// The name of the step in its suite.
    pub(crate) step: Option<String>,
    /// The row, or the part of the suite.
    pub(crate) part: Option<String>,
    /// The outcome over all runs of the test.
    pub(crate) outcome: Outcome,
    /// The runs before this one, when the test was run more than once.
    pub(crate) earlier: Vec<TestReport>,
    /// How often the test was to be run.
    pub(crate) attempts: Attempts,
    /// How often the test was flaky lately; only known when it was run more than once.
    pub(crate) flakiness: Option<Flakiness>,
    pub(crate) run: u64,
    pub(crate) trace_id: String,
    /// The address of the run on the server's page, where the server has one and outlives the command.
    pub(crate) link: Option<Link>,
    pub(crate) ending: TestEnding,
    pub(crate) phases: Phases,
    /// What was missing from the trace when the wait ended.
    pub(crate) debts: Vec<String>,
    /// The positions in `debts` of spans that a call or an earlier run leads to expect.
    pub(crate) expected: Vec<usize>,
    /// The specs that were undecided when the wait ended, a sentence each.
    pub(crate) undecided: Vec<String>,
    /// Whether missing spans may still come: the trace was incomplete when the wait ended, or nothing was known of the
    /// test, and their absence is not proven.
    pub(crate) is_open: bool,
    /// How long a failure by absence is checked again before it is reported, where the polling profile says so.
    pub(crate) confirm: Option<Duration>,
    /// Whether the run ended without any span of its trace.
    pub(crate) has_no_trace: bool,
    /// How often spans came after the verdict and changed it.
    pub(crate) corrections: usize,
    /// Required gates that did not pass, other than the specs.
    pub(crate) failed_gates: Vec<FailedGate>,
    /// The required gates that passed, where the specs are not required.
    pub(crate) instead_of_specs: Option<Vec<&'static str>>,
    /// Further notes for the reader.
    pub(crate) notes: Vec<String>,
    /// The trace for the waterfall; only fetched when it is needed.
    pub(crate) trace: Option<wire::Trace>,
    /// What was sent and answered.
    pub(crate) exchange: Exchange,
    /// Where the test is defined, if a file of this run defines it.
    pub(crate) source: Option<Source>,
}

/// Where a test is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) path: String,
    /// The line of the definition, counted from 1.
    pub(crate) line: usize,
    pub(crate) specs: Vec<SpecLines>,
}

/// The lines of a spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SpecLines {
    /// That of its selector.
    pub(crate) line: usize,
    pub(crate) assertions: Vec<usize>,
}

impl Source {
    /// The line of an assertion, or else of its spec or of the test.
    pub(crate) fn line_of(&self, place: Option<(usize, usize)>) -> usize {
        let Some((spec, assertion)) = place else { return self.line };
        let Some(spec) = self.specs.get(spec) else { return self.line };
        spec.assertions.get(assertion).copied().unwrap_or(spec.line)
    }
}

/// The outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It passed.
    Passed,
    /// Some runs passed and some did not.
    Flaky {
        /// Whether it passed on a retry.
        recovered: bool,
    },
    /// It was judged, and did not pass.
    Failed,
    /// Missing spans could change the verdict.
    Inconclusive,
    /// It ended without a verdict.
    Broken,
    /// It was stopped.
    Stopped,
    /// Its result could not be read from the server.
    Unknown,
    /// It was not run.
    Skipped,
}

impl Outcome {
    /// Converts the outcome of a series or a step.
    pub(crate) fn of(outcome: wire::series::Outcome, recovered: bool) -> Self {
        match outcome {
            wire::series::Outcome::Passed => Self::Passed,
            wire::series::Outcome::Flaky => Self::Flaky { recovered },
            wire::series::Outcome::Inconclusive => Self::Inconclusive,
            wire::series::Outcome::Failed => Self::Failed,
            wire::series::Outcome::Broken => Self::Broken,
            wire::series::Outcome::Stopped => Self::Stopped,
        }
    }

    /// Whether it counts as passed where only yes and no are known.
    pub(crate) const fn is_pass(self) -> bool {
        matches!(self, Self::Passed | Self::Flaky { recovered: true })
    }
}

impl From<wire::Outcome> for Outcome {
    fn from(outcome: wire::Outcome) -> Self {
        match outcome {
            wire::Outcome::Passed => Self::Passed,
            wire::Outcome::Failed => Self::Failed,
            wire::Outcome::Inconclusive => Self::Inconclusive,
        }
    }
}

/// How a run of a test ended.
#[derive(Debug, Clone)]
pub(crate) enum TestEnding {
    /// It was not run; the sentence says why.
    Skipped(Cow<'static, str>),
    /// It was judged.
    Judged(wire::Verdict),
    /// It ended without a verdict; the sentence says why.
    Broken(String),
}

/// The durations of a run's phases.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Phases {
    /// From sending the trigger to its response.
    pub(crate) trigger: Duration,
    /// From the response to the end of the wait.
    pub(crate) wait: Duration,
    /// From the end of the wait to the verdict.
    pub(crate) judge: Duration,
    /// From the request for the run to its last event.
    pub(crate) total: Duration,
    /// From the arrival of the last span to the verdict.
    pub(crate) after_last_span: Option<Duration>,
}

impl TestReport {
    /// The report of a test that is not run.
    pub(crate) fn skipped(name: String, id: String) -> Self {
        Self {
            name,
            id,
            suite: None,
            step: None,
            part: None,
            outcome: Outcome::Skipped,
            earlier: Vec::new(),
            attempts: Attempts::default(),
            flakiness: None,
            run: 0,
            trace_id: String::new(),
            link: None,
            ending: TestEnding::Skipped("an earlier step could not be run or judged".into()),
            phases: Phases::default(),
            debts: Vec::new(),
            expected: Vec::new(),
            undecided: Vec::new(),
            is_open: false,
            confirm: None,
            has_no_trace: false,
            corrections: 0,
            failed_gates: Vec::new(),
            instead_of_specs: None,
            notes: Vec::new(),
            trace: None,
            exchange: Exchange::default(),
            source: None,
        }
    }

    /// Its name, with its place in a suite.
    pub(crate) fn title(&self) -> String {
        let suite = self.suite.as_ref().map(|suite| format!("{suite} › ")).unwrap_or_default();
        let part = self.part.as_ref().map(|part| format!(" [{part}]")).unwrap_or_default();
        let name = match &self.step {
            Some(step) => format!("{step} ({})", self.name),
            None => self.name.clone(),
        };
        format!("{suite}{name}{part}")
    }

    /// Folds the events of a run; the gates are those that it must pass.
    pub(crate) fn fold(
        name: String,
        id: String,
        run: u64,
        trace_id: String,
        events: &[wire::Event],
        required_gates: &[String],
    ) -> Self {
        let mut ending = TestEnding::Broken("the run ended without a verdict".to_owned());
        let (mut was_stopped, mut is_of_server) = (false, false);
        let mut trace_id = trace_id;
        let (debts, expected) = debts(events);
        let (mut notes, mut corrections) = (Vec::new(), 0);
        let mut marks = PhaseTimes::default();
        let (mut confirm, mut is_confirmed, mut has_no_trace) = (None, false, false);
        let (mut undecided, mut is_owed) = (Vec::new(), false);
        for event in events {
            marks.note(event);
            match &event.what {
                RunEventKind::Judged { verdict } => ending = TestEnding::Judged(brief::verdict(verdict)),
                RunEventKind::Late { spans, before, verdict } => {
                    corrections += 1;
                    notes.push(correction(*spans, (!has_no_trace).then_some(before.as_str())));
                    has_no_trace = false;
                    ending = TestEnding::Judged(brief::verdict(verdict));
                }
                RunEventKind::Resolved { warning: Some(warning), .. } => {
                    notes.push(format!("warning: {}", brief::text(warning)));
                }
                // The trace that the test names replaces the one that was to be caused.
                RunEventKind::Triggered { reply: wire::event::Reply::TraceId { id }, .. } => {
                    trace_id.clone_from(id);
                }
                RunEventKind::Triggered { reply, .. } => {
                    let said = [(reply.is_truncated(), CUT_OFF), (reply.is_binary(), BINARY)];
                    notes.extend(
                        said.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note.to_owned()),
                    );
                }
                RunEventKind::Confirmed => is_confirmed = true,
                RunEventKind::Waiting { confirm: given, .. } => confirm = given.map(Duration::from_millis),
                RunEventKind::WaitEnded { debts: left, undecided: open, first, .. } => {
                    undecided.clone_from(open);
                    is_owed = *first || !left.is_empty() || !open.is_empty();
                }
                RunEventKind::NotResolved { message }
                | RunEventKind::NoTrace { message }
                | RunEventKind::Broken { message } => {
                    has_no_trace = matches!(event.what, RunEventKind::NoTrace { .. });
                    is_of_server = matches!(event.what, RunEventKind::Broken { .. });
                    ending = TestEnding::Broken(brief::text(message));
                }
                RunEventKind::TriggerFailed { message, .. } => {
                    ending = TestEnding::Broken(format!("the trigger failed: {}", brief::text(message)));
                }
                RunEventKind::Stopped => {
                    was_stopped = true;
                    ending = TestEnding::Broken("the run was stopped".to_owned());
                }
                RunEventKind::Interrupted => {
                    is_of_server = true;
                    ending = TestEnding::Broken(wire::event::INTERRUPTED.to_owned());
                }
                RunEventKind::Resumed => notes.push(RESUMED.to_owned()),
                RunEventKind::WaitSkipped { .. }
                | RunEventKind::Created
                | RunEventKind::Requeued
                | RunEventKind::Again { .. }
                | RunEventKind::Imported { .. }
                | RunEventKind::Resolving
                | RunEventKind::Resolved { .. }
                | RunEventKind::Triggering { .. }
                | RunEventKind::AnalysisSkipped
                | RunEventKind::Arrived { .. }
                | RunEventKind::Settling
                | RunEventKind::Analyzed { .. }
                | RunEventKind::Judging => {}
            }
        }
        let gates = gate::Gates::of(required_gates, events);
        let outcome = match &ending {
            TestEnding::Judged(verdict) => gates.outcome(verdict.outcome),
            TestEnding::Broken(_) if was_stopped => Outcome::Stopped,
            // It says nothing about the system under test.
            TestEnding::Broken(_) if is_of_server => Outcome::Inconclusive,
            TestEnding::Broken(_) => Outcome::Broken,
            TestEnding::Skipped(_) => Outcome::Skipped,
        };
        let is_judged = matches!(ending, TestEnding::Judged(_));
        Self {
            outcome,
            run,
            trace_id,
            ending,
            phases: marks.phases(),
            debts,
            expected,
            undecided,
            is_open: is_owed && !is_confirmed,
            confirm,
            has_no_trace,
            corrections,
            notes: if is_judged { notes.into_iter().chain(gates.notes).collect() } else { notes },
            failed_gates: if is_judged { gates.failed } else { Vec::new() },
            instead_of_specs: (!gates.requires_specs).then_some(gates.passing),
            exchange: Exchange::of(events),
            ..Self::skipped(name, id)
        }
    }
}

/// What was missing from the trace when the wait ended, and which of these are spans that are expected.
fn debts(events: &[wire::Event]) -> (Vec<String>, Vec<usize>) {
    let left =
        events.iter().rev().find_map(|event| {
            let (RunEventKind::WaitEnded { debts, expected, .. }
            | RunEventKind::WaitSkipped { debts, expected }) = &event.what
            else {
                return None;
            };
            Some((debts.clone(), expected.clone()))
        });
    left.unwrap_or_default()
}

/// The times at which a run entered its phases, in nanoseconds.
#[derive(Debug, Default)]
struct PhaseTimes {
    created: u64,
    triggering: u64,
    triggered: u64,
    wait_ended: u64,
    judged: u64,
    last_arrival: Option<u64>,
    last: u64,
}

/// Note on a run that late spans have corrected; `before` is the verdict that it had.
fn correction(spans: usize, before: Option<&str>) -> String {
    match before {
        Some(before) => {
            let came = counted(spans, "more span");
            format!("corrected: {came} came after the verdict, which was {before}")
        }
        None => {
            let came = counted(spans, "span");
            format!("corrected: {came} came after the run had ended without a trace")
        }
    }
}

impl PhaseTimes {
    fn note(&mut self, event: &wire::Event) {
        self.last = event.at;
        match &event.what {
            RunEventKind::Created => self.created = event.at,
            RunEventKind::Triggering { .. } => self.triggering = event.at,
            RunEventKind::Triggered { .. } | RunEventKind::TriggerFailed { .. } => self.triggered = event.at,
            RunEventKind::WaitEnded { last_arrival, .. } => {
                self.wait_ended = event.at;
                self.last_arrival = *last_arrival;
            }
            RunEventKind::Judged { .. } => self.judged = event.at,
            RunEventKind::Requeued
            | RunEventKind::Resumed
            | RunEventKind::Settling
            | RunEventKind::Again { .. }
            | RunEventKind::Imported { .. }
            | RunEventKind::Resolving
            | RunEventKind::Resolved { .. }
            | RunEventKind::NotResolved { .. }
            | RunEventKind::Waiting { .. }
            | RunEventKind::Confirmed
            | RunEventKind::Arrived { .. }
            | RunEventKind::WaitSkipped { .. }
            | RunEventKind::AnalysisSkipped
            | RunEventKind::NoTrace { .. }
            | RunEventKind::Analyzed { .. }
            | RunEventKind::Judging
            | RunEventKind::Late { .. }
            | RunEventKind::Stopped
            | RunEventKind::Interrupted
            | RunEventKind::Broken { .. } => {}
        }
    }

    fn phases(&self) -> Phases {
        // A phase that was never reached took no time.
        let between = |from: u64, to: u64| {
            if from == 0 || to == 0 { Duration::ZERO } else { Duration::from_nanos(to.saturating_sub(from)) }
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
