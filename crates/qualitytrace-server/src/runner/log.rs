//! The events of one run, written as they happen.

use std::sync::Arc;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::State;
use tracing::Span;

use super::judging::secret_outputs;
use super::patience::patiently;
use super::{Error, RunId, spans};
use crate::clock;
use crate::cluster::Cluster;
use crate::follow::Followers;
use crate::mask::Mask;
use crate::store::{self, Notice, Store, StoredEvent, Wish, unscoped};
use crate::watch::{RunEnd, Watch};
use crate::wire::{Outcome, Verdict, What};

/// Writes the events of a run and changes its state, as long as the run is this owner's.
#[derive(Debug)]
pub(super) struct Log {
    store: Store,
    followers: Arc<Followers<RunId>>,
    cluster: Arc<Cluster>,
    run: RunId,
    owner: Arc<str>,
    seq: u64,
    /// What happened and is not written down yet.
    noted: Vec<StoredEvent>,
    /// The trace that the run is about, if it has one by now.
    trace: Option<TraceId>,
    watch: Watch,
    /// What covers the run, as long as it is under way.
    span: Span,
    /// What is not written down.
    mask: Mask,
}

impl Log {
    /// The log of a run whose last event so far is `seq`.
    pub(super) fn new(
        store: Store,
        followers: Arc<Followers<RunId>>,
        cluster: Arc<Cluster>,
        watch: Watch,
        run: RunId,
        owner: Arc<str>,
        seq: u64,
    ) -> Self {
        Self {
            store,
            followers,
            cluster,
            run,
            owner,
            seq,
            noted: Vec::new(),
            trace: None,
            watch,
            span: Span::none(),
            mask: Mask::default(),
        }
    }

    /// The run is about this trace.
    pub(super) fn about(mut self, trace: TraceId) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Writes the end of the run into the span that covers it, too.
    pub(super) fn cover(&mut self, span: Span) {
        self.span = span;
    }

    /// From here on, these secrets are not written down.
    pub(super) fn hide(&mut self, mask: Mask) {
        self.mask = mask;
    }

    /// What is not written down.
    pub(super) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Takes down what happened, to be written together with what follows at once.
    pub(super) fn note(&mut self, what: &What) {
        self.seq += 1;
        self.noted.push(StoredEvent { seq: self.seq, at: clock::now(), body: masked(what, &self.mask) });
    }

    /// Writes what was noted and wakes whoever follows the run.
    pub(super) async fn write(&mut self) -> Result<(), Error> {
        if self.noted.is_empty() {
            return Ok(());
        }
        let events = std::mem::take(&mut self.noted);
        let RunId { test, number } = &self.run;
        patiently(|| async { Ok(self.store.append_events(test, *number, &self.owner, &events).await?) })
            .await?;
        self.wake();
        Ok(())
    }

    /// Writes what happened.
    pub(super) async fn append(&mut self, what: &What) -> Result<(), Error> {
        self.note(what);
        self.write().await
    }

    /// Writes that late spans changed the verdict.
    pub(super) async fn correct(
        &mut self,
        spans: usize,
        before: Outcome,
        verdict: Verdict,
    ) -> Result<(), Error> {
        let (passed, failed) = verdict.counts();
        let outcome = verdict.outcome;
        self.append(&What::Late { spans, before, verdict }).await?;
        self.run_end(State::Finished, Some(outcome), None).log_correction(before);
        let RunId { test, number } = &self.run;
        patiently(|| async { Ok(self.store.count_assertions(test, *number, passed, failed).await?) }).await
    }

    /// The run that it is about.
    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    /// Moves the run from one state to the next. An error when it is not this owner's any more.
    pub(super) async fn change_state(&self, from: State, to: State) -> Result<(), Error> {
        let RunId { test, number } = &self.run;
        patiently(|| async {
            let (from, to) = (from.as_str(), to.as_str());
            let changed = self.store.change_state(test, *number, &self.owner, from, to).await?;
            if changed || self.is_in(to).await? { Ok(()) } else { Err(Error::Lost) }
        })
        .await
    }

    /// Whether the run is in this state already: what was asked was done, and only the answer got lost.
    async fn is_in(&self, state: &str) -> Result<bool, Error> {
        let run = self.store.run(&self.run.test, self.run.number).await?;
        Ok(run.is_some_and(|run| run.state == state))
    }

    /// Notes that the trigger is about to be sent, and answers with what the user wants by now. An error when the run
    /// is not this owner's any more: the trigger must not be sent then.
    pub(super) async fn mark_triggered(&self) -> Result<Option<Wish>, Error> {
        let RunId { test, number } = &self.run;
        patiently(|| async {
            let marked = self.store.mark_triggered(test, *number, &self.owner).await?;
            match marked {
                Some(wish) => Ok(wish),
                // Done although nobody said so: this log marks its run once. Wishes are told again.
                None if self.store.is_triggered(test, *number, &self.owner).await? => Ok(None),
                None => Err(Error::Lost),
            }
        })
        .await
    }

    /// Writes the last event and the final state, both or none of them: whoever sees one finds the other, even when this
    /// server dies meanwhile. An error when the run is over, or not this owner's any more.
    pub(super) async fn end(&mut self, state: State, what: &What) -> Result<(), Error> {
        let RunId { test, number } = &self.run;
        let (mut counts, mut secrets) = ((0, 0), String::new());
        if let What::Judged { verdict } = what {
            counts = verdict.counts();
            let outputs = secret_outputs(verdict, &self.mask);
            secrets = patiently(|| async { Ok(outputs.kept(&self.store, test).await?) }).await?;
        }
        let (test, number) = (test.clone(), *number);
        self.note(what);
        let events = std::mem::take(&mut self.noted);
        let end = store::RunEnd { state: state.as_str(), counts, secrets, events };
        patiently(|| async {
            let ended = self.store.end_run(&test, number, &self.owner, &end).await?;
            if ended || self.is_in(end.state).await? { Ok(()) } else { Err(Error::Lost) }
        })
        .await?;
        let outcome = if let What::Judged { verdict } = what { Some(verdict.outcome) } else { None };
        let failure = what.failure().map(|message| self.mask.text(message).into_owned());
        // The span must not stay open while somebody looks for late spans.
        let span = std::mem::replace(&mut self.span, Span::none());
        let end = self.run_end(state, outcome, failure.as_deref());
        spans::note_end(&span, &end);
        span.in_scope(|| self.watch.run_ended(&end));
        self.wake();
        Ok(())
    }

    fn run_end<'r>(&'r self, state: State, outcome: Option<Outcome>, failure: Option<&'r str>) -> RunEnd<'r> {
        let RunId { test, number } = &self.run;
        RunEnd { test: unscoped(test), number: *number, trace: self.trace, state, outcome, failure }
    }

    /// Ends a run that comes to no verdict.
    pub(super) async fn fail<T>(&mut self, state: State, what: &What) -> Result<Option<T>, Error> {
        self.end(state, what).await?;
        Ok(None)
    }

    /// The run turns out to be about another trace than the one made up for it.
    pub(super) async fn set_trace(&mut self, trace: TraceId) -> Result<(), Error> {
        self.trace = Some(trace);
        let RunId { test, number } = &self.run;
        patiently(|| async { Ok(self.store.set_trace(test, *number, trace).await?) }).await
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
