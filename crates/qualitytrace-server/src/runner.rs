//! Runs, series and suite runs: the facade that the API uses.
//!
//! Three parts, each with the state that it owns: `suites` starts runs through the `queue`, which claims them and
//! hands them to the `execution`. None of them knows the one before it. `peers` connects all three with the other
//! servers on the same database. Nothing here touches SQL or a socket itself.

mod counts;
mod error;
mod execution;
mod learning;
mod peers;
mod queue;
mod relays;
mod retry;
mod spans;
mod suites;
mod tasks;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use qualitytrace_core::definition::{Test, Trigger};
use qualitytrace_core::trace::Trace;
use qualitytrace_core::wait::{self, Learned};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::execution::{Execution, Shared};
use self::learning::Learning;
use self::peers::Peers;
use self::queue::Queue;
use self::suites::Suites;
use self::tasks::Tasks;
use crate::base::follow::Following;
use crate::base::redact::Redactor;
use crate::config::Live;
use crate::observability::Recorder;
use crate::outbound::data_store::DataStores;
use crate::outbound::trigger::Methods;
use crate::receive::source::Source;
use crate::storage::cluster::Cluster;
use crate::storage::store::{RunCommand, Store, StoredRun, StoredTest};
use crate::storage::variables::Variables;
use crate::wire::run::Run;
use crate::wire::{Event, Verdict};

pub use self::error::Error;
pub(crate) use self::execution::{SendError, SentOnce, Watching, settings};
pub use self::suites::{Order, StepTest, SuiteOrder, SuiteState};

/// How long the last statements of a server may take, together.
const LAST_STATEMENTS: Duration = Duration::from_secs(5);
/// How long a trigger without a run waits for others.
const PERMIT_WAIT: Duration = Duration::from_secs(2);
/// The part of `limits.requestTimeout` that the system under test may take: the rest is left for the response.
const REPLY_PART: f64 = 0.9;

/// The id of a run of a test.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunId {
    /// The test.
    pub test: String,
    /// The number within the test, from 1.
    pub number: u64,
}

/// The id of a suite run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SuiteRunId {
    /// The suite.
    pub suite: String,
    /// The number within the suite, from 1.
    pub number: u64,
}

/// Starts, stops and follows runs, series and suite runs.
#[derive(Debug)]
pub struct Runner {
    config: Live,
    cluster: Arc<Cluster>,
    learning: Arc<Learning>,
    execution: Arc<Execution>,
    queue: Arc<Queue>,
    suites: Arc<Suites>,
    peers: Arc<Peers>,
    /// The runs, series and suite runs in progress. The parts above only spawn into it.
    _tasks: Tasks,
    /// The background tasks of the server.
    background: Mutex<JoinSet<()>>,
}

impl Runner {
    /// Joins the servers that share the store and begins to execute queued runs.
    pub async fn begin(
        store: Store,
        source: Source,
        policy: wait::Policy,
        config: impl Into<Live>,
        recorder: Recorder,
    ) -> Result<Arc<Self>, Error> {
        let (config, tasks) = (config.into(), Tasks::default());
        let learning = Arc::new(Learning::open(store.clone(), source.ingest().register().clone()).await?);
        let cluster = Arc::new(Cluster::join(store.clone()).await?);
        let shared = Shared {
            store: store.clone(),
            source: source.clone(),
            learning: Arc::clone(&learning),
            cluster: Arc::clone(&cluster),
            recorder,
            tasks: tasks.spawner(),
        };
        let execution = Arc::new(Execution::new(shared, policy, config.clone()));
        let limits = &config.get().limits;
        let queue = Queue::new(Arc::clone(&execution), store.clone(), Arc::clone(&cluster), limits);
        let queue = Arc::new(queue);
        let suites = Arc::new(Suites::new(
            Arc::clone(&queue),
            store.clone(),
            Arc::clone(&cluster),
            Arc::clone(execution.followers()),
            tasks.spawner(),
        ));
        let peers = Arc::new(Peers::new(
            store,
            source.clone(),
            Arc::clone(&cluster),
            Arc::clone(&execution),
            Arc::clone(&queue),
            Arc::clone(&suites),
        ));
        let background = Mutex::default();
        let runner =
            Self { config, cluster, learning, execution, queue, suites, peers, _tasks: tasks, background };
        runner.start_tasks(source).await?;
        Ok(Arc::new(runner))
    }

    /// The data stores in use.
    pub(crate) fn data_stores(&self) -> &DataStores {
        self.execution.data_stores()
    }

    /// Starts the background tasks: claims runs, and cooperates with other servers where the database is shared.
    async fn start_tasks(&self, source: Source) -> Result<(), Error> {
        let listener = self.cluster.listen().await?;
        self.peers.recover_orphans().await?;
        let mut background = lock(&self.background);
        background.spawn(Arc::clone(&self.queue).claim());
        background.spawn(Arc::clone(&self.learning).sample_traces(source));
        if let Some(listener) = listener {
            background.spawn(Arc::clone(&self.peers).receive(listener));
            background.spawn(Arc::clone(&self.peers).heartbeat());
            let cluster = Arc::clone(&self.cluster);
            background.spawn(async move { cluster.deliver().await });
        }
        Ok(())
    }

    /// Shuts down: runs whose trigger was not sent are queued again, those that wait for their traces are left to the
    /// next server, and the others are marked as interrupted.
    pub async fn shutdown(&self) {
        let mut background = std::mem::take(&mut *lock(&self.background));
        background.shutdown().await;
        self.execution.cancel_all().await;
        if timeout(LAST_STATEMENTS, self.sign_off()).await.is_err() {
            tracing::warn!(
                "the database does not answer: this server ends without a word, and the next one to start, or another \
                 that shares the database, marks its runs"
            );
        }
    }

