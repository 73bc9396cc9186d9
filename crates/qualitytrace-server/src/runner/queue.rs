//! The queue of runs.
//!
//! A run waits in the store until a server with free permits claims it. Which server that is does not matter to its
//! user: commands find the run by its owner, and runs of a dead server are recovered.

mod callers;
mod recovery;

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::State;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tracing::Instrument;

use self::callers::Callers;
pub(super) use self::recovery::Successor;
use super::execution::{self, Execution, Permits, body, random_trace_id};
use super::{Error, RunId, SuiteRunId, spans};
use crate::base::clock;
use crate::base::limits::Limits;
use crate::base::semaphore::ResizableSemaphore;
use crate::http::client::Client;
use crate::observability::Caller;
use crate::storage::cluster::Cluster;
use crate::storage::store::{NewRun, Notification, RunCommand, StepOf, Store, StoredTest};
use crate::storage::variables::Variables;
use crate::wire::RunEventKind;

/// The most runs that one statement claims.
const CLAIMED_AT_ONCE: usize = 16;
/// The pause after a database error.
const PAUSE: Duration = Duration::from_secs(1);

/// Enqueues runs, and claims queued ones for execution on this server.
#[derive(Debug)]
pub(super) struct Queue {
    execution: Arc<Execution>,
    store: Store,
    cluster: Arc<Cluster>,
    /// One permit for each trigger in progress.
    trigger_permits: ResizableSemaphore,
    /// One permit for each run in progress. A run that only waits for spans holds no other.
    run_permits: Arc<ResizableSemaphore>,
    /// Wakes the task that claims runs.
    queued: Notify,
    callers: Callers,
    clock: Arc<ClockHold>,
}

/// Keeps the clock from being adjusted while work outside the queue relies on it.
#[derive(Debug)]
pub(super) struct ClockHold;

impl Queue {
    pub(super) fn new(
        execution: Arc<Execution>,
        store: Store,
        cluster: Arc<Cluster>,
        limits: &Limits,
    ) -> Self {
        Self {
            execution,
            store,
            cluster,
            trigger_permits: ResizableSemaphore::new(limits.concurrent_runs),
            run_permits: Arc::new(ResizableSemaphore::new(limits.waiting_runs)),
            queued: Notify::new(),
            callers: Callers::default(),
            clock: Arc::new(ClockHold),
        }
    }

    /// Applies changed limits.
    pub(super) fn reconfigured(&self, limits: &Limits) {
        self.trigger_permits.resize(limits.concurrent_runs);
        self.run_permits.resize(limits.waiting_runs);
    }

    /// The number of runs requested here that are queued, and the number in progress.
    pub(super) fn unfinished(&self) -> (usize, usize) {
        (self.callers.count(), self.execution.count())
    }

    /// Follows the clock of the machine, unless something in progress would notice the jump.
    pub(super) fn adjust_clock(&self) {
        if self.unfinished() == (0, 0) && Arc::strong_count(&self.clock) == 1 {
            clock::adjust();
        }
    }

    /// Keeps the clock from being adjusted until the result is dropped.
    pub(super) fn hold_clock(&self) -> Arc<ClockHold> {
        Arc::clone(&self.clock)
    }

