//! Execution of runs: one run from its trigger to its verdict, and the late spans that may change it.
//!
//! The run itself is one function, in `execute`. Nothing here knows of the queue or of suites.

mod arrivals;
mod broken_propagation;
mod commands;
mod execute;
mod forecasts;
mod foreign_spans;
mod judged;
mod judging;
mod late_spans;
mod log;
mod missing_trace;
mod parked;
mod pulling;
mod report;
mod request_signature;
mod rerun;
mod resolve;
mod resume;
mod send_once;
pub(crate) mod settings;

use std::sync::Arc;

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::run::State;
use qualitytrace_core::wait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;

use self::commands::{CommandReceiver, RunsInProgress, received};
use self::forecasts::Forecasts;
use self::judged::JudgedRun;
use self::log::ResultInputs;
use self::parked::{MAX_UNSETTLED, WatchedRuns};
use super::learning::Learning;
use super::retry::pause_before_end;
use super::tasks::Spawner;
use super::{Error, RunId, spans};
use crate::base::budget::Budget;
use crate::base::compute;
use crate::base::follow::{Followers, Following};
use crate::config::Live;
use crate::observability::{Caller, Recorder};
use crate::outbound::data_store::DataStores;
use crate::outbound::trigger::Triggers;
use crate::receive::source::Source;
use crate::storage::cluster::Cluster;
use crate::storage::store::{Claimed, Inserted, NewRun, RunCommand, Store, StoredRun};
use crate::wire::RunEventKind;

pub(super) use self::execute::read;
pub(crate) use self::forecasts::Watching;
pub(super) use self::judging::outputs;
pub(super) use self::log::{Log, body};
pub(super) use self::rerun::judge;
pub(crate) use self::send_once::{SendError, SentOnce};

/// Executes runs, and judges them again when late spans arrive.
#[derive(Debug)]
pub(super) struct Execution {
    store: Store,
    source: Source,
    triggers: Triggers,
    data_stores: DataStores,
    policy: wait::Policy,
    config: Live,
    /// The memory budget for the spans of all runs in progress.
    traces: Budget,
    learning: Arc<Learning>,
    cluster: Arc<Cluster>,
    followers: Arc<Followers<RunId>>,
    forecasts: Arc<Forecasts>,
    recorder: Recorder,
    in_progress: RunsInProgress,
    watched: WatchedRuns,
    /// Permits to stay in memory until the verdict is settled.
    unsettled: Arc<Semaphore>,
    tasks: Spawner,
}

/// The permits of a run in progress.
#[derive(Debug)]
pub(super) struct Permits {
    /// To send a trigger; held until the reply. `None` if it was answered before: the run is resumed.
    pub(super) trigger: Option<OwnedSemaphorePermit>,
    /// To be in progress; held until the verdict.
    pub(super) run: OwnedSemaphorePermit,
}

/// What an execution shares with the rest of the server.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) source: Source,
    pub(super) learning: Arc<Learning>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) recorder: Recorder,
    pub(super) tasks: Spawner,
}

impl Execution {
    pub(super) fn new(shared: Shared, policy: wait::Policy, config: Live) -> Self {
        let Shared { store, source, learning, cluster, recorder, tasks } = shared;
        Self {
            triggers: Triggers::new(config.clone()),
            data_stores: DataStores::new(config.clone()),
            traces: Budget::new(config.get().limits.api_bytes),
            followers: Arc::default(),
            forecasts: Arc::default(),
            in_progress: RunsInProgress::default(),
            watched: WatchedRuns::default(),
            unsettled: Arc::new(Semaphore::new(MAX_UNSETTLED)),
            store,
            source,
            policy,
            config,
            learning,
            cluster,
            recorder,
            tasks,
        }
    }

    /// Applies changed limits.
    pub(super) fn reconfigured(&self) {
        self.traces.resize(self.config.get().limits.api_bytes);
    }

    /// The data stores in use.
    pub(super) fn data_stores(&self) -> &DataStores {
        &self.data_stores
    }

    /// Subscribes to changes of a run.
    pub(super) fn follow(&self, run: RunId) -> Following {
        self.followers.follow(run)
    }

    /// Subscribes to what a run owes while it waits here.
    pub(super) fn watch(&self, run: RunId) -> Watching {
        self.forecasts.watch(run)
    }

    /// The subscriptions to runs.
    pub(super) fn followers(&self) -> &Arc<Followers<RunId>> {
        &self.followers
    }

    /// The number of runs in progress.
    pub(super) fn count(&self) -> usize {
        self.in_progress.count()
    }

    /// The number of judged runs that are watched for late spans: in memory, and parked.
    pub(super) fn watched(&self) -> (usize, usize) {
        self.watched.counts()
    }

    /// Sends a command to a run, if it is in progress here.
    pub(super) fn command(&self, run: &RunId, command: RunCommand) {
        self.in_progress.send(run, command);
    }

    /// The runs of a test that are in progress here.
    pub(super) fn runs_of(&self, test: &str) -> Vec<RunId> {
        self.in_progress.of_test(test)
    }

