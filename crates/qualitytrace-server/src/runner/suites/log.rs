//! The event log of one suite run.

use std::sync::Arc;

use tracing::Span;

use crate::base::clock;
use crate::base::follow::Followers;
use crate::runner::SuiteRunId;
use crate::runner::retry::{pause_before_end, retry_while_unavailable};
use crate::runner::{Error, spans};
use crate::storage::cluster::Cluster;
use crate::storage::store::{Notification, Store, StoredEvent, unscoped};
use crate::wire::suite::SuiteEventKind;

/// The state of a suite run. The words are part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuiteState {
    /// Requested, not begun.
    Created,
    /// Steps are in progress.
    Executing,
    /// Completed, with whatever verdict.
    Finished,
    /// Not completed.
    Failed,
}

impl SuiteState {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Executing => "EXECUTING",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
        }
    }

    /// Whether this word names a final state.
    pub fn is_final(word: &str) -> bool {
        ![Self::Created, Self::Executing].iter().any(|state| state.as_str() == word)
    }
}

/// Appends events to a suite run and changes its state.
#[derive(Debug)]
pub(super) struct SuiteLog {
    store: Store,
    followers: Arc<Followers<SuiteRunId>>,
    cluster: Arc<Cluster>,
    run: SuiteRunId,
    owner: Arc<str>,
    seq: u64,
    /// The span of the run.
    span: Span,
}

impl SuiteLog {
    pub(super) fn new(
        store: Store,
        followers: Arc<Followers<SuiteRunId>>,
        cluster: Arc<Cluster>,
        run: SuiteRunId,
        owner: Arc<str>,
        seq: u64,
    ) -> Self {
        Self { store, followers, cluster, run, owner, seq, span: Span::none() }
    }

    /// Sets the span of the run, in which its end is recorded.
    pub(super) fn set_span(&mut self, span: Span) {
        self.span = span;
    }

    /// Appends an event and wakes the followers of the run.
    pub(super) async fn append(&mut self, what: SuiteEventKind) -> Result<(), Error> {
        let event = self.next(&what);
        let SuiteRunId { suite, number } = &self.run;
        let events = [event];
        retry_while_unavailable(|| async {
            Ok(self.store.append_suite_events(suite, *number, &self.owner, &events).await?)
        })
        .await?;
        self.wake();
        Ok(())
    }

    /// Appends the first event and begins to execute. `false` when the run belongs to another owner now.
    pub(super) async fn begin(&mut self, planned: SuiteEventKind) -> Result<bool, Error> {
        self.append(planned).await?;
        self.change_state(SuiteState::Created, SuiteState::Executing).await
    }

    /// Moves the run from one state to the next. `false` when it was no longer in `from`.
    pub(super) async fn change_state(&self, from: SuiteState, to: SuiteState) -> Result<bool, Error> {
        let (suite, number) = (&self.run.suite, self.run.number);
        let (from, to) = (from.as_str(), to.as_str());
        let changed = self.store.change_suite_state(suite, number, &self.owner, from, to).await?;
        self.wake();
        Ok(changed)
    }

    /// Writes the last event and the final state, both or none. `false` when the run has ended or belongs to
    /// another owner.
    pub(super) async fn end(&mut self, to: SuiteState, what: SuiteEventKind) -> Result<bool, Error> {
        let event = self.next(&what);
        let SuiteRunId { suite, number } = &self.run;
        let (owner, to) = (&self.owner, to.as_str());
        let ended = retry_while_unavailable(|| async {
            Ok(self.store.end_suite_run(suite, *number, owner, to, &event).await?)
        })
        .await?;
        if let SuiteEventKind::Ended { passed, message } = &what
            && ended
        {
            spans::note_suite_end(&self.span, to, *passed, message.as_deref());
            let suite = unscoped(suite);
            self.span.in_scope(|| {
                tracing::info!(suite, run = number, state = to, passed, message, "the run of a suite ended");
            });
        }
        self.wake();
        Ok(ended)
    }

    /// Ends a run that failed on our side. The store is probably what failed.
    pub(super) async fn fail(&mut self, message: String) {
        let ended = SuiteEventKind::Ended { passed: false, message: Some(message) };
        while let Err(error) = self.end(SuiteState::Failed, ended.clone()).await {
            pause_before_end(&error).await;
        }
    }

    fn next(&mut self, what: &SuiteEventKind) -> StoredEvent {
        self.seq += 1;
        // Plain data with string keys cannot fail to serialize.
        let body = serde_json::to_string(what).unwrap_or_default();
        StoredEvent { seq: self.seq, at: clock::now(), body }
    }

    fn wake(&self) {
        self.followers.wake(std::iter::once(&self.run));
        self.cluster.publish(|| Notification::SuiteRun(self.run.suite.clone(), self.run.number));
    }
}
