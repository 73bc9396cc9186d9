//! The queue of runs, and cooperation of the servers that share it.
//!
//! A run waits in the store until a server with a free trigger permit claims it. Servers publish notifications of
//! what matters to the others; since these may get lost, the tables are polled from time to time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::State;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;
use tracing::Instrument;

use super::log::{self, Log};
use super::{Error, RunId, Runner, SuiteRunId, lock};
use crate::clock;
use crate::cluster::{BEAT, Cluster, Heartbeat, SAFETY_POLL};
use crate::store::{Claimed, Heard, Listener, Notification, Orphan, RunCommand, StoredEvent, TraceHex};
use crate::wire::RunEventKind;

/// The most runs that one statement claims.
const CLAIMED_AT_ONCE: usize = 16;
/// The pause after a database error.
const PAUSE: Duration = Duration::from_secs(1);
/// Silence after which a trace is no longer watched for another server.
const RELAY_LIFETIME: Duration = Duration::from_mins(10);
/// The most traces that are watched for other servers.
const RELAYS: usize = 100_000;

/// Orphaned runs that are recovered concurrently.
const RECOVERED_AT_ONCE: usize = 8;

/// The permits of a run in progress.
#[derive(Debug)]
pub(super) struct Admission {
    /// The permit to send a trigger, held until the reply.
    pub(super) turn: OwnedSemaphorePermit,
    /// The permit to be in progress, held until the verdict.
    pub(super) wait: OwnedSemaphorePermit,
}

/// What became of an orphaned run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovered {
    /// It is queued again.
    Requeued,
    /// It is marked as interrupted.
    Interrupted,
    /// Another server took it over first.
    Elsewhere,
}

/// The traces that this server watches for others: the number of their followers, and the task that watches.
#[derive(Debug, Default)]
pub(super) struct Relays(Mutex<HashMap<TraceId, (usize, AbortHandle)>>);

impl Relays {
    fn end(&self, trace: TraceId) {
        let mut relays = lock(&self.0);
        let Some((followers, task)) = relays.get_mut(&trace) else { return };
        *followers -= 1;
        if *followers == 0 {
            task.abort();
            relays.remove(&trace);
        }
    }

    pub(super) fn end_all(&self) {
        let mut relays = lock(&self.0);
        relays.values().for_each(|(_, task)| task.abort());
        relays.clear();
    }
}

/// Announces to the other servers that this one waits for a trace, until dropped.
#[derive(Debug)]
pub(super) struct Announced {
    cluster: Arc<Cluster>,
    trace: TraceId,
}

impl Announced {
    pub(super) fn new(cluster: Arc<Cluster>, trace: TraceId) -> Self {
        cluster.publish(|| Notification::Follows(TraceHex(trace)));
        Self { cluster, trace }
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.cluster.publish(|| Notification::Unfollows(TraceHex(self.trace)));
    }
}

impl Runner {
    /// Starts the background tasks: claims runs, and cooperates with other servers where the database is shared.
    pub(super) async fn start_tasks(self: &Arc<Self>) -> Result<(), Error> {
        let listener = self.cluster.listen().await?;
        self.recover_orphans().await?;
        let mut background = lock(&self.background);
        background.spawn(Arc::clone(self).claim());
        background.spawn(Arc::clone(self).sample_traces());
        if let Some(listener) = listener {
            background.spawn(Arc::clone(self).receive(listener));
            background.spawn(Arc::clone(self).heartbeat());
            let cluster = Arc::clone(&self.cluster);
            background.spawn(async move { cluster.deliver().await });
        }
        Ok(())
    }

    /// Stops a run, whatever it is doing, and the series that it is part of. `false` when there was nothing to
    /// stop.
    pub async fn stop(&self, run: &RunId) -> Result<bool, Error> {
        // The series first: it would start the next run.
        let series = self.stop_series(run).await?;
        Ok(self.stop_run(run).await? || series)
    }

    /// Stops a run, whatever it is doing. `false` when it has ended.
    pub(crate) async fn stop_run(&self, run: &RunId) -> Result<bool, Error> {
        self.command(run, RunCommand::Stop).instrument(super::spans::stop()).await
    }

    /// Skips the wait: judges a run with the spans that have arrived. `false` when it has ended.
    pub async fn skip_waiting(&self, run: &RunId) -> Result<bool, Error> {
        self.command(run, RunCommand::Skip).await
    }