    /// Enqueues a new run with the rest of its request as JSON, to be shown with the run, and the suite run that it
    /// is a step of. Also returns the trace that it is to cause.
    pub(super) async fn enqueue(
        &self,
        test: &StoredTest,
        variables: Variables,
        request: String,
        step_of: Option<&SuiteRunId>,
    ) -> Result<(RunId, TraceId), Error> {
        self.adjust_clock();
        // A definition that cannot be read fails its run, which says so.
        let trigger = execution::read(test).ok().and_then(|test| test.trigger);
        let variables = variables.with_credentials_of(trigger.as_ref());
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
            step_of: step_of.map(|run| StepOf {
                suite: run.suite.clone(),
                number: run.number,
                owner: self.cluster.id().to_string(),
            }),
            event: body(&RunEventKind::Created),
        };
        // Remembered before the run becomes visible: it may begin at once.
        let starting = self.callers.starting(new.trace, Caller::current());
        let run = self.execution.insert(&new).await?;
        starting.queued(run.clone());
        self.wake();
        // No server is needed elsewhere while permits are free here.
        if !(self.trigger_permits.has_free() && self.run_permits.has_free()) {
            self.cluster.publish(|| Notification::Queued);
        }
        Ok((run, new.trace))
    }

    /// Waits at most so long for the permit to send a trigger outside of a run.
    pub(super) async fn trigger_permit(&self, longest: Duration) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(longest, self.trigger_permits.take()).await.ok().flatten()
    }

    /// Wakes the task that claims runs.
    pub(super) fn wake(&self) {
        self.queued.notify_one();
    }

    /// Notes that another server has changed a run: it is not queued here any more.
    pub(super) fn changed_elsewhere(&self, run: &RunId) {
        self.callers.forget(run);
    }

    /// Stops a run, whatever it is doing. `false` when it has ended.
    pub(super) async fn stop(&self, run: &RunId) -> Result<bool, Error> {
        self.command(run, RunCommand::Stop).instrument(spans::stop()).await
    }

    /// Gives a command to a run, on whichever server. `false` when it has ended.
    pub(super) async fn command(&self, run: &RunId, command: RunCommand) -> Result<bool, Error> {
        // A run is claimed only once: if that happens between two attempts, the second one finds the owner.
        for _ in 0..2 {
            let Some(owner) = self.store.put_command(&run.test, run.number, command).await? else {
                return Ok(false);
            };
            if !owner.is_empty() {
                self.execution.command(run, command);
                self.cluster.publish(|| Notification::RunCommand(run.test.clone(), run.number, command));
                return Ok(true);
            }
            if command == RunCommand::Skip || self.stop_queued(run).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stops a queued run. `false` when it is no longer queued.
    async fn stop_queued(&self, run: &RunId) -> Result<bool, Error> {
        let seq = self.store.events(&run.test, run.number, 0).await?.last().map_or(0, |event| event.seq);
        // Its state and its last event are one write: a run that was taken first would have no task if that failed.
        let no_owner = Arc::from("");
        match self.execution.log(run, no_owner, seq).end(State::Stopped, &RunEventKind::Stopped).await {
            Ok(()) => {
                self.callers.forget(run);
                Ok(true)
            }
            Err(Error::Lost) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives the stored commands to the runs in progress here, in case a notification was lost.
    pub(super) async fn repeat_commands(&self) -> Result<(), Error> {
        for (test, number, command) in self.store.commands(&self.cluster.id()).await? {
            self.execution.command(&RunId { test, number }, command);
        }
        Ok(())
    }

    /// Claims runs whenever permits are free and runs are queued.
    pub(super) async fn claim(self: Arc<Self>) {
        let mut has_unknown_claims = false;
        loop {
            let Some(permits) = self.permits().await else { return };
            self.adjust_clock();
            let (owner, position) = (self.cluster.id(), self.callers.position());
            if has_unknown_claims {
                let returned = self.return_lost_claims(&owner).await;
                has_unknown_claims = returned.is_err();
                if let Err(error) = returned {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to return claims that were not answered"
                    );
                }
            }
            match self.store.claim_runs(&owner, permits.len()).await {
                Ok(claimed) => {
                    let is_drained = claimed.len() < permits.len();
                    for (claimed, permits) in claimed.into_iter().zip(permits) {
                        let run = RunId { test: claimed.run.test.clone(), number: claimed.run.number };
                        let caller = self.callers.take(&run, claimed.run.trace);
                        self.execution.start(claimed, &owner, caller, permits);
                    }
                    if !is_drained {
                        continue;
                    }
                }
                Err(error) => {
                    drop(permits);
                    has_unknown_claims = true;
                    tracing::warn!(error = &error as &dyn std::error::Error, "failed to claim runs");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            }
            self.forget_callers(position).await;
            // Poll even without a notification.
            let _ = tokio::time::timeout(self.cluster.safety_poll(), self.queued.notified()).await;
        }
    }

    /// Waits for permits, and takes as many as are free. `None` only if the semaphores were closed, which never
    /// happens.
    async fn permits(&self) -> Option<Vec<Permits>> {
        let run = self.run_permits.take().await?;
        let mut permits = vec![Permits { trigger: Some(self.trigger_permits.take().await?), run }];
        let further = || {
            let trigger = Some(self.trigger_permits.try_take()?);
            Some(Permits { trigger, run: self.run_permits.try_take()? })
        };
        permits.extend(std::iter::from_fn(further).take(CLAIMED_AT_ONCE - 1));
        Some(permits)
    }

    /// Forgets the callers of runs that are no longer queued: another server claimed them, or they were deleted.
    /// Runs enqueued after `position` are left alone.
    async fn forget_callers(&self, position: u64) {
        if !self.callers.has_before(position) {
            return;
        }
        match self.store.queued_runs().await {
            Ok(queued) => {
                let queued = queued.into_iter().map(|(test, number)| RunId { test, number }).collect();
                self.callers.retain(position, &queued);
            }
            // The next round retries.
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "failed to read the queue");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use qualitytrace_core::definition::{Format, Kind};
    use qualitytrace_core::wait::Policy;
    use qualitytrace_telemetry::Telemetry;

    use super::*;
    use crate::observability::Recorder;
    use crate::receive::ingest::Ingest;
    use crate::receive::source::Source;
    use crate::runner::Runner;
    use crate::storage::store::{Mode, NewDefinition};

    /// A runner without permits: what is enqueued stays queued.
    async fn runner(store: &Store) -> Arc<Runner> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let limits = Limits { waiting_runs: 0, ..Limits::default() };
        let (ingest, _) = Ingest::start(store.clone(), limits.clone()).await.unwrap();
        let telemetry = Telemetry::start(qualitytrace_telemetry::config::Config::new("test")).unwrap();
        let recorder = Recorder::new(telemetry, limits.clone());
        let source = Source::new(store.clone(), ingest);
        Runner::begin(store.clone(), source, Policy::default(), limits, recorder).await.unwrap()
    }

    async fn test(store: &Store) -> StoredTest {
        let definition = r#"{"spec":{"id":"t","name":"T"}}"#;
        let new = NewDefinition {
            kind: Kind::Test,
            id: "t".to_owned(),
            tenant: "",
            name: "T".to_owned(),
            description: String::new(),
            sort_kind: String::new(),
            format: Format::Json,
            text: definition,
            spec: definition.to_owned(),
        };
        store.put(&new, Mode::Upsert, clock::now()).await.unwrap();
        store.test("t", None).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn runs_that_left_the_queue_are_not_counted_as_queued() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let (runner, test) = (runner(&store).await, test(&store).await);
        let stopped = runner.start(&test, Variables::default()).await.unwrap();
        for _ in 0..2 {
            runner.start(&test, Variables::default()).await.unwrap();
        }
        assert_eq!(runner.unfinished(), (3, 0));
        assert!(runner.stop(&stopped).await.unwrap());
        assert_eq!(runner.unfinished(), (2, 0), "one was stopped");

        let queue = &runner.queue;
        queue.forget_callers(queue.callers.position()).await;
        assert_eq!(runner.unfinished(), (2, 0), "both are queued");
        assert_eq!(store.claim_runs("another server", 1).await.unwrap().len(), 1);
        queue.forget_callers(queue.callers.position()).await;
        assert_eq!(runner.unfinished(), (1, 0), "one was claimed elsewhere");
        runner.shutdown().await;
    }

    #[tokio::test]
    async fn a_run_that_is_refused_is_not_counted() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let (runner, test) = (runner(&store).await, test(&store).await);
        let gone = StoredTest { id: "gone".to_owned(), ..test };
        runner.start(&gone, Variables::default()).await.unwrap_err();
        assert_eq!(runner.unfinished(), (0, 0));
        runner.shutdown().await;
    }
}
