//! Recovery of runs whose server is gone.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use qualitytrace_core::run::State;

use super::Queue;
use crate::base::clock;
use crate::runner::execution::body;
use crate::runner::{Error, RunId};
use crate::storage::store::{Claimed, Notification, Orphan, StoredEvent};
use crate::wire::RunEventKind;

/// Orphaned runs that are recovered concurrently.
const RECOVERED_AT_ONCE: usize = 8;

/// What became of an orphaned run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    /// It is queued again.
    Requeued,
    /// The wait for its trace goes on here.
    Resumed,
    /// It is marked as interrupted.
    Interrupted,
    /// It is left to another server, or another server took it over first.
    Elsewhere,
}

/// Where runs go on that wait for their traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum Successor {
    /// On this server.
    Here,
    /// On the next server: this one is about to end.
    Elsewhere,
}

impl Queue {
    /// Recovers runs whose server is gone: those whose trigger was not sent are queued again, those whose trigger was
    /// answered go on waiting, and the others are marked as interrupted, since a trigger must not be sent twice.
    pub(in crate::runner) async fn recover_runs(&self, successor: Successor) -> Result<(), Error> {
        let orphans = stream::iter(self.store.orphans().await?);
        let recovered =
            orphans.map(|orphan| self.recover(orphan, successor)).buffer_unordered(RECOVERED_AT_ONCE);
        let recovered: Vec<Recovery> = recovered.try_collect().await?;
        let count = |what| recovered.iter().filter(|recovered| **recovered == what).count();
        let (requeued, resumed) = (count(Recovery::Requeued), count(Recovery::Resumed));
        let interrupted = count(Recovery::Interrupted);
        if requeued > 0 {
            self.wake();
            self.cluster.publish(|| Notification::Queued);
        }
        if resumed > 0 {
            // A command that its server had not carried out.
            self.repeat_commands().await?;
        }
        if requeued + resumed + interrupted > 0 {
            tracing::warn!(requeued, resumed, interrupted, "found runs in progress on a server that is gone");
        }
        Ok(())
    }

    /// Queues runs again that this server claimed without learning so, because the answer of the database was lost.
    pub(super) async fn return_lost_claims(&self, owner: &str) -> Result<(), Error> {
        for orphan in self.store.unsent(owner).await? {
            let run = RunId { test: orphan.run.test.clone(), number: orphan.run.number };
            if !self.execution.runs_of(&run.test).contains(&run) {
                self.requeue(&run, &orphan).await?;
            }
        }
        Ok(())
    }

    async fn recover(&self, orphan: Orphan, successor: Successor) -> Result<Recovery, Error> {
        let run = RunId { test: orphan.run.test.clone(), number: orphan.run.number };
        if !orphan.triggered && self.requeue(&run, &orphan).await? {
            return Ok(Recovery::Requeued);
        }
        if orphan.run.state == State::AwaitingTrace.as_str() {
            let resumed = successor == Successor::Here && self.resume(&run, orphan).await?;
            return Ok(if resumed { Recovery::Resumed } else { Recovery::Elsewhere });
        }
        let interrupted = self.interrupt(&run, &orphan).await?;
        Ok(if interrupted { Recovery::Interrupted } else { Recovery::Elsewhere })
    }

    async fn requeue(&self, run: &RunId, orphan: &Orphan) -> Result<bool, Error> {
        let event =
            StoredEvent { seq: orphan.seq + 1, at: clock::now(), body: body(&RunEventKind::Requeued) };
        let is_done = self.store.requeue(&run.test, run.number, &orphan.owner, &event).await?;
        self.execution.followers().wake(std::iter::once(run));
        Ok(is_done)
    }

    /// Goes on with a run whose trigger was answered, when a permit is free.
    async fn resume(&self, run: &RunId, orphan: Orphan) -> Result<bool, Error> {
        let (me, state) = (self.cluster.id(), State::AwaitingTrace);
        let (before, after) = ((&*orphan.owner, state), (&*me, state));
        if !self.store.take_run(&run.test, run.number, before, after).await? {
            return Ok(false);
        }
        let permits = Arc::clone(&self.run_permits);
        let claimed = Claimed { run: orphan.run, seq: orphan.seq };
        self.execution.start_resumed(claimed, &me, async move { permits.take().await });
        Ok(true)
    }

    async fn interrupt(&self, run: &RunId, orphan: &Orphan) -> Result<bool, Error> {
        let Some(state) = State::named(&orphan.run.state) else { return Ok(false) };
        let me = self.cluster.id();
        let (before, after) = ((&*orphan.owner, state), (&*me, state));
        if !self.store.take_run(&run.test, run.number, before, after).await? {
            return Ok(false);
        }
        let mut log = self.execution.log(run, me, orphan.seq).with_trace(orphan.run.trace);
        log.end(State::Failed, &RunEventKind::Interrupted).await?;
        Ok(true)
    }
}
