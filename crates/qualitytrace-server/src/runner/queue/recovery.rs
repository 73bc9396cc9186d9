//! Recovery of runs whose server is gone.

use futures_util::{StreamExt, TryStreamExt, stream};
use qualitytrace_core::run::State;

use super::Queue;
use crate::clock;
use crate::runner::execution::body;
use crate::runner::{Error, RunId};
use crate::store::{Notification, Orphan, StoredEvent};
use crate::wire::RunEventKind;

/// Orphaned runs that are recovered concurrently.
const RECOVERED_AT_ONCE: usize = 8;

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

impl Queue {
    /// Recovers runs whose server is gone: those whose trigger was not sent are queued again, the others are marked
    /// as interrupted, since a trigger must not be sent twice.
    pub(in crate::runner) async fn recover_runs(&self) -> Result<(), Error> {
        let orphans = stream::iter(self.store.orphans().await?);
        let recovered = orphans.map(|orphan| self.recover(orphan)).buffer_unordered(RECOVERED_AT_ONCE);
        let recovered: Vec<Recovered> = recovered.try_collect().await?;
        let count = |what| recovered.iter().filter(|recovered| **recovered == what).count();
        let (requeued, interrupted) = (count(Recovered::Requeued), count(Recovered::Interrupted));
        if requeued > 0 {
            self.wake();
            self.cluster.publish(|| Notification::Queued);
        }
        if requeued + interrupted > 0 {
            tracing::warn!(requeued, interrupted, "found runs in progress on a server that is gone");
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
            StoredEvent { seq: orphan.seq + 1, at: clock::now(), body: body(&RunEventKind::Requeued) };
        let is_done = self.store.requeue(&run.test, run.number, &orphan.owner, &event).await?;
        self.execution.followers().wake(std::iter::once(run));
        Ok(is_done)
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
