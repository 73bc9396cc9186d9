//! Execution of runs, from the claim to the verdict.
//!
//! [`Runner`] starts runs, stops them on demand, and stores what is learned from them. The run itself is one
//! function, in `execute`. Nothing here touches SQL or a socket itself.

mod arrivals;
mod commands;
mod execute;
mod judging;
mod late_spans;
mod learning;
mod log;
mod missing_trace;
mod queue;
mod rerun;
mod resolve;
mod retry;
mod samples;
mod series;
pub(crate) mod settings;
mod spans;
mod suites;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::run::State;
use qualitytrace_core::wait::{self, Learned};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use self::commands::{CommandReceiver, RunsInProgress, received};
use self::execute::Judged;
use self::learning::Memory;
use self::log::Log;
use self::queue::{Admission, Relays};
use self::suites::Suites;
use crate::budget::Budget;
use crate::client::Client;
use crate::clock;
use crate::cluster::Cluster;
use crate::compute::{self, Pool};
use crate::config::Live;
use crate::follow::{Followers, Following};
use crate::observability::{Caller, Recorder};
use crate::semaphore::ResizableSemaphore;
use crate::source::Source;
use crate::store::{self, Inserted, NewRun, RunCommand, Store, StoredRun, StoredTest};
use crate::trigger::Triggers;
use crate::variables::Variables;
use crate::wire::RunEventKind;

pub use self::series::Order;
pub use self::suites::{StepTest, SuiteOrder, SuiteState};

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

/// Requests whose caller is remembered until their run begins.
const MAX_CALLERS: usize = 10_000;

/// Starts and executes runs.
#[derive(Debug)]
pub struct Runner {
    store: Store,
    source: Source,
    triggers: Triggers,
    policy: wait::Policy,
    config: Live,
    /// One permit for each trigger in progress.
    trigger_permits: ResizableSemaphore,
    /// One permit for each run in progress. A run that only waits for spans holds no other.
    run_permits: ResizableSemaphore,
    /// The memory budget for the spans of all runs in progress.
    traces: Budget,
    /// Wakes the task that claims runs.
    queued: Notify,
    cluster: Arc<Cluster>,
    relays: Relays,
    memory: Memory,
    followers: Arc<Followers<RunId>>,
    recorder: Recorder,
    in_progress: RunsInProgress,
    suites: Suites,
    /// The callers of the queued runs, by trace.
    callers: Mutex<HashMap<TraceId, Caller>>,
    /// The runs in progress.
    tasks: Mutex<JoinSet<()>>,
    /// The background tasks of the server.
    background: Mutex<JoinSet<()>>,
}

/// Errors of our own side that end a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The test was deleted meanwhile.
    #[error("test {test} is not there any more")]
    Gone {
        /// The test.
        test: String,
    },
    /// The queue is full.
    #[error("{bound} runs are waiting for their turn, which is the limit (runs.queue); try again later")]
    QueueFull {
        /// The limit.
        bound: u64,
    },
    /// The run was deleted, or another server has taken it over.
    #[error("the run was deleted, or another server has taken it over")]
    Lost,
    /// The trace of one run takes more memory than all runs together may.
    #[error(
        "the trace takes more memory than the {limit} bytes that runs have for traces (limits.apiBytes); send fewer \
         spans, or raise the limit"
    )]
    TraceTooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The task of a suite step panicked or was cancelled.
    #[error("a step of a suite was interrupted")]
    Step {
        /// The error of the task.
        #[source]
        source: tokio::task::JoinError,
    },
    /// The stored definition cannot be read as a test.
    #[error("the stored definition of test {test} is not a test")]
    Definition {
        /// The test.
        test: String,
    },
}

