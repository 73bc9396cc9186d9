//! Runs of suites: starting what the plan says, handing outputs on, and ending in good order.
//!
//! What comes next is decided by `core::suite`. Each step is a series of runs of its test, started like any other run.

mod log;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use qualitytrace_core::series::{Attempts, Ended, Next, Outcome};
use qualitytrace_core::suite::{self, Ending, Plan, Role, Standing, Values};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::log::SuiteLog;
use super::series::{Course, LOOK_AGAIN, Order, Over};
use super::{Error, RunId, Runner, Variables, lock};
use crate::clock;
use crate::follow::Followers;
use crate::store::{NewSuiteRun, Notice, StoredTest};
use crate::wire::run::{Asked, SuiteRun};
use crate::wire::suite::{Step, What};

pub use self::log::SuiteState;

/// A run of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SuiteRunId {
    /// The suite.
    pub suite: String,
    /// Counts from 1 within the suite.
    pub number: u64,
}

/// A suite that is to be run.
#[derive(Debug, Clone)]
pub struct SuiteOrder {
    /// The suite, as the store knows it.
    pub id: String,
    /// The suite, as its user knows it.
    pub shown_id: String,
    /// The version that is run.
    pub version: u64,
    /// What is to be done.
    pub plan: Plan,
    /// The tests of the plan by the ids that it has for them, as they are now: later changes do not matter.
    pub tests: BTreeMap<String, StepTest>,
    /// The variables that were given.
    pub variables: Variables,
    /// What else was asked for.
    pub asked: Asked,
}

/// The test of a step.
#[derive(Debug, Clone)]
pub struct StepTest {
    /// The version that is run.
    pub stored: StoredTest,
    /// Its title.
    pub name: String,
    /// How often it is run.
    pub attempts: Attempts,
}

/// The runs of suites that are under way here.
#[derive(Debug, Default)]
pub(super) struct Suites {
    followers: Arc<Followers<SuiteRunId>>,
    /// Whoever sends `true` ends the run.
    under_way: Mutex<HashMap<SuiteRunId, watch::Sender<bool>>>,
}

impl Suites {
    /// Something happened to a run of a suite.
    pub(super) fn changed(&self, run: &SuiteRunId) {
        self.followers.wake(std::iter::once(run));
    }

    /// Something may have happened to any of them.
    pub(super) fn anything_changed(&self) {
        self.followers.wake_all();
    }

    /// Ends a run of a suite, if it is under way here.
    pub(super) fn stop(&self, run: &SuiteRunId) {
        if let Some(stop) = lock(&self.under_way).get(run) {
            stop.send_replace(true);
        }
    }
}

/// What became of a step.
struct StepEnd {
    outcome: Outcome,
    outputs: Values,
    message: Option<String>,
}

/// Why a step was ended from outside.
#[derive(Clone, Copy)]
enum Cut {
    Late,
    Stopped,
}