    async fn command(&self, run: &RunId, command: RunCommand) -> Result<bool, Error> {
        // A run is claimed only once: if that happens between two attempts, the second one finds the owner.
        for _ in 0..2 {
            let Some(owner) = self.store.put_command(&run.test, run.number, command).await? else {
                return Ok(false);
            };
            if !owner.is_empty() {
                self.in_progress.send(run, command);
                self.cluster.publish(|| Notification::RunCommand(run.test.clone(), run.number, command));
                return Ok(true);
            }
            if command == RunCommand::Skip || self.stop_waiting(run).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stops a queued run. `false` when it is no longer queued.
    async fn stop_waiting(&self, run: &RunId) -> Result<bool, Error> {
        let me = self.cluster.id();
        let (waiting, taken) = (("", State::Created), (&*me, State::Executing));
        if !self.store.take_run(&run.test, run.number, waiting, taken).await? {
            return Ok(false);
        }
        let seq = self.store.events(&run.test, run.number, 0).await?.last().map_or(0, |event| event.seq);
        match self.log(run, me, seq).end(State::Stopped, &RunEventKind::Stopped).await {
            // It was deleted meanwhile: there is nothing left to stop.
            Ok(()) | Err(Error::Lost) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Claims runs whenever permits are free and runs are queued.
    async fn claim(self: Arc<Self>) {
        loop {
            let Some(admissions) = self.admit().await else { return };
            self.adjust_clock();
            let owner = self.cluster.id();
            match self.store.claim_runs(&owner, admissions.len()).await {
                Ok(claimed) => {
                    let is_drained = claimed.len() < admissions.len();
                    for (claimed, admission) in claimed.into_iter().zip(admissions) {
                        self.begin_run(claimed, &owner, admission);
                    }
                    if !is_drained {
                        continue;
                    }
                }
                Err(error) => {
                    drop(admissions);
                    tracing::warn!(error = &error as &dyn std::error::Error, "failed to claim runs");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            }
            // Poll even without a notification.
            let _ = tokio::time::timeout(self.cluster.safety_poll(), self.queued.notified()).await;
        }
    }

    /// Waits for permits, and takes as many as are free. `None` only if the semaphores were closed, which never
    /// happens.
    async fn admit(&self) -> Option<Vec<Admission>> {
        let wait = self.run_permits.take().await?;
        let mut admissions = vec![Admission { turn: self.trigger_permits.take().await?, wait }];
        let further =
            || Some(Admission { turn: self.trigger_permits.try_take()?, wait: self.run_permits.try_take()? });
        admissions.extend(std::iter::from_fn(further).take(CLAIMED_AT_ONCE - 1));
        Some(admissions)
    }

    /// Wakes the claiming task, and the other servers when no permit is free here.
    pub(super) fn queued(&self) {
        self.queued.notify_one();
        if !(self.trigger_permits.has_free() && self.run_permits.has_free()) {
            self.cluster.publish(|| Notification::Queued);
        }
    }

    fn begin_run(self: &Arc<Self>, claimed: Claimed, owner: &Arc<str>, admission: Admission) {
        let Claimed { run, seq } = claimed;
        let id = RunId { test: run.test.clone(), number: run.number };
        let caller = lock(&self.callers).remove(&run.trace).unwrap_or_default();
        let log = self.log(&id, Arc::clone(owner), seq).about(run.trace);
        let commands = self.in_progress.register(id);
        let runner = Arc::clone(self);
        self.spawn(async move { runner.execute_claimed(log, run, commands, caller, admission).await });
    }

    /// Receives the notifications of other servers.
    async fn receive(self: Arc<Self>, mut listener: Listener) {
        self.catch_up().await;
        loop {
            match listener.receive().await {
                Ok(Heard::Notifications(notifications)) => {
                    for notification in notifications {
                        self.handle(notification);
                    }
                }
                Ok(Heard::Gap) => self.catch_up().await,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "notifications of other servers cannot be received; retrying"
                    );
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn handle(self: &Arc<Self>, notification: Notification) {
        match notification {
            Notification::Joined => self.cluster.joined(),
            Notification::Queued => self.queued.notify_one(),
            Notification::Run(test, number) => self.followers.wake([RunId { test, number }].iter()),
            Notification::RunCommand(test, number, command) => {
                self.in_progress.send(&RunId { test, number }, command)
            }
            Notification::SuiteRun(suite, number) => self.suites.changed(&SuiteRunId { suite, number }),
            Notification::StopSuite(suite, number) => self.suites.stop(&SuiteRunId { suite, number }),
            Notification::Follows(TraceHex(trace)) => self.relay(trace),
            Notification::Unfollows(TraceHex(trace)) => self.relays.end(trace),
            Notification::Arrived(TraceHex(trace)) => self.source.ingest().changed_elsewhere(Some(trace)),
        }
    }

    /// Reads from the tables what lost notifications may have said.
    async fn catch_up(self: &Arc<Self>) {
        self.queued.notify_one();
        self.followers.wake_all();
        self.suites.anything_changed();
        self.source.ingest().changed_elsewhere(None);
        let caught_up = async {
            let id = self.cluster.id();
            for (test, number, command) in self.store.commands(&id).await? {
                self.in_progress.send(&RunId { test, number }, command);
            }
            self.stop_suites_on_command().await?;
            for trace in self.store.traces_elsewhere(&id).await? {
                if !lock(&self.relays.0).contains_key(&trace) {
                    self.relay(trace);
                }
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = caught_up.await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to catch up with other servers");
        }
    }

    /// Notifies the other servers whenever spans of this trace arrive here.
    fn relay(self: &Arc<Self>, trace: TraceId) {
        let mut relays = lock(&self.relays.0);
        if let Some((followers, task)) = relays.get_mut(&trace)
            && !task.is_finished()
        {
            *followers += 1;
            // Spans may have arrived before the other server subscribed.
            self.cluster.publish(|| Notification::Arrived(TraceHex(trace)));
            return;
        }
        if relays.len() >= RELAYS {
            relays.retain(|_, (_, task)| !task.is_finished());
            if relays.len() >= RELAYS {
                return;
            }
        }
        let (cluster, mut changes) = (Arc::clone(&self.cluster), self.source.ingest().relay(trace));
        let task = tokio::spawn(async move {
            loop {
                cluster.publish(|| Notification::Arrived(TraceHex(trace)));
                let changed = tokio::time::timeout(RELAY_LIFETIME, changes.changed()).await;
                if !changed.is_ok_and(|changed| changed.is_ok()) {
                    return;
                }
            }
        });
        relays.insert(trace, (1, task.abort_handle()));
    }

    /// Writes heartbeats, and takes over what dead servers left behind.
    async fn heartbeat(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(BEAT);
        // After a freeze, this server must not take all others for dead.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let every = SAFETY_POLL.as_secs() / BEAT.as_secs();
        for round in 0_u64.. {
            ticks.tick().await;
            let now = clock::now();
            let beat = match self.cluster.heartbeat(now.since(self.source.ingest().horizon(now))).await {
                Ok(beat) => beat,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "failed to show a sign of life");
                    continue;
                }
            };
            if beat == Heartbeat::GivenUp {
                tracing::error!("other servers have given this one up: its runs are theirs now");
                self.end_tasks().await;
            }
            if beat != Heartbeat::Well || round.is_multiple_of(every) {
                self.recover_orphans_or_warn().await;
            }
            if round.is_multiple_of(every) {
                let commands = self.store.commands(&self.cluster.id()).await.unwrap_or_default();
                for (test, number, command) in commands {
                    self.in_progress.send(&RunId { test, number }, command);
                }
                // The next round retries.
                let _ = self.stop_suites_on_command().await;
            }
        }
    }

    async fn recover_orphans_or_warn(self: &Arc<Self>) {
        if let Err(error) = self.recover_orphans().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to take over the runs of another server"
            );
        }
    }

    /// Takes over what a dead server had in progress.
    async fn recover_orphans(self: &Arc<Self>) -> Result<(), Error> {
        self.recover_runs().await?;
        self.resume_watching().await?;
        self.resume_suites().await
    }

    /// Settles runs whose server is gone: those whose trigger was not sent are queued again, the others are marked
    /// as interrupted, since a trigger must not be sent twice.
    pub(super) async fn recover_runs(&self) -> Result<(), Error> {
        let orphans = stream::iter(self.store.orphans().await?);
        let recovered = orphans.map(|orphan| self.recover(orphan)).buffer_unordered(RECOVERED_AT_ONCE);
        let recovered: Vec<Recovered> = recovered.try_collect().await?;
        let count = |what| recovered.iter().filter(|recovered| **recovered == what).count();
        let (requeued, interrupted) = (count(Recovered::Requeued), count(Recovered::Interrupted));
        if requeued > 0 {
            self.queued.notify_one();
            self.cluster.publish(|| Notification::Queued);
        }
        if requeued + interrupted > 0 {
            tracing::warn!(requeued, interrupted, "found runs in progress on a server that is gone");
        }
        Ok(())
    }

    async fn recover(&self, orphan: Orphan) -> Result<Recovered, Error> {
        let run = RunId { test: orphan.run.test.clone(), number: orphan.run.number };
        if !orphan.triggered && self.requeue(&run, &orphan).await? {
            return Ok(Recovered::Requeued);
        }
        let interrupted = self.interrupt(&run, &orphan).await?;
        Ok(if interrupted { Recovered::Interrupted } else { Recovered::Elsewhere })
    }

    async fn requeue(&self, run: &RunId, orphan: &Orphan) -> Result<bool, Error> {
        let event =
            StoredEvent { seq: orphan.seq + 1, at: clock::now(), body: log::body(&RunEventKind::Requeued) };
        let is_done = self.store.requeue(&run.test, run.number, &orphan.owner, &event).await?;
        self.followers.wake(std::iter::once(run));
        Ok(is_done)
    }

    async fn interrupt(&self, run: &RunId, orphan: &Orphan) -> Result<bool, Error> {
        let Some(state) = State::named(&orphan.run.state) else { return Ok(false) };
        let me = self.cluster.id();
        let (before, after) = ((&*orphan.owner, state), (&*me, state));
        if !self.store.take_run(&run.test, run.number, before, after).await? {
            return Ok(false);
        }
        let mut log: Log = self.log(run, me, orphan.seq).about(orphan.run.trace);
        log.end(State::Failed, &RunEventKind::Interrupted).await?;
        Ok(true)
    }
}
