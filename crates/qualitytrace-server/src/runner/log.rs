//! The events of one run, written as they happen.

use std::sync::Arc;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::State;

use super::{Error, RunId, Variables};
use crate::clock;
use crate::cluster::Cluster;
use crate::follow::Followers;
use crate::mask::Mask;
use crate::store::{Notice, Store, StoredEvent, Wish};
use crate::wire::What;

/// Writes the events of a run and changes its state, as long as the run is this owner's.
#[derive(Debug)]
pub(super) struct Log {
    store: Store,
    followers: Arc<Followers<RunId>>,
    cluster: Arc<Cluster>,
    run: RunId,
    owner: Arc<str>,
    seq: u64,
    ended: Option<State>,
    /// What is not written down.
    mask: Mask,
}

impl Log {
    /// The log of a run whose last event so far is `seq`.
    pub(super) fn new(
        store: Store,
        followers: Arc<Followers<RunId>>,
        cluster: Arc<Cluster>,
        run: RunId,
        owner: Arc<str>,
        seq: u64,
    ) -> Self {
        Self { store, followers, cluster, run, owner, seq, ended: None, mask: Mask::default() }
    }

    /// From here on, these secrets are not written down.
    pub(super) fn hide(&mut self, mask: Mask) {
        self.mask = mask;
    }

    /// What is not written down.
    pub(super) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Writes down what happened and wakes whoever follows the run.
    pub(super) async fn append(&mut self, what: What) -> Result<(), Error> {
        self.seq += 1;
        let event = StoredEvent { seq: self.seq, at: clock::now(), body: masked(&what, &self.mask) };
        self.store.append_event(&self.run.test, self.run.number, &self.owner, &event).await?;
        if let What::Late { verdict, .. } = &what {
            let (passed, failed) = verdict.counts();
            self.store.count_assertions(&self.run.test, self.run.number, passed, failed).await?;
        }
        self.wake();
        Ok(())
    }

    /// The run that it is about.
    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    /// The state in which the run ended; `None` while it is under way.
    pub(super) fn ended(&self) -> Option<State> {
        self.ended
    }

    /// Moves the run from one state to the next. An error when it is not this owner's any more.
    pub(super) async fn change_state(&self, from: State, to: State) -> Result<(), Error> {
        let RunId { test, number } = &self.run;
        let changed = self.store.change_state(test, *number, &self.owner, from.as_str(), to.as_str()).await?;
        if changed { Ok(()) } else { Err(Error::Lost) }
    }

    /// Notes that the trigger is about to be sent, and answers with what the user wants by now. An error when the run
    /// is not this owner's any more: the trigger must not be sent then.
    pub(super) async fn mark_triggered(&self) -> Result<Option<Wish>, Error> {
        self.store.mark_triggered(&self.run.test, self.run.number, &self.owner).await?.ok_or(Error::Lost)
    }

    /// Writes the last event and the final state, both or none of them: whoever sees one finds the other, even when this
    /// server dies meanwhile. An error when the run is over, or not this owner's any more.
    pub(super) async fn end(&mut self, to: State, what: What) -> Result<(), Error> {
        let RunId { test, number } = &self.run;
        let mut secrets = String::new();
        if let What::Judged { verdict } = &what {
            let (passed, failed) = verdict.counts();
            self.store.count_assertions(test, *number, passed, failed).await?;
            secrets = Variables::secret_outputs(verdict, &self.mask).kept(&self.store, test).await?;
        }
        self.seq += 1;
        let event = StoredEvent { seq: self.seq, at: clock::now(), body: masked(&what, &self.mask) };
        if !self.store.end_run(test, *number, &self.owner, to.as_str(), &event, &secrets).await? {
            return Err(Error::Lost);
        }
        self.ended = Some(to);
        self.wake();
        Ok(())
    }

    /// Ends a run that comes to no verdict.
    pub(super) async fn fail<T>(&mut self, to: State, what: What) -> Result<Option<T>, Error> {
        self.end(to, what).await?;
        Ok(None)
    }

    /// The run turns out to be about another trace than the one made up for it.
    pub(super) async fn set_trace(&self, trace: TraceId) -> Result<(), Error> {
        Ok(self.store.set_trace(&self.run.test, self.run.number, trace).await?)
    }

    fn wake(&self) {
        self.followers.wake(std::iter::once(&self.run));
        self.cluster.tell(|| Notice::Run(self.run.test.clone(), self.run.number));
    }
}

/// An event as the store keeps it.
pub(super) fn body(what: &What) -> String {
    masked(what, &Mask::default())
}

/// The same without secrets.
fn masked(what: &What, mask: &Mask) -> String {
    // Plain data with text keys cannot fail to serialise.
    if mask.is_empty() {
        return serde_json::to_string(what).unwrap_or_default();
    }
    let mut body = serde_json::to_value(what).unwrap_or_default();
    mask.json(&mut body);
    body.to_string()
}
