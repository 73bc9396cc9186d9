//! Runs of suites: starting what the plan says, handing outputs on, and ending in good order.
//!
//! What comes next is decided by `core::suite`. Each step is a series of runs of its test, started like any other run.

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
use super::{Error, Runner, lock, spans};
use crate::clock;
use crate::follow::{Followers, Following};
use crate::store::{NewSuiteRun, Notice, StoredTest};
use crate::variables::Variables;
use crate::watch::Caller;
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

    /// Whether none is under way.
    pub(super) fn are_at_rest(&self) -> bool {
        lock(&self.under_way).is_empty()
    }

    /// Ends a run of a suite, if it is under way here.
    pub(super) fn stop(&self, run: &SuiteRunId) {
        if let Some(stop) = lock(&self.under_way).get(run) {
            stop.send_replace(true);
        }
    }
}

impl Runner {
    /// Stores a new run of a suite and begins to carry it out.
    pub async fn start_suite(self: &Arc<Self>, order: SuiteOrder) -> Result<SuiteRunId, Error> {
        self.settle_clock();
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
        log.append(What::Planned { steps: order.steps() }).await?;
        if log.change_state(SuiteState::Created, SuiteState::Executing).await? {
            let reached = Reached::nothing(&order);
            self.spawn_suite(id.clone(), order, log, reached);
        }
        Ok(id)
    }

    /// Carries out a run of a suite from wherever it has come to.
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
        let carried_out = async move {
            let ended = runner.carry_out_suite(&run, Arc::new(order), &mut log, stopped, reached).await;
            lock(&runner.suites.under_way).remove(&run);
            if let Err(error) = ended {
                let broken = What::Ended { passed: false, message: Some(error.to_string()) };
                if !matches!(error, Error::Lost) {
                    tracing::error!(error = &error as &dyn std::error::Error, "a run of a suite broke off");
                }
                // The store is probably what failed; the run is then carried on at the next start.
                let _ = log.end(SuiteState::Failed, broken).await;
            }
        };
        self.spawn(carried_out.instrument(span));
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
    pub fn follow_suite(&self, run: SuiteRunId) -> Following {
        self.suites.followers.follow(run)
    }

    /// Ends the runs of suites under way here that users want to end, for whom a notice was lost.
    pub(super) async fn hear_suite_wishes(&self) -> Result<(), Error> {
        for (suite, number) in self.store.suites_wished_stopped(&self.cluster.id()).await? {
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
    /// What is written down of the plan: enough to carry it on after a restart.
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