    /// Stores what this server knows, and leaves its runs to others.
    async fn sign_off(&self) {
        if let Err(error) = self.learning.store_lags(true).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to store how late services deliver"
            );
        }
        self.peers.leave().await;
    }

    /// The number of runs requested here that are queued, and the number in progress.
    pub(crate) fn unfinished(&self) -> (usize, usize) {
        self.queue.unfinished()
    }

    /// The number of judged runs that are watched for late spans: in memory, and parked.
    pub fn watched(&self) -> (usize, usize) {
        self.execution.watched()
    }

    /// Applies changed limits.
    pub(crate) fn reconfigured(&self) {
        self.queue.reconfigured(&self.config.get().limits);
        self.execution.reconfigured();
    }

    /// Subscribes to changes of a run.
    pub fn follow(&self, run: RunId) -> Following {
        self.execution.follow(run)
    }

    /// Subscribes to what a run owes, while it waits on this server.
    pub(crate) fn watch(&self, run: RunId) -> Watching {
        self.execution.watch(run)
    }

    /// Subscribes to changes of a suite run.
    pub fn follow_suite(&self, run: SuiteRunId) -> Following {
        self.suites.follow(run)
    }

    /// The runs of a test that are in progress on this server.
    pub(crate) fn runs_of(&self, test: &str) -> Vec<RunId> {
        self.execution.runs_of(test)
    }

    /// Stops runs on this server whose test was deleted. Those on other servers end when they find their rows gone.
    pub(crate) fn stop_deleted(&self, runs: &[RunId]) {
        for run in runs {
            self.execution.command(run, RunCommand::Stop);
        }
    }

    /// Wakes all followers, so that they notice that what they follow was removed.
    pub fn removed(&self) {
        self.execution.followers().wake_all();
        self.suites.followers().wake_all();
    }

    /// How long a follower may rely on being woken: another server can die before it has published what it wrote.
    pub fn safety_poll(&self) -> Duration {
        self.cluster.safety_poll()
    }

    /// Sends a trigger once, without a run. It counts among the triggers in progress.
    pub(crate) async fn send_once(
        &self,
        trigger: Trigger,
        variables: &Variables,
    ) -> Result<SentOnce, SendError> {
        let _permit = self.queue.trigger_permit(PERMIT_WAIT).await.ok_or(SendError::Busy)?;
        let _clock = self.queue.hold_clock();
        self.execution.send_once(trigger, variables, self.longest_reply()).await
    }

    /// Lists what the server of a trigger offers, and returns the redactor of the variables' secrets. It counts among
    /// the triggers in progress.
    pub(crate) async fn methods(
        &self,
        trigger: Trigger,
        variables: &Variables,
    ) -> Result<(Methods, Redactor), SendError> {
        let _permit = self.queue.trigger_permit(PERMIT_WAIT).await.ok_or(SendError::Busy)?;
        self.execution.methods(trigger, variables, self.longest_reply()).await
    }

    fn longest_reply(&self) -> Duration {
        self.config.get().limits.request_timeout.mul_f64(REPLY_PART)
    }

    /// Enqueues a new run of a test.
    pub async fn start(&self, test: &StoredTest, variables: Variables) -> Result<RunId, Error> {
        Ok(self.queue.enqueue(test, variables, "{}".to_owned(), None).await?.0)
    }

    /// Starts a series and returns its first run.
    pub async fn start_series(&self, order: Order) -> Result<RunId, Error> {
        self.suites.start_series(order).await
    }

    /// Stores a new suite run and begins to execute it.
    pub async fn start_suite(&self, order: SuiteOrder) -> Result<SuiteRunId, Error> {
        self.suites.start(order).await
    }

    /// Stops a run, whatever it is doing, and the series that it is part of. `false` when there was nothing to
    /// stop.
    pub async fn stop(&self, run: &RunId) -> Result<bool, Error> {
        // The series first: it would start the next run.
        let series = self.suites.stop_series(run).await?;
        Ok(self.stop_run(run).await? || series)
    }

    /// Stops a run, whatever it is doing. `false` when it has ended.
    pub(crate) async fn stop_run(&self, run: &RunId) -> Result<bool, Error> {
        self.queue.stop(run).await
    }

    /// Stops the steps of a suite run in progress, on whichever server; teardown still runs. `false` when it has
    /// ended.
    pub async fn stop_suite(&self, run: &SuiteRunId) -> Result<bool, Error> {
        self.suites.stop(run).await
    }

    /// Skips the wait: judges a run with the spans that have arrived. `false` when it has ended.
    pub async fn skip_waiting(&self, run: &RunId) -> Result<bool, Error> {
        self.queue.command(run, RunCommand::Skip).await
    }

    /// Judges a trace by the specs of a test.
    pub fn judge_once(test: &Test, variables: &Variables, trace: &Trace) -> Verdict {
        execution::judge(test, variables, trace, Vec::new())
    }

    /// Judges the trace of an earlier run by this version of its test, as a new run.
    pub async fn rerun(
        &self,
        earlier: &StoredRun,
        events: &[Event],
        trace: Option<&Trace>,
        test: &StoredTest,
    ) -> Result<RunId, Error> {
        self.execution.rerun(earlier, events, trace, test).await
    }

    /// Stores a run that another server executed, as it was there.
    pub async fn import(&self, test: &StoredTest, run: Run) -> Result<RunId, Error> {
        self.execution.import(test, run).await
    }

    /// Adopts what runs on other servers have learned. What this server knows itself takes precedence.
    pub fn teach(&self, learned: Learned) {
        self.learning.teach(learned);
    }

    /// Returns everything that runs have learned so far.
    pub async fn learned(&self) -> Result<Learned, Error> {
        self.learning.learned().await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
