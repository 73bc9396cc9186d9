//! Execution of a suite's plan: starting steps, passing their outputs on, recording how they end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::series::{Next, Outcome, RunEnding};
use qualitytrace_core::suite::{self, Plan, Role, StepState, SuiteEnding, Values};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use super::log::{SuiteLog, SuiteState};
use super::series::{EndedRun, Order, POLL_INTERVAL, SeriesState};
use super::{SuiteOrder, Suites};
use crate::runner::counts::recount_suite;
use crate::runner::execution::{outputs, read};
use crate::runner::retry::retry_while_unavailable;
use crate::runner::{Error, RunId, SuiteRunId};
use crate::storage::variables::Variables;
use crate::wire::suite::SuiteEventKind;

/// The progress of a suite run.
#[derive(Debug)]
pub(super) struct SuiteProgress {
    pub(super) standings: Vec<StepState>,
    /// The outputs of each step.
    outputs: Vec<Values>,
    /// Those of these values that are secret.
    secrets: BTreeSet<String>,
    /// The runs that the steps in progress have started.
    pub(super) started: BTreeMap<usize, VecDeque<StartedRun>>,
    /// The number of assertions that passed and that failed.
    counts: (u64, u64),
    /// Why the run will not be completed.
    why: Option<String>,
}

/// A run of a step that began before its server was gone.
#[derive(Debug)]
pub(super) struct StartedRun {
    pub(super) run: RunId,
    pub(super) trace_id: String,
    /// Whether its start is in the event log.
    pub(super) is_logged: bool,
}

/// How a step ended.
#[derive(Debug)]
pub(super) struct StepEnd {
    pub(super) outcome: Outcome,
    pub(super) message: Option<String>,
    /// Its outputs, in clear text and redacted.
    pub(super) outputs: Variables,
    pub(super) shown: Values,
    pub(super) counts: (u64, u64),
}

/// What a step tells its suite while it is in progress.
#[derive(Debug)]
enum Note {
    /// An event of the suite.
    Event(SuiteEventKind),
    /// Only the window of its first run is left.
    Settling {
        /// The step.
        step: usize,
    },
}

/// Why a step was stopped from outside.
#[derive(Debug, Clone, Copy)]
enum Interruption {
    Timeout,
    Stopped,
}

impl SuiteProgress {
    /// The initial state.
    pub(super) fn new(order: &SuiteOrder) -> Self {
        let steps = order.plan.steps.len();
        Self {
            standings: vec![StepState::Waiting; steps],
            outputs: vec![Values::new(); steps],
            secrets: BTreeSet::new(),
            started: BTreeMap::new(),
            counts: (0, 0),
            why: None,
        }
    }

    /// Records what a step tells.
    async fn note(&mut self, note: Note, log: &mut SuiteLog) -> Result<(), Error> {
        match note {
            Note::Event(what) => log.append(what).await,
            Note::Settling { step } => {
                if self.standings[step] == StepState::Running {
                    self.standings[step] = StepState::Settling;
                }
                Ok(())
            }
        }
    }

    /// Records that a step has ended.
    pub(super) fn ended(&mut self, plan: &Plan, step: usize, ended: &StepEnd) {
        self.standings[step] = StepState::Ended(ended.outcome);
        self.outputs[step] = ended.outputs.iter().cloned().collect();
        let secret = ended.outputs.iter().filter(|(name, _)| ended.outputs.is_secret(name));
        self.secrets.extend(secret.map(|(_, value)| value.clone()));
        self.counts.0 += ended.counts.0;
        self.counts.1 += ended.counts.1;
        if let Some(message) = &ended.message {
            self.why.get_or_insert_with(|| format!("step `{}`: {message}", plan.steps[step].name));
        }
    }

    /// The variables of a step. A secret output of one step is a secret variable of the next.
    fn variables(&self, order: &SuiteOrder, step: usize) -> Variables {
        let given: Values = order.variables.iter().cloned().collect();
        let mut variables = order.variables.clone();
        for (name, value) in order.plan.variables(step, &given, &self.outputs) {
            variables.set(&name, &value, self.secrets.contains(&value));
        }
        variables
    }
}

