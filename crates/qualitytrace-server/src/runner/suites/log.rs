//! The events of one run of a suite, written as they happen.

use std::sync::Arc;

use tracing::Span;

use super::SuiteRunId;
use crate::clock;
use crate::cluster::Cluster;
use crate::follow::Followers;
use crate::runner::patience::patiently;
use crate::runner::{Error, spans};
use crate::store::{Notice, Store, StoredEvent, unscoped};
use crate::wire::suite::What;

/// How far a run of a suite has come. The words are the ones that clients watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuiteState {
    /// Asked for, not begun.
    Created,
    /// Steps are under way.
    Executing,
    /// It came to its end, with whatever verdict.
    Finished,
    /// It did not come to its end.
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

    /// Whether nothing follows after the state of this word.
    pub fn is_final(word: &str) -> bool {
        ![Self::Created, Self::Executing].iter().any(|state| state.as_str() == word)
    }
}

/// Writes the events of a run of a suite and changes its state.
#[derive(Debug)]
pub(super) struct SuiteLog {
    store: Store,
    followers: Arc<Followers<SuiteRunId>>,
    cluster: Arc<Cluster>,
    run: SuiteRunId,
    owner: Arc<str>,
    seq: u64,
    /// What covers the run.
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

    /// Writes the end of the run into the span that covers it, too.
    pub(super) fn cover(&mut self, span: Span) {
        self.span = span;
    }

    /// Writes down what happened and wakes whoever follows the run.
    pub(super) async fn append(&mut self, what: What) -> Result<(), Error> {
        let event = self.next(&what);
        let SuiteRunId { suite, number } = &self.run;
        let events = [event];
        patiently(|| async {
            Ok(self.store.append_suite_events(suite, *number, &self.owner, &events).await?)
        })
        .await?;
        self.wake();
        Ok(())
    }

    /// Moves the run from one state to the next. `false` when it was not in `from` any more.
    pub(super) async fn change_state(&self, from: SuiteState, to: SuiteState) -> Result<bool, Error> {
        let (suite, number) = (&self.run.suite, self.run.number);
        let (from, to) = (from.as_str(), to.as_str());
        let changed = self.store.change_suite_state(suite, number, &self.owner, from, to).await?;
        self.wake();
        Ok(changed)
    }

    /// Writes the last event and the final state, both or none of them. `false` when the run is over, or not this
    /// owner's any more.
    pub(super) async fn end(&mut self, to: SuiteState, what: What) -> Result<bool, Error> {
        let event = self.next(&what);
        let SuiteRunId { suite, number } = &self.run;
        let (owner, to) = (&self.owner, to.as_str());
        let ended =
            patiently(|| async { Ok(self.store.end_suite_run(suite, *number, owner, to, &event).await?) })
                .await?;
        if let What::Ended { passed, message } = &what
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

    fn next(&mut self, what: &What) -> StoredEvent {
        self.seq += 1;
        // Plain data with text keys cannot fail to serialise.
        let body = serde_json::to_string(what).unwrap_or_default();
        StoredEvent { seq: self.seq, at: clock::now(), body }
    }

    fn wake(&self) {
        self.followers.wake(std::iter::once(&self.run));
        self.cluster.tell(|| Notice::SuiteRun(self.run.suite.clone(), self.run.number));
    }
}