impl Error {
    /// Whether the database is unavailable: the operation may be retried.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_unavailable())
    }

    /// The message to clients for a temporary error.
    pub(crate) fn temporary_message(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => error.temporary_message(),
            _ => None,
        }
    }

    /// Whether nothing was done and a retry may succeed.
    fn was_not_begun(&self) -> bool {
        match self {
            Self::QueueFull { .. } => true,
            Self::Store(error) => error.was_not_sent(),
            _ => false,
        }
    }
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
        let config = config.into();
        let runner = Arc::new(Self {
            memory: Memory::open(store.clone(), source.ingest().register().clone()).await?,
            source,
            triggers: Triggers::new(config.clone()),
            policy,
            trigger_permits: ResizableSemaphore::new(config.get().limits.concurrent_runs),
            run_permits: ResizableSemaphore::new(config.get().limits.waiting_runs),
            traces: Budget::new(config.get().limits.api_bytes),
            queued: Notify::new(),
            cluster: Arc::new(Cluster::join(store.clone()).await?),
            relays: Relays::default(),
            config,
            followers: Arc::default(),
            recorder,
            in_progress: RunsInProgress::default(),
            callers: Mutex::default(),
            suites: Suites::default(),
            tasks: Mutex::default(),
            background: Mutex::default(),
            store,
        });
        runner.start_tasks().await?;
        Ok(runner)
    }

    /// The number of runs requested here that are queued, and the number in progress.
    pub(crate) fn unfinished(&self) -> (usize, usize) {
        (lock(&self.callers).len(), self.in_progress.count())
    }

    /// Follows the clock of the machine, unless something in progress would notice the jump.
    fn adjust_clock(&self) {
        if self.unfinished() == (0, 0) && self.suites.are_at_rest() {
            clock::adjust();
        }
    }

    /// Applies changed limits.
    pub(crate) fn reconfigured(&self) {
        let config = self.config.get();
        self.trigger_permits.resize(config.limits.concurrent_runs);
        self.run_permits.resize(config.limits.waiting_runs);
        self.traces.resize(config.limits.api_bytes);
    }

    /// Subscribes to changes of a run.
    pub fn follow(&self, run: RunId) -> Following {
        self.followers.follow(run)
    }

    /// Wakes all followers, so that they notice that what they follow was removed.
    pub fn removed(&self) {
        self.followers.wake_all();
        self.suites.anything_changed();
    }

    /// How long a follower may rely on being woken: another server can die before it has published what it wrote.
    pub fn safety_poll(&self) -> Duration {
        self.cluster.safety_poll()
    }

    /// Enqueues a new run of a test.
    pub async fn start(self: &Arc<Self>, test: &StoredTest, variables: Variables) -> Result<RunId, Error> {
        self.start_as_asked(test, variables, "{}".to_owned(), None).await
    }

    /// Enqueues a new run with the rest of its request as JSON, to be shown with the run, and the suite run that it
    /// is a step of.
    pub async fn start_as_asked(
        self: &Arc<Self>,
        test: &StoredTest,
        variables: Variables,
        request: String,
        step_of: Option<&SuiteRunId>,
    ) -> Result<RunId, Error> {
        self.adjust_clock();
        let new = NewRun {
            test: test.id.clone(),
            test_version: test.version,
            trace: random_trace_id(),
            state: State::Created.as_str(),
            created: clock::now(),
            variables: variables.kept(&self.store, &test.id).await?,
            request,
            owner: String::new(),
            client: Client::current_key(),
            step_of: step_of.map(|run| (run.suite.clone(), run.number)),
            event: log::body(&RunEventKind::Created),
        };
        self.remember_caller(new.trace);
        let inserted = self.insert(&new).await;
        match &inserted {
            Ok(_) => self.queued(),
            Err(_) => drop(lock(&self.callers).remove(&new.trace)),
        }
        inserted
    }

    /// Remembers the caller before the run becomes visible: it may begin at once.
    fn remember_caller(&self, trace: TraceId) {
        let mut callers = lock(&self.callers);
        if callers.len() >= MAX_CALLERS {
            callers.clear();
        }
        callers.insert(trace, Caller::current());
    }

    async fn insert(&self, new: &NewRun) -> Result<RunId, Error> {
        let test = new.test.clone();
        let bound = self.config.get().limits.queued_runs;
        match self.store.insert_run(new, bound).await? {
            Inserted::Number(number) => Ok(RunId { test, number }),
            Inserted::NoTest => Err(Error::Gone { test }),
            Inserted::NoSuiteRun => Err(Error::Lost),
            Inserted::QueueFull => Err(Error::QueueFull { bound }),
        }
    }

    /// Executes a claimed run, and watches for late spans afterwards.
    async fn execute_claimed(
        &self,
        mut log: Log,
        run: StoredRun,
        commands: CommandReceiver,
        caller: Caller,
        Admission { turn, wait }: Admission,
    ) {
        let span = spans::run(&caller, log.run(), run.test_version, run.trace);
        log.cover(span.clone());
        let ended =
            self.execute_until_stopped(&mut log, &run, commands, &span, turn).instrument(span.clone()).await;
        drop(wait);
        self.in_progress.unregister(log.run());
        let judged = match ended {
            Ok(judged) => judged,
            Err(error) => {
                self.break_off(&mut log, &error).instrument(span.clone()).await;
                None
            }
        };
        drop(span);
        if let Some(judged) = judged.filter(|judged| judged.has_trace) {
            let deadline = Instant::now() + self.late_window();
            self.watch_late(&mut log, judged, deadline).await;
        }
    }

    /// Executes a run until it ends by itself or the user stops it.
    async fn execute_until_stopped(
        &self,
        log: &mut Log,
        run: &StoredRun,
        CommandReceiver { mut command, stop }: CommandReceiver,
        span: &tracing::Span,
        turn: OwnedSemaphorePermit,
    ) -> Result<Option<Judged>, Error> {
        let skip = command.clone();
        let ended = tokio::select! {
            ended = compute::until(stop, Box::pin(self.execute(log, run, skip, span, turn))) => Some(ended?),
            () = received(&mut command, RunCommand::Stop) => None,
        };
        match ended {
            Some(judged) => Ok(judged),
            // Everything in progress, the trigger included, was dropped with its future.
            None => match log.end(State::Stopped, &RunEventKind::Stopped).await {
                // It ended at the same moment: its own result counts.
                Err(Error::Lost) => Ok(None),
                stopped => stopped.map(|()| None),
            },
        }
    }

    /// Spawns a task on the thread pool for runs.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(work, &Pool::Runs.handle());
    }

    /// Cancels everything that was spawned.
    async fn end_tasks(&self) {
        self.in_progress.interrupt();
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
    }

    /// Shuts down: runs whose trigger was not sent are queued again, the others are marked as interrupted.
    pub async fn shutdown(&self) {
        let mut background = std::mem::take(&mut *lock(&self.background));
        background.shutdown().await;
        self.end_tasks().await;
        self.relays.end_all();
        if let Err(error) = self.memory.store_lags(true).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to store how late services deliver"
            );
        }
        if let Err(error) = self.cluster.leave().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to sign off");
        }
        // Suite runs stay as they are: the next server resumes them.
        if let Err(error) = self.recover_runs().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to mark the runs in progress");
        }
        self.cluster.deliver_now().await;
    }

    /// Adopts what runs on other servers have learned. What this server knows itself takes precedence.
    pub fn teach(&self, learned: Learned) {
        self.memory.teach(learned);
    }

    /// Returns everything that runs have learned so far.
    pub async fn learned(&self) -> Result<Learned, Error> {
        self.memory.learned().await
    }

    /// The event log of a run of this owner whose last event is `seq`.
    fn log(&self, run: &RunId, owner: Arc<str>, seq: u64) -> Log {
        let (followers, cluster) = (Arc::clone(&self.followers), Arc::clone(&self.cluster));
        Log::new(self.store.clone(), followers, cluster, self.recorder.clone(), run.clone(), owner, seq)
    }

    async fn break_off(&self, log: &mut Log, error: &Error) {
        if matches!(error, Error::Lost) {
            tracing::warn!(test = log.run().test, run = log.run().number, "{error}");
            return;
        }
        tracing::error!(error = error as &dyn std::error::Error, "a run broke off");
        let broken = RunEventKind::Broken { message: error.to_string() };
        // The store is probably what failed. While this server lives, no other server would mark the run.
        while let Err(error) = log.end(State::Failed, &broken).await {
            if !error.is_unavailable() {
                return;
            }
        }
    }
}

fn random_trace_id() -> TraceId {
    std::iter::repeat_with(rand::random).find_map(TraceId::from_bytes).unwrap_or_else(random_trace_id)
}

fn random_span_id() -> SpanId {
    std::iter::repeat_with(rand::random).find_map(SpanId::from_bytes).unwrap_or_else(random_span_id)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