impl Suites {
    /// Executes a suite run to its last step.
    pub(super) async fn execute_suite(
        self: &Arc<Self>,
        run: &SuiteRunId,
        order: Arc<SuiteOrder>,
        log: &mut SuiteLog,
        mut stopped: watch::Receiver<bool>,
        mut progress: SuiteProgress,
    ) -> Result<(), Error> {
        // Each step is a task of its own: one that waits for the store must not block this function.
        let mut under_way = JoinSet::new();
        let (notes, mut noted) = mpsc::unbounded_channel();
        let mut start: Vec<usize> = progress.started.keys().copied().collect();
        loop {
            for step in std::mem::take(&mut start) {
                progress.standings[step] = StepState::Running;
                let variables = progress.variables(&order, step);
                let started = progress.started.remove(&step).unwrap_or_default();
                let (notes, stop) = (notes.clone(), stopped.clone());
                let (suites, run, order) = (Arc::clone(self), run.clone(), Arc::clone(&order));
                let executed = async move {
                    (step, suites.step(&run, &order, step, variables, started, notes, stop).await)
                };
                // The runs of the step are children of the span of the suite run.
                under_way.spawn(executed.in_current_span());
            }
            let is_stopped = *stopped.borrow();
            match order.plan.next(&progress.standings, is_stopped) {
                suite::Next::Skip(steps) => {
                    for step in &steps {
                        progress.standings[*step] = StepState::Skipped;
                    }
                    log.append(SuiteEventKind::StepsSkipped { steps }).await?;
                }
                suite::Next::Start(steps) => start = steps,
                suite::Next::Wait => tokio::select! {
                    Some(note) = noted.recv() => progress.note(note, log).await?,
                    Some(joined) = under_way.join_next() => {
                        let (step, ended) = joined.map_err(|source| Error::Step { source })?;
                        let ended = match ended {
                            // A deleted test or run breaks its own step and nothing else.
                            Err(error @ (Error::Gone { .. } | Error::Lost)) => StepEnd::broken(error.to_string()),
                            ended => ended?,
                        };
                        while let Ok(note) = noted.try_recv() {
                            progress.note(note, log).await?;
                        }
                        progress.ended(&order.plan, step, &ended);
                        let counts = progress.counts;
                        retry_while_unavailable(|| async { Ok(self.store.count_suite_assertions(&run.suite, run.number, counts).await?) }).await?;
                        log.append(step_ended(step, ended)).await?;
                    }
                    Ok(()) = stopped.changed(), if !is_stopped => {
                        log.append(SuiteEventKind::Stopping).await?;
                    }
                },
                suite::Next::Done(SuiteEnding::Finished { passed }) => {
                    recount_suite(&self.store, run).await?;
                    log.end(SuiteState::Finished, SuiteEventKind::Ended { passed, message: None }).await?;
                    return Ok(());
                }
                suite::Next::Done(SuiteEnding::Failed) => {
                    recount_suite(&self.store, run).await?;
                    let why = if is_stopped {
                        "the suite was stopped".to_owned()
                    } else {
                        progress.why.unwrap_or_else(|| "a step of setup did not pass".to_owned())
                    };
                    log.end(SuiteState::Failed, SuiteEventKind::Ended { passed: false, message: Some(why) })
                        .await?;
                    return Ok(());
                }
            }
        }
    }