impl Runner {
    /// Stores a new run of a suite and begins to carry it out.
    pub async fn start_suite(self: &Arc<Self>, order: SuiteOrder) -> Result<SuiteRunId, Error> {
        let new = NewSuiteRun {
            suite: order.id.clone(),
            version: order.version,
            state: SuiteState::Created.as_str(),
            created: clock::now(),
            variables: order.variables.kept(&self.store, &order.id).await?,
            // Plain data with text keys cannot fail to serialise.
            request: serde_json::to_string(&order.asked).unwrap_or_default(),
            owner: self.cluster.id().to_string(),
        };
        let gone = || Error::Gone { test: order.id.clone() };
        let number = self.store.insert_suite_run(&new).await?.ok_or_else(gone)?;
        let id = SuiteRunId { suite: order.id.clone(), number };
        let mut log = self.suite_log(&id, &new.owner, 0);
        let titles = order.plan.steps.iter().map(|step| order.title(&step.test));
        log.append(What::Planned { steps: Step::of_plan(&order.plan, titles) }).await?;
        let (stop, stopped) = watch::channel(false);
        lock(&self.suites.under_way).insert(id.clone(), stop);
        let (runner, run, order) = (Arc::clone(self), id.clone(), Arc::new(order));
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let ended = runner.carry_out_suite(&run, &order, &mut log, stopped).await;
            lock(&runner.suites.under_way).remove(&run);
            if let Err(error) = ended {
                tracing::error!(error = &error as &dyn std::error::Error, "a run of a suite broke off");
                let broken = What::Ended { passed: false, message: Some(error.to_string()) };
                // The store is probably what failed; the run is then marked at the next start.
                let _ = log.end(SuiteState::Failed, broken).await;
            }
        });
        Ok(id)
    }

    /// Ends the steps of a suite that are under way, wherever that is; teardown still runs. `false` when it is over.
    pub async fn stop_suite(&self, run: &SuiteRunId) -> Result<bool, Error> {
        let is_wished = self.store.wish_suite_stopped(&run.suite, run.number).await?;
        if is_wished {
            self.suites.stop(run);
            self.cluster.tell(|| Notice::StopSuite(run.suite.clone(), run.number));
        }
        Ok(is_wished)
    }

    /// Wakes whenever something has happened to a run of a suite.
    pub fn follow_suite(&self, run: SuiteRunId) -> watch::Receiver<u64> {
        self.suites.followers.follow(run)
    }

    /// Ends the runs of suites under way here that users want to end, for whom a notice was lost.
    pub(super) async fn hear_suite_wishes(&self) -> Result<(), Error> {
        for (suite, number) in self.store.suites_wished_stopped(&self.cluster.id()).await? {
            self.suites.stop(&SuiteRunId { suite, number });
        }
        Ok(())
    }

    /// Marks the runs of suites and the series whose server is gone. What they still had in the queue is not run.
    pub(super) async fn settle_suites(&self) -> Result<(), Error> {
        for orphan in self.store.orphan_suite_runs().await? {
            let id = SuiteRunId { suite: orphan.suite, number: orphan.number };
            let events = self.store.suite_events(&id.suite, id.number, 0).await?;
            let seq = events.last().map_or(0, |event| event.seq);
            let mut log = self.suite_log(&id, &orphan.owner, seq);
            log.append(What::Interrupted).await?;
            for state in [SuiteState::Created, SuiteState::Executing] {
                log.change_state(state, SuiteState::Failed).await?;
            }
            let steps = self.store.step_runs(&id.suite, id.number, id.number).await?;
            for (run, _) in steps.into_values().flatten() {
                self.stop(&RunId { test: run.test, number: run.number }).await?;
            }
        }
        self.settle_series().await
    }

    fn suite_log(&self, run: &SuiteRunId, owner: &str, seq: u64) -> SuiteLog {
        let (followers, cluster) = (Arc::clone(&self.suites.followers), Arc::clone(&self.cluster));
        SuiteLog::new(self.store.clone(), followers, cluster, run.clone(), owner.into(), seq)
    }

    /// Carries out a run of a suite from its first step to its last.
    async fn carry_out_suite(
        self: &Arc<Self>,
        run: &SuiteRunId,
        order: &Arc<SuiteOrder>,
        log: &mut SuiteLog,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<(), Error> {
        if !log.change_state(SuiteState::Created, SuiteState::Executing).await? {
            return Ok(());
        }
        let plan = &order.plan;
        let mut standings = vec![Standing::Waiting; plan.steps.len()];
        let given: Values = order.variables.iter().cloned().collect();
        let mut outputs = vec![Values::new(); plan.steps.len()];
        let mut why: Option<String> = None;
        // Each step is a task of its own: one that waits for the store must not make this function wait for itself.
        let mut under_way = JoinSet::new();
        let (notes, mut noted) = mpsc::unbounded_channel();
        loop {
            let is_stopped = *stopped.borrow();
            match plan.next(&standings, is_stopped) {
                suite::Next::Skip(steps) => {
                    for step in &steps {
                        standings[*step] = Standing::Skipped;
                    }
                    log.append(What::StepsSkipped { steps }).await?;
                }
                suite::Next::Start(steps) => {
                    for step in steps {
                        standings[step] = Standing::Running;
                        let mut variables = order.variables.clone();
                        for (name, value) in plan.variables(step, &given, &outputs) {
                            variables.set(&name, &value, false);
                        }
                        let (notes, stop) = (notes.clone(), stopped.clone());
                        let (runner, run, order) = (Arc::clone(self), run.clone(), Arc::clone(order));
                        under_way.spawn(async move {
                            (step, runner.step(&run, &order, step, variables, notes, stop).await)
                        });
                    }
                }
                suite::Next::Wait => tokio::select! {
                    Some(what) = noted.recv() => log.append(what).await?,
                    Some(joined) = under_way.join_next() => {
                        let (step, ended) = joined.map_err(|source| Error::Step { source })?;
                        let ended = ended?;
                        while let Ok(what) = noted.try_recv() {
                            log.append(what).await?;
                        }
                        standings[step] = Standing::Ended(ended.outcome);
                        outputs[step].clone_from(&ended.outputs);
                        if let Some(message) = &ended.message {
                            why.get_or_insert_with(|| format!("step `{}`: {message}", plan.steps[step].name));
                        }
                        log.append(step_ended(step, ended)).await?;
                    }
                    Ok(()) = stopped.changed(), if !is_stopped => {
                        log.append(What::Stopping).await?;
                    }
                },
                suite::Next::Done(Ending::Finished { passed }) => {
                    let ended = What::Ended { passed, message: None };
                    return log.end(SuiteState::Finished, ended).await;
                }
                suite::Next::Done(Ending::Failed) => {
                    let why = if is_stopped {
                        "the suite was stopped".to_owned()
                    } else {
                        why.unwrap_or_else(|| "a step of setup did not pass".to_owned())
                    };
                    let ended = What::Ended { passed: false, message: Some(why) };
                    return log.end(SuiteState::Failed, ended).await;
                }
            }
        }
    }

    /// Runs the test of a step, as often as it wants to be run.
    async fn step(
        self: &Arc<Self>,
        suite: &SuiteRunId,
        order: &SuiteOrder,
        at: usize,
        variables: Variables,
        notes: mpsc::UnboundedSender<What>,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<StepEnd, Error> {
        let planned = &order.plan.steps[at];
        let deadline = planned.timeout.map(|timeout| Instant::now() + timeout);
        let gone = || Error::Gone { test: planned.test.clone() };
        let test = order.tests.get(&planned.test).ok_or_else(gone)?;
        let asked = order.asked_of_step(at, suite.number, &variables);
        let (stored, attempts) = (test.stored.clone(), test.attempts);
        let mut course = Course::new(Order { test: stored, attempts, variables, asked });
        loop {
            let begun = loop {
                match self.begin_attempt(&mut course).await {
                    // A suite that has begun waits for room in the queue instead of falling apart.
                    Err(Error::QueueFull { .. }) => tokio::select! {
                        () = tokio::time::sleep(LOOK_AGAIN) => {}
                        () = until(deadline) => break Err(Cut::Late),
                        () = halted(&mut stopped), if planned.role != Role::Teardown => break Err(Cut::Stopped),
                    },
                    begun => break Ok(begun?),
                }
            };
            let run = match begun {
                Ok(run) => run,
                Err(cut) => return Ok(StepEnd::cut(cut, planned.timeout)),
            };
            self.store.link_step(&suite.suite, suite.number, &run.test, run.number).await?;
            let trace_id = course.trace_id().to_owned();
            let attempt = course.begun();
            // Whoever reads the notes is whoever waits for this step.
            let _ = notes.send(What::StepStarted { step: at, attempt, run: run.number, trace_id });
            let cut = tokio::select! {
                over = self.until_over(&run) => Err(over?),
                () = until(deadline) => Ok(Cut::Late),
                () = halted(&mut stopped), if planned.role != Role::Teardown => Ok(Cut::Stopped),
            };
            let (over, cut) = match cut {
                Err(over) => (over, None),
                Ok(cut) => {
                    self.stop(&run).await?;
                    (self.until_over(&run).await?, Some(cut))
                }
            };
            let next = course.note(over.ended);
            self.keep_series(&course).await?;
            let end = match (next, cut) {
                (Next::Start, None) => continue,
                // It came to its end in the same moment: what it says counts.
                (Next::Done(outcome), cut) if cut.is_none() || over.ended != Ended::Stopped => {
                    StepEnd::of(outcome, &over)
                }
                (_, cut) => StepEnd::cut(cut.unwrap_or(Cut::Stopped), planned.timeout),
            };
            self.count(suite, &over).await?;
            return Ok(end);
        }
    }

    async fn count(&self, suite: &SuiteRunId, over: &Over) -> Result<(), Error> {
        let Some(verdict) = &over.facts.verdict else { return Ok(()) };
        let (passed, failed) = verdict.counts();
        Ok(self.store.count_suite_assertions(&suite.suite, suite.number, passed, failed).await?)
    }
}

impl SuiteOrder {
    fn title(&self, test: &str) -> String {
        self.tests.get(test).map(|test| test.name.clone()).unwrap_or_default()
    }

    /// What is asked of the run of a step: what was asked of the suite, and which step it is.
    fn asked_of_step(&self, at: usize, number: u64, variables: &Variables) -> Asked {
        let mut asked = Asked {
            variables: variables.iter().map(|(name, _)| name.clone()).collect(),
            suite: Some(SuiteRun { id: self.shown_id.clone(), run: number }),
            ..self.asked.clone()
        };
        for (key, value) in [
            ("step", (at + 1).to_string()),
            ("testsuite_id", self.shown_id.clone()),
            ("testsuite_run_id", number.to_string()),
            ("testsuite_version", self.version.to_string()),
        ] {
            asked.metadata.insert(key.to_owned(), value.into());
        }
        asked
    }
}

impl StepEnd {
    /// A step that was ended from outside.
    fn cut(cut: Cut, timeout: Option<Duration>) -> Self {
        let (outcome, message) = match cut {
            Cut::Late => {
                let timeout = timeout.unwrap_or_default();
                (Outcome::Broken, format!("it took longer than its timeout of {timeout:?} and was ended"))
            }
            Cut::Stopped => (Outcome::Stopped, "it was ended with the suite".to_owned()),
        };
        Self { outcome, outputs: Values::new(), message: Some(message) }
    }

    /// A step that came to its own end.
    fn of(outcome: Outcome, over: &Over) -> Self {
        let message = match outcome {
            Outcome::Broken => {
                Some(over.facts.error.clone().unwrap_or_else(|| "its run came to no verdict".to_owned()))
            }
            Outcome::Stopped => Some("its run was stopped".to_owned()),
            Outcome::Passed | Outcome::Flaky { .. } | Outcome::Failed | Outcome::Inconclusive => None,
        };
        let outputs = over.facts.verdict.iter().flat_map(|verdict| &verdict.outputs);
        let outputs = outputs.map(|output| (output.name.clone(), output.value.clone())).collect();
        Self { outcome, outputs, message }
    }
}

fn step_ended(step: usize, ended: StepEnd) -> What {
    What::StepEnded {
        step,
        outcome: ended.outcome.into(),
        recovered: ended.outcome == Outcome::Flaky { recovered: true },
        message: ended.message,
        outputs: ended.outputs,
    }
}

/// Returns when the time has come; never, if there is none.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns when the suite is to end; never, if nobody wants that.
async fn halted(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
