//! Cooperation with the other servers on the same database.
//!
//! Servers publish notifications of what matters to the others; since these may get lost, the tables are polled from
//! time to time. A server that shows no sign of life is given up, and what it had in progress is taken over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::execution::Execution;
use super::queue::{Queue, Successor};
use super::relays::Relays;
use super::suites::Suites;
use super::{Error, RunId, SuiteRunId};
use crate::base::clock;
use crate::receive::source::Source;
use crate::storage::cluster::{BEAT, Cluster, Heartbeat, SAFETY_POLL};
use crate::storage::store::{Listener, Notification, Received, Store, TraceHex};

/// The pause after a database error.
const PAUSE: Duration = Duration::from_secs(1);

/// Receives what other servers publish, passes it on, and takes over from dead servers.
#[derive(Debug)]
pub(super) struct Peers {
    store: Store,
    source: Source,
    cluster: Arc<Cluster>,
    relays: Relays,
    execution: Arc<Execution>,
    queue: Arc<Queue>,
    suites: Arc<Suites>,
}

impl Peers {
    pub(super) fn new(
        store: Store,
        source: Source,
        cluster: Arc<Cluster>,
        execution: Arc<Execution>,
        queue: Arc<Queue>,
        suites: Arc<Suites>,
    ) -> Self {
        let relays = Relays::new(Arc::clone(&cluster), source.clone());
        Self { store, source, cluster, relays, execution, queue, suites }
    }

    /// Receives the notifications of other servers.
    pub(super) async fn receive(self: Arc<Self>, mut listener: Listener) {
        self.catch_up().await;
        loop {
            match listener.receive().await {
                Ok(Received::Notifications(notifications)) => {
                    for notification in notifications {
                        self.handle(notification);
                    }
                }
                Ok(Received::Gap) => self.catch_up().await,
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

    fn handle(&self, notification: Notification) {
        match notification {
            Notification::Joined => self.cluster.joined(),
            Notification::Queued => self.queue.wake(),
            Notification::Run(test, number) => {
                let run = RunId { test, number };
                self.queue.changed_elsewhere(&run);
                self.execution.followers().wake(std::iter::once(&run));
            }
            Notification::RunCommand(test, number, command) => {
                self.execution.command(&RunId { test, number }, command);
            }
            Notification::SuiteRun(suite, number) => {
                self.suites.followers().wake(std::iter::once(&SuiteRunId { suite, number }));
            }
            Notification::StopSuite(suite, number) => self.suites.stop_here(&SuiteRunId { suite, number }),
            Notification::Follows(TraceHex(trace)) => self.relays.begin(trace),
            Notification::Unfollows(TraceHex(trace)) => self.relays.end(trace),
            Notification::Arrived(TraceHex(trace)) => self.source.ingest().changed_elsewhere(Some(trace)),
        }
    }

    /// Reads from the tables what lost notifications may have said.
    async fn catch_up(&self) {
        self.queue.wake();
        self.execution.followers().wake_all();
        self.suites.followers().wake_all();
        self.source.ingest().changed_elsewhere(None);
        let caught_up = async {
            self.queue.repeat_commands().await?;
            self.suites.repeat_commands().await?;
            for trace in self.store.traces_elsewhere(&self.cluster.id()).await? {
                if !self.relays.has(trace) {
                    self.relays.begin(trace);
                }
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = caught_up.await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to catch up with other servers");
        }
    }

    /// Writes heartbeats, and takes over what dead servers left behind.
    pub(super) async fn heartbeat(self: Arc<Self>) {
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
                self.execution.cancel_all().await;
            }
            if (beat != Heartbeat::Well || round.is_multiple_of(every))
                && let Err(error) = self.recover_orphans().await
            {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to take over the runs of another server"
                );
            }
            if round.is_multiple_of(every) {
                // The next round retries.
                let _ = self.queue.repeat_commands().await;
                let _ = self.suites.repeat_commands().await;
            }
        }
    }

    /// Takes over what a dead server had in progress.
    pub(super) async fn recover_orphans(&self) -> Result<(), Error> {
        self.queue.recover_runs(Successor::Here).await?;
        self.execution.resume_watching().await?;
        self.suites.resume_all().await
    }

    /// Leaves the cluster: runs of this server whose trigger was not sent are queued again, those that are not answered
    /// are marked as interrupted.
    pub(super) async fn leave(&self) {
        self.relays.end_all();
        if let Err(error) = self.cluster.leave().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to sign off");
        }
        // Suite runs, and runs that wait for their traces, stay as they are: the next server resumes them.
        if let Err(error) = self.queue.recover_runs(Successor::Elsewhere).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to mark the runs in progress");
        }
        self.cluster.deliver_now().await;
    }
}