    /// Runs the test of a step, as often as requested, beginning with the runs that have started already.
    #[expect(
        clippy::too_many_arguments,
        reason = "a step knows its suite, its place, its past and its listeners"
    )]
    async fn step(
        self: &Arc<Self>,
        suite: &SuiteRunId,
        order: &SuiteOrder,
        at: usize,
        variables: Variables,
        mut started: VecDeque<StartedRun>,
        notes: mpsc::UnboundedSender<Note>,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<StepEnd, Error> {
        let planned = &order.plan.steps[at];
        let deadline = planned.timeout.map(|timeout| Instant::now() + timeout);
        let gone = || Error::Gone { test: planned.test.clone() };
        let test = order.tests.get(&planned.test).ok_or_else(gone)?;
        let request = order.step_request(at, suite.number, &variables);
        let (stored, attempts) = (test.stored.clone(), test.attempts);
        let step_of = Some(suite.clone());
        // A step that hands outputs on, or that may be repeated, holds up the next one until it has ended.
        let is_overlapped = !attempts.is_several() && read(&stored).is_ok_and(|test| test.outputs.is_empty());
        let mut series = SeriesState::new(Order { test: stored, attempts, variables, request, step_of });
        loop {
            let mut is_logged = false;
            let run = if let Some(started) = started.pop_front() {
                series.add(started.run.number, started.trace_id);
                is_logged = started.is_logged;
                Ok(started.run)
            } else {
                loop {
                    match self.begin_attempt(&mut series).await {
                        // A suite that has started waits for room in the queue, and for the database, instead of
                        // failing.
                        Err(error) if error.was_not_begun() => tokio::select! {
                            () = tokio::time::sleep(POLL_INTERVAL) => {}
                            () = until(deadline) => break Err(Interruption::Timeout),
                            () = until_stopped(&mut stopped), if planned.role != Role::Teardown => break Err(Interruption::Stopped),
                        },
                        started => break Ok(started?),
                    }
                }
            };
            let run = match run {
                Ok(run) => run,
                Err(interruption) => return Ok(StepEnd::interrupted(interruption, planned.timeout)),
            };
            if !is_logged {
                let (attempt, trace_id) = (series.begun(), series.trace_id().to_owned());
                // The receiver is the task that waits for this step.
                let started = SuiteEventKind::StepStarted { step: at, attempt, run: run.number, trace_id };
                let _ = notes.send(Note::Event(started));
            }
            let settling = is_overlapped.then_some(|| drop(notes.send(Note::Settling { step: at })));
            let interruption = tokio::select! {
                ended_run = self.follow_run(&run, settling) => Err(ended_run?),
                () = until(deadline) => Ok(Interruption::Timeout),
                () = until_stopped(&mut stopped), if planned.role != Role::Teardown => Ok(Interruption::Stopped),
            };
            let (ended_run, interruption) = match interruption {
                Err(ended_run) => (ended_run, None),
                Ok(interruption) => {
                    retry_while_unavailable(|| async { self.queue.stop(&run).await }).await?;
                    (self.wait_for_end(&run).await?, Some(interruption))
                }
            };
            series.record_end(ended_run.ended);
            self.store_series(&mut series).await?;
            let end = match (series.next(), interruption) {
                (Next::Start, None) => continue,
                // It ended at the same moment: its own result counts.
                (Next::Done(outcome), interruption)
                    if interruption.is_none() || ended_run.ended != RunEnding::Stopped =>
                {
                    let message = StepEnd::message(outcome, &ended_run);
                    StepEnd {
                        outcome,
                        message,
                        ..retry_while_unavailable(|| async { self.step_results(&run, &ended_run).await })
                            .await?
                    }
                }
                (_, interruption) => {
                    StepEnd::interrupted(interruption.unwrap_or(Interruption::Stopped), planned.timeout)
                }
            };
            return Ok(end);
        }
    }

    /// Returns the outputs of the last run of a step, and its assertion counts.
    pub(super) async fn step_results(&self, run: &RunId, ended_run: &EndedRun) -> Result<StepEnd, Error> {
        let mut end = StepEnd::new();
        let Some(verdict) = &ended_run.state.verdict else { return Ok(end) };
        let secrets = self.store.secrets_of(&run.test, run.number).await?;
        end.outputs = outputs(verdict, &Variables::open(&self.store, &run.test, &secrets)?);
        let resolved = verdict.outputs.iter().filter(|output| output.error.is_none());
        end.shown = resolved.map(|output| (output.name.clone(), output.value.clone())).collect();
        end.counts = verdict.counts();
        Ok(end)
    }
}

impl StepEnd {
    /// A step without outputs.
    pub(super) fn new() -> Self {
        Self {
            outcome: Outcome::Broken,
            message: None,
            outputs: Variables::default(),
            shown: Values::new(),
            counts: (0, 0),
        }
    }

    /// A step that could not be executed.
    fn broken(message: String) -> Self {
        Self { message: Some(message), ..Self::new() }
    }

    /// A step that was stopped from outside.
    fn interrupted(interruption: Interruption, timeout: Option<Duration>) -> Self {
        let (outcome, message) = match interruption {
            Interruption::Timeout => {
                let timeout = timeout.unwrap_or_default();
                (Outcome::Broken, format!("it took longer than its timeout of {timeout:?} and was ended"))
            }
            Interruption::Stopped => (Outcome::Stopped, "it was ended with the suite".to_owned()),
        };
        Self { outcome, message: Some(message), ..Self::new() }
    }

    /// Why a step that ended by itself has no result.
    fn message(outcome: Outcome, ended_run: &EndedRun) -> Option<String> {
        match outcome {
            Outcome::Broken | Outcome::Interrupted => {
                Some(ended_run.state.error.clone().unwrap_or_else(|| "its run has no verdict".to_owned()))
            }
            Outcome::Stopped => Some("its run was stopped".to_owned()),
            Outcome::Passed | Outcome::Flaky { .. } | Outcome::Failed | Outcome::Inconclusive => None,
        }
    }
}

fn step_ended(step: usize, ended: StepEnd) -> SuiteEventKind {
    SuiteEventKind::StepEnded {
        step,
        outcome: ended.outcome.into(),
        recovered: ended.outcome == Outcome::Flaky { recovered: true },
        message: ended.message,
        outputs: ended.shown,
    }
}

/// Returns at the deadline; never, if there is none.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns when the suite is stopped; never, if it is not.
async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