    /// Stores a new run.
    pub(super) async fn insert(&self, new: &NewRun) -> Result<RunId, Error> {
        let test = new.test.clone();
        let bound = self.config.get().limits.queued_runs;
        match self.store.insert_run(new, bound).await? {
            Inserted::Number(number) => Ok(RunId { test, number }),
            Inserted::NoTest => Err(Error::Gone { test }),
            Inserted::NoSuiteRun => Err(Error::Lost),
            Inserted::QueueFull => Err(Error::QueueFull { bound }),
        }
    }

    /// The event log of a run of this owner whose last event is `seq`.
    pub(super) fn log(&self, run: &RunId, owner: Arc<str>, seq: u64) -> Log {
        let (followers, cluster) = (Arc::clone(&self.followers), Arc::clone(&self.cluster));
        Log::new(self.store.clone(), followers, cluster, self.recorder.clone(), run.clone(), owner, seq)
            .with_forecasts(Arc::clone(&self.forecasts))
    }

    /// Starts to execute a claimed run, in a task of its own.
    pub(super) fn start(
        self: &Arc<Self>,
        claimed: Claimed,
        owner: &Arc<str>,
        caller: Caller,
        permits: Permits,
    ) {
        self.spawn_run(claimed, owner, caller, std::future::ready(Some(permits)));
    }

    /// Goes on with a run of a server that is gone, whose trigger was answered, in a task of its own.
    pub(super) fn start_resumed(
        self: &Arc<Self>,
        claimed: Claimed,
        owner: &Arc<str>,
        permit: impl Future<Output = Option<OwnedSemaphorePermit>> + Send + 'static,
    ) {
        let permits = async { permit.await.map(|run| Permits { trigger: None, run }) };
        self.spawn_run(claimed, owner, Caller::default(), permits);
    }

    fn spawn_run(
        self: &Arc<Self>,
        Claimed { run, seq }: Claimed,
        owner: &Arc<str>,
        caller: Caller,
        permits: impl Future<Output = Option<Permits>> + Send + 'static,
    ) {
        let id = RunId { test: run.test.clone(), number: run.number };
        let mut log = self.log(&id, Arc::clone(owner), seq).with_trace(run.trace);
        log.set_standing(ResultInputs::of(&run));
        let commands = self.in_progress.register(id);
        let execution = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Some(permits) = permits.await {
                execution.execute_claimed(log, run, commands, caller, permits).await;
            }
        });
    }

    /// Cancels all tasks: runs, late spans, series and suite runs.
    pub(super) async fn cancel_all(&self) {
        self.in_progress.interrupt();
        self.tasks.cancel_all().await;
        self.in_progress.unregister_cancelled();
    }

    /// Executes a claimed run, and watches for late spans afterwards.
    async fn execute_claimed(
        self: &Arc<Self>,
        mut log: Log,
        run: StoredRun,
        commands: CommandReceiver,
        caller: Caller,
        permits: Permits,
    ) {
        let span = spans::run(&caller, log.run(), run.test_version, run.trace);
        log.set_span(span.clone());
        let executed = self.execute_until_stopped(&mut log, &run, commands, &span, permits.trigger);
        let ended = executed.instrument(span.clone()).await;
        drop(permits.run);
        self.in_progress.unregister(log.run());
        let judged = match ended {
            Ok(judged) => judged,
            Err(error) => {
                self.fail(&mut log, &error).instrument(span.clone()).await;
                None
            }
        };
        drop(span);
        if let Some(judged) = judged.filter(|judged| judged.has_trace) {
            self.watch_judged(log, judged);
        }
    }

    /// Executes a run until it ends by itself or the user stops it.
    async fn execute_until_stopped(
        &self,
        log: &mut Log,
        run: &StoredRun,
        CommandReceiver { mut command, stop }: CommandReceiver,
        span: &tracing::Span,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Option<JudgedRun>, Error> {
        let skip = command.clone();
        let executed = async {
            match permit {
                Some(permit) => self.execute(log, run, skip, span, permit).await,
                None => self.resume(log, run, skip, span).await,
            }
        };
        let ended = tokio::select! {
            ended = compute::until(stop, Box::pin(executed)) => Some(ended?),
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

    /// Ends a run that failed on our side.
    async fn fail(&self, log: &mut Log, error: &Error) {
        if matches!(error, Error::Lost) {
            tracing::warn!(test = log.run().test, run = log.run().number, "{error}");
            return;
        }
        tracing::error!(error = error as &dyn std::error::Error, "a run broke off");
        let broken = RunEventKind::Broken { message: error.to_string() };
        // The store is probably what failed.
        while let Err(error) = log.end(State::Failed, &broken).await {
            if matches!(error, Error::Lost) {
                return;
            }
            pause_before_end(&error).await;
        }
    }
}

/// A new trace id: the time in seconds, without which older agents of AWS X-Ray drop a trace, and random bytes.
pub(super) fn random_trace_id() -> TraceId {
    let seconds = crate::base::clock::now().as_nanos() / 1_000_000_000;
    let mut bytes: [u8; 16] = rand::random();
    bytes[..4].copy_from_slice(&u32::try_from(seconds).unwrap_or_default().to_be_bytes());
    TraceId::from_bytes(bytes).unwrap_or_else(random_trace_id)
}

fn random_span_id() -> SpanId {
    std::iter::repeat_with(rand::random).find_map(SpanId::from_bytes).unwrap_or_else(random_span_id)
}
