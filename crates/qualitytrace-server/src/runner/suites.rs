//! Suite runs and series: starting the steps of a plan, passing outputs on, repeating runs, and stopping.
//!
//! `core::suite` decides what comes next. Each step is a series of runs of its test, started like any other run.

mod log;
mod recovery;
mod series;
mod steps;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use qualitytrace_core::series::Attempts;
use qualitytrace_core::suite::{Plan, Planned};
use tokio::sync::watch;
use tracing::Instrument;

use self::log::SuiteLog;
use self::steps::SuiteProgress;
use super::queue::Queue;
use super::tasks::Spawner;
use super::{Error, RunId, SuiteRunId, lock, spans};
use crate::base::clock;
use crate::base::follow::{Followers, Following};
use crate::observability::Caller;
use crate::storage::cluster::Cluster;
use crate::storage::store::{NewSuiteRun, Notification, Store, StoredTest};
use crate::storage::variables::Variables;
use crate::wire::request::{RunRequest, SuiteRun};
use crate::wire::suite::{Step, SuiteEventKind};

pub use self::log::SuiteState;
pub use self::series::Order;

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
    pub request: RunRequest,
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

/// Executes suite runs and series of runs: starts their runs through the queue, and waits for their ends.
#[derive(Debug)]
pub(super) struct Suites {
    queue: Arc<Queue>,
    store: Store,
    cluster: Arc<Cluster>,
    run_followers: Arc<Followers<RunId>>,
    followers: Arc<Followers<SuiteRunId>>,
    /// The suite runs in progress on this server. Sending `true` stops a run.
    in_progress: Mutex<HashMap<SuiteRunId, watch::Sender<bool>>>,
    tasks: Spawner,
}

impl Suites {
    pub(super) fn new(
        queue: Arc<Queue>,
        store: Store,
        cluster: Arc<Cluster>,
        run_followers: Arc<Followers<RunId>>,
        tasks: Spawner,
    ) -> Self {
        let (followers, in_progress) = (Arc::default(), Mutex::default());
        Self { queue, store, cluster, run_followers, followers, in_progress, tasks }
    }

    /// Subscribes to changes of a suite run.
    pub(super) fn follow(&self, run: SuiteRunId) -> Following {
        self.followers.follow(run)
    }

    /// The subscriptions to suite runs.
    pub(super) fn followers(&self) -> &Followers<SuiteRunId> {
        &self.followers
    }

    /// Stops a suite run, if it is in progress here.
    pub(super) fn stop_here(&self, run: &SuiteRunId) {
        if let Some(stop) = lock(&self.in_progress).get(run) {
            stop.send_replace(true);
        }
    }

    /// Stores a new suite run and begins to execute it.
    pub(super) async fn start(self: &Arc<Self>, order: SuiteOrder) -> Result<SuiteRunId, Error> {
        self.queue.adjust_clock();
        let new = NewSuiteRun {
            suite: order.id.clone(),
            version: order.version,
            state: SuiteState::Created.as_str(),
            created: clock::now(),
            variables: order.variables.kept(&self.store, &order.id).await?,
            // Plain data with string keys cannot fail to serialize.
            request: serde_json::to_string(&order.request).unwrap_or_default(),
            owner: self.cluster.id().to_string(),
        };
        let gone = || Error::Gone { test: order.id.clone() };
        let number = self.store.insert_suite_run(&new).await?.ok_or_else(gone)?;
        let id = SuiteRunId { suite: order.id.clone(), number };
        let mut log = self.suite_log(&id, &new.owner, 0);
        match log.begin(SuiteEventKind::Planned { steps: order.steps() }).await {
            Ok(true) => {
                let progress = SuiteProgress::new(&order);
                self.spawn(id.clone(), order, log, progress);
            }
            Ok(false) => {}
            Err(error) => {
                let message = error.to_string();
                self.tasks.spawn(async move { log.fail(message).await });
                return Err(error);
            }
        }
        Ok(id)
    }

    /// Executes a suite run from the step that it has reached.
    fn spawn(
        self: &Arc<Self>,
        run: SuiteRunId,
        order: SuiteOrder,
        mut log: SuiteLog,
        progress: SuiteProgress,
    ) {
        let (stop, stopped) = watch::channel(false);
        {
            let mut in_progress = lock(&self.in_progress);
            // Those whose tasks were cancelled.
            in_progress.retain(|_, stop| !stop.is_closed());
            in_progress.insert(run.clone(), stop);
        }
        let clock = self.queue.hold_clock();
        let suites = Arc::clone(self);
        let span = spans::suite(&Caller::current(), &run, order.version);
        log.set_span(span.clone());
        let executed = async move {
            let ended = suites.execute_suite(&run, Arc::new(order), &mut log, stopped, progress).await;
            lock(&suites.in_progress).remove(&run);
            drop(clock);
            if let Err(error) = ended {
                if !matches!(error, Error::Lost) {
                    tracing::error!(error = &error as &dyn std::error::Error, "a run of a suite broke off");
                }
                log.fail(error.to_string()).await;
            }
        };
        self.tasks.spawn(executed.instrument(span));
    }

    /// Stops the steps of a suite run in progress, on whichever server; teardown still runs. `false` when it has
    /// ended.
    pub(super) async fn stop(&self, run: &SuiteRunId) -> Result<bool, Error> {
        let is_requested = self.store.request_suite_stop(&run.suite, run.number).await?;
        if is_requested {
            self.stop_here(run);
            self.cluster.publish(|| Notification::StopSuite(run.suite.clone(), run.number));
        }
        Ok(is_requested)
    }

    /// Stops the suite runs in progress here that users have stopped, in case a notification was lost.
    pub(super) async fn repeat_commands(&self) -> Result<(), Error> {
        for (suite, number) in self.store.suites_to_stop(&self.cluster.id()).await? {
            self.stop_here(&SuiteRunId { suite, number });
        }
        Ok(())
    }

    fn suite_log(&self, run: &SuiteRunId, owner: &str, seq: u64) -> SuiteLog {
        let (followers, cluster) = (Arc::clone(&self.followers), Arc::clone(&self.cluster));
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
    fn step_request(&self, at: usize, number: u64, variables: &Variables) -> RunRequest {
        let mut request = RunRequest {
            variables: variables.iter().map(|(name, _)| name.clone()).collect(),
            suite: Some(SuiteRun { id: self.shown_id.clone(), run: number }),
            ..self.request.clone()
        };
        for (key, value) in [
            ("step", (at + 1).to_string()),
            ("testsuite_id", self.shown_id.clone()),
            ("testsuite_run_id", number.to_string()),
            ("testsuite_version", self.version.to_string()),
        ] {
            request.metadata.insert(key.to_owned(), value.into());
        }
        request
    }
}
