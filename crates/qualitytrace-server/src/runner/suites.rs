//! Suite runs: starting the steps of a plan, passing outputs on, and stopping.
//!
//! `core::suite` decides what comes next. Each step is a series of runs of its test, started like any other run.

mod log;
mod recovery;
mod steps;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use qualitytrace_core::series::Attempts;
use qualitytrace_core::suite::{Plan, Planned};
use tokio::sync::watch;
use tracing::Instrument;

use self::log::SuiteLog;
use self::steps::Reached;
use super::{Error, Runner, SuiteRunId, lock, spans};
use crate::clock;
use crate::follow::{Followers, Following};
use crate::observability::Caller;
use crate::store::{NewSuiteRun, Notification, StoredTest};
use crate::variables::Variables;
use crate::wire::request::{RunRequest, SuiteRun};
use crate::wire::suite::{Step, SuiteEventKind};

pub use self::log::SuiteState;

/// A request to run a suite.
#[derive(Debug, Clone)]
pub struct SuiteOrder {
    /// The id in the store, with the tenant.
    pub id: String,
    /// The id as the user knows it.
    pub shown_id: String,
    /// The version that is run.
    pub version: u64,
    /// The steps and their dependencies.
    pub plan: Plan,
    /// The tests of the plan by their ids there, as they are now: later changes do not matter.
    pub tests: BTreeMap<String, StepTest>,
    /// The variables of the run.
    pub variables: Variables,
    /// The rest of the request.
    pub asked: RunRequest,
}

/// The test of a step.
#[derive(Debug, Clone)]
pub struct StepTest {
    /// The version that is run.
    pub stored: StoredTest,
    /// Its title.
    pub name: String,
    /// How many times it is run.
    pub attempts: Attempts,
}

/// The suite runs in progress on this server.
#[derive(Debug, Default)]
pub(super) struct Suites {
    followers: Arc<Followers<SuiteRunId>>,
    /// Sending `true` stops the run.
    under_way: Mutex<HashMap<SuiteRunId, watch::Sender<bool>>>,
}

impl Suites {
    /// Wakes the followers of a suite run.
    pub(super) fn changed(&self, run: &SuiteRunId) {
        self.followers.wake(std::iter::once(run));
    }

    /// Wakes the followers of all suite runs.
    pub(super) fn anything_changed(&self) {
        self.followers.wake_all();
    }

    /// Whether no suite run is in progress.
    pub(super) fn are_at_rest(&self) -> bool {
        lock(&self.under_way).is_empty()
    }

    /// Stops a suite run, if it is in progress here.
    pub(super) fn stop(&self, run: &SuiteRunId) {
        if let Some(stop) = lock(&self.under_way).get(run) {
            stop.send_replace(true);
        }
    }
}

impl Runner {
    /// Stores a new suite run and begins to execute it.
    pub async fn start_suite(self: &Arc<Self>, order: SuiteOrder) -> Result<SuiteRunId, Error> {
        self.adjust_clock();
        let new = NewSuiteRun {
            suite: order.id.clone(),
            version: order.version,
            state: SuiteState::Created.as_str(),
            created: clock::now(),
            variables: order.variables.kept(&self.store, &order.id).await?,
            // Plain data with string keys cannot fail to serialize.
            request: serde_json::to_string(&order.asked).unwrap_or_default(),
            owner: self.cluster.id().to_string(),
        };
        let gone = || Error::Gone { test: order.id.clone() };
        let number = self.store.insert_suite_run(&new).await?.ok_or_else(gone)?;
        let id = SuiteRunId { suite: order.id.clone(), number };
        let mut log = self.suite_log(&id, &new.owner, 0);
        log.append(SuiteEventKind::Planned { steps: order.steps() }).await?;
        if log.change_state(SuiteState::Created, SuiteState::Executing).await? {
            let reached = Reached::nothing(&order);
            self.spawn_suite(id.clone(), order, log, reached);
        }
        Ok(id)
    }

    /// Executes a suite run from the step that it has reached.
    fn spawn_suite(
        self: &Arc<Self>,
        run: SuiteRunId,
        order: SuiteOrder,
        mut log: SuiteLog,
        reached: Reached,
    ) {
        let (stop, stopped) = watch::channel(false);
        lock(&self.suites.under_way).insert(run.clone(), stop);
        let runner = Arc::clone(self);
        let span = spans::suite(&Caller::current(), &run, order.version);
        log.cover(span.clone());
        let executed = async move {
            let ended = runner.execute_suite(&run, Arc::new(order), &mut log, stopped, reached).await;
            lock(&runner.suites.under_way).remove(&run);
            if let Err(error) = ended {
                let broken = SuiteEventKind::Ended { passed: false, message: Some(error.to_string()) };
                if !matches!(error, Error::Lost) {
                    tracing::error!(error = &error as &dyn std::error::Error, "a run of a suite broke off");
                }
                // The store is probably what failed; the run is then resumed at the next start.
                let _ = log.end(SuiteState::Failed, broken).await;
            }
        };
        self.spawn(executed.instrument(span));
    }

    /// Stops the steps of a suite run in progress, on whichever server; teardown still runs. `false` when it has
    /// ended.
    pub async fn stop_suite(&self, run: &SuiteRunId) -> Result<bool, Error> {
        let is_requested = self.store.request_suite_stop(&run.suite, run.number).await?;
        if is_requested {
            self.suites.stop(run);
            self.cluster.publish(|| Notification::StopSuite(run.suite.clone(), run.number));
        }
        Ok(is_requested)
    }

    /// Subscribes to changes of a suite run.
    pub fn follow_suite(&self, run: SuiteRunId) -> Following {
        self.suites.followers.follow(run)
    }

    /// Stops the suite runs in progress here that users have stopped, in case a notification was lost.
    pub(super) async fn stop_suites_on_command(&self) -> Result<(), Error> {
        for (suite, number) in self.store.suites_to_stop(&self.cluster.id()).await? {
            self.suites.stop(&SuiteRunId { suite, number });
        }
        Ok(())
    }

    fn suite_log(&self, run: &SuiteRunId, owner: &str, seq: u64) -> SuiteLog {
        let (followers, cluster) = (Arc::clone(&self.suites.followers), Arc::clone(&self.cluster));
        SuiteLog::new(self.store.clone(), followers, cluster, run.clone(), owner.into(), seq)
    }
}

impl SuiteOrder {
    /// The steps as they are stored: enough to resume the run after a restart.
    fn steps(&self) -> Vec<Step> {
        let step = |planned: &Planned| {
            let test = self.tests.get(&planned.test);
            let attempts = test.map(|test| test.attempts).unwrap_or_default();
            Step {
                name: planned.name.clone(),
                test: planned.test.clone(),
                title: test.map(|test| test.name.clone()).unwrap_or_default(),
                version: test.map_or(0, |test| test.stored.version),
                retries: attempts.retries,
                repeat: attempts.repeat,
                role: planned.role.into(),
                row: planned.row.map(|row| row + 1),
                values: planned.values.clone(),
            }
        };
        self.plan.steps.iter().map(step).collect()
    }

    /// The request of a step's run: the request of the suite, and which step it is.
    fn asked_of_step(&self, at: usize, number: u64, variables: &Variables) -> RunRequest {
        let mut asked = RunRequest {
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
