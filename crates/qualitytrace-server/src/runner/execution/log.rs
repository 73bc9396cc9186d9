//! The event log of one run.

use std::sync::Arc;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::State;
use tracing::Span;

use super::forecasts::Forecasts;
use super::judging::secret_outputs;
use crate::base::clock;
use crate::base::follow::Followers;
use crate::base::redact::Redactor;
use crate::observability::{Recorder, RunEnd};
use crate::runner::retry::retry_while_unavailable;
use crate::runner::{Error, RunId, spans};
use crate::storage::cluster::Cluster;
use crate::storage::store::{
    self, Notification, RunCommand, RunResult, Store, StoredEvent, StoredRun, unscoped,
};
use crate::storage::variables::Variables;
use crate::wire::fold::{AnalyzerGates, ended};
use crate::wire::owed::WaitStatus;
use crate::wire::request::RunRequest;
use crate::wire::run::Linter;
use crate::wire::{Outcome, RunEventKind, Verdict, series};

/// The name under which a run in progress keeps an event that is stored redacted. Outputs replace it.
const UNREDACTED: &str = "event";

/// Appends events to a run and changes its state, as long as the run belongs to this owner.
#[derive(Debug)]
pub(in crate::runner) struct Log {
    store: Store,
    followers: Arc<Followers<RunId>>,
    cluster: Arc<Cluster>,
    run: RunId,
    owner: Arc<str>,
    seq: u64,
    /// Events that are not written yet.
    buffered: Vec<StoredEvent>,
    /// The trace of the run, if known.
    trace: Option<TraceId>,
    recorder: Recorder,
    /// The span of the run, while it is in progress.
    span: Span,
    /// Redacts secrets.
    redactor: Redactor,
    forecasts: Arc<Forecasts>,
    standing: ResultInputs,
}

/// What the result of a run depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct ResultInputs {
    /// The gates that the run must pass.
    required: Vec<String>,
    /// Those of the analyzer that it failed.
    analyzer: AnalyzerGates,
    /// The outcome of its specs.
    specs: Option<Outcome>,
    /// The spans that arrived.
    spans: Option<u64>,
    /// The outcome that is stored.
    stored: Option<&'static str>,
}

impl ResultInputs {
    /// A run with this request that was not analyzed yet.
    pub(super) fn of(run: &StoredRun) -> Self {
        Self { required: RunRequest::of(run).required_gates, ..Self::default() }
    }

    /// A run with this analysis, verdict and number of spans.
    pub(super) fn judged(
        self,
        analysis: Option<&Linter>,
        is_open: bool,
        specs: Option<Outcome>,
        spans: usize,
    ) -> Self {
        let analyzer = AnalyzerGates::of(&self.required, analysis, is_open);
        Self { analyzer, specs, spans: Some(spans as u64), ..self }
    }

    /// Notes what an event says.
    fn note(&mut self, what: &RunEventKind) {
        match what {
            RunEventKind::Analyzed { analysis, open } => {
                self.analyzer = AnalyzerGates::of(&self.required, Some(analysis), open.is_some());
            }
            RunEventKind::Judged { verdict } | RunEventKind::Late { verdict, .. } => {
                self.specs = Some(verdict.outcome);
            }
            RunEventKind::Arrived { spans, .. } | RunEventKind::WaitEnded { spans, .. } => {
                self.spans = Some(*spans as u64);
            }
            _ => {}
        }
        if let RunEventKind::Late { spans, .. } = what {
            self.spans = self.spans.map(|known| known + *spans as u64);
        }
    }

    /// The outcome of a run in this state, in a word.
    fn outcome(&self, state: State) -> &'static str {
        let gates = self.analyzer.clone().with_specs(&self.required, self.specs);
        series::Outcome::from(ended(state, &gates, self.specs)).as_str()
    }
}

impl Log {
    /// The log of a run whose last event is `seq`.
    pub(super) fn new(
        store: Store,
        followers: Arc<Followers<RunId>>,
        cluster: Arc<Cluster>,
        recorder: Recorder,
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
            buffered: Vec::new(),
            trace: None,
            recorder,
            span: Span::none(),
            redactor: Redactor::default(),
            forecasts: Arc::default(),
            standing: ResultInputs::default(),
        }
    }

    /// Tells what the run owes to the clients that watch it there.
    pub(super) fn with_forecasts(mut self, forecasts: Arc<Forecasts>) -> Self {
        self.forecasts = forecasts;
        self
    }

    /// Whether a client watches what the run owes.
    pub(super) fn is_watched(&self) -> bool {
        self.forecasts.is_watched(&self.run)
    }

    /// Tells the clients that watch the run what it owes.
    pub(super) fn publish(&self, owed: WaitStatus) {
        self.forecasts.publish(&self.run, owed);
    }

    /// Sets the trace of the run.
    pub(in crate::runner) fn with_trace(mut self, trace: TraceId) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Sets the span of the run, in which its end is recorded.
    pub(super) fn set_span(&mut self, span: Span) {
        self.span = span;
    }

    /// Redacts these secrets from here on.
    pub(super) fn set_redactor(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Sets what is known of the result so far.
    pub(super) fn set_standing(&mut self, standing: ResultInputs) {
        self.standing = standing;
    }

    /// Sets the number of spans of the trace.
    pub(super) fn set_spans(&mut self, spans: usize) {
        self.standing.spans = Some(spans as u64);
    }

    /// The redaction of this log.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Buffers an event, to be written together with the next ones.
    pub(super) fn buffer(&mut self, what: &RunEventKind) {
        self.seq += 1;
        self.standing.note(what);
        self.buffered.push(StoredEvent {
            seq: self.seq,
            at: clock::now(),
            body: redacted(what, &self.redactor),
        });
    }

    /// Keeps an event sealed if secrets in it are redacted before it is stored: a server that goes on with the run
    /// judges what was received.
    pub(super) async fn keep_unredacted(&self, what: &RunEventKind) -> Result<(), Error> {
        if self.redactor.is_empty() {
            return Ok(());
        }
        let plain = serde_json::to_value(what).unwrap_or_default();
        if !self.redactor.hides_in(&plain) {
            return Ok(());
        }
        let RunId { test, number } = &self.run;
        let mut kept = Variables::default();
        kept.set(UNREDACTED, &plain.to_string(), true);
        retry_while_unavailable(|| async {
            let kept = kept.kept(&self.store, test).await?;
            Ok(self.store.put_secrets(test, *number, &self.owner, &kept).await?)
        })
        .await
    }

    /// The event that was kept sealed, if any.
    pub(super) async fn unredacted(&self) -> Result<Option<RunEventKind>, Error> {
        let RunId { test, number } = &self.run;
        let kept =
            retry_while_unavailable(|| async { Ok(self.store.secrets_of(test, *number).await?) }).await?;
        let kept = Variables::open(&self.store, test, &kept)?;
        Ok(kept.get(UNREDACTED).and_then(|event| serde_json::from_str(event).ok()))
    }

    /// Writes the buffered events and wakes the followers of the run.
    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        if self.buffered.is_empty() {
            return Ok(());
        }
        let events = std::mem::take(&mut self.buffered);
        let RunId { test, number } = &self.run;
        retry_while_unavailable(|| async {
            Ok(self.store.append_events(test, *number, &self.owner, &events).await?)
        })
        .await?;
        self.wake();
        Ok(())
    }

    /// Appends an event.
    pub(super) async fn append(&mut self, what: &RunEventKind) -> Result<(), Error> {
        self.buffer(what);
        self.flush().await
    }

    /// Appends a verdict that late spans have changed.
    pub(super) async fn correct(
        &mut self,
        spans: usize,
        before: Outcome,
        verdict: Verdict,
    ) -> Result<(), Error> {
        let (passed, failed) = verdict.counts();
        let outcome = verdict.outcome;
        self.append(&RunEventKind::Late { spans, before, verdict }).await?;
        self.run_end(State::Finished, Some(outcome), None).log_correction(before);
        let RunId { test, number } = &self.run;
        let result = self.result(State::Finished, (passed, failed));
        retry_while_unavailable(|| async {
            Ok(self.store.put_result(test, *number, &self.owner, &result, None).await?)
        })
        .await?;
        self.standing.stored = Some(result.outcome);
        Ok(())
    }

    /// Appends an analysis that late spans have changed. The outcome of the run may change with it.
    pub(super) async fn analyzed_again(&mut self, what: &RunEventKind) -> Result<(), Error> {
        self.append(what).await?;
        let outcome = self.standing.outcome(State::Finished);
        if self.standing.specs.is_none() || self.standing.stored == Some(outcome) {
            return Ok(());
        }
        let RunId { test, number } = &self.run;
        retry_while_unavailable(|| async {
            Ok(self.store.put_outcome(test, *number, &self.owner, outcome).await?)
        })
        .await?;
        self.standing.stored = Some(outcome);
        Ok(())
    }

    fn result(&self, state: State, (passed, failed): (u64, u64)) -> RunResult {
        RunResult { outcome: self.standing.outcome(state), passed, failed, spans: self.standing.spans }
    }

    /// The owner of the run.
    pub(super) fn owner(&self) -> Arc<str> {
        Arc::clone(&self.owner)
    }

    /// The number of its last event.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// The id of the run.
    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    /// Moves the run from one state to the next and writes the buffered events, both or none. Fails when the run
    /// belongs to another owner now.
    pub(super) async fn change_state(&mut self, from: State, to: State) -> Result<(), Error> {
        let RunId { test, number } = &self.run;
        let events = std::mem::take(&mut self.buffered);
        retry_while_unavailable(|| async {
            let states = (from.as_str(), to.as_str());
            let changed = self.store.change_state(test, *number, &self.owner, states, &events).await?;
            if changed || self.is_in(to.as_str()).await? { Ok(()) } else { Err(Error::Lost) }
        })
        .await?;
        self.wake();
        Ok(())
    }

    /// Whether the run is in this state already: the change was made, and only the answer got lost.
    async fn is_in(&self, state: &str) -> Result<bool, Error> {
        let run = self.store.run(&self.run.test, self.run.number).await?;
        Ok(run.is_some_and(|run| run.state == state))
    }

    /// Marks the trigger as about to be sent, writes the buffered events, and returns the user's command so far.
    /// Fails when the run belongs to another owner now: the trigger must not be sent then.
    pub(super) async fn mark_triggered(&mut self) -> Result<Option<RunCommand>, Error> {
        let RunId { test, number } = &self.run;
        let events = std::mem::take(&mut self.buffered);
        let command = retry_while_unavailable(|| async {
            let marked = self.store.mark_triggered(test, *number, &self.owner, &events).await?;
            match marked {
                Some(command) => Ok(command),
                // The mark was made and the answer got lost: this log marks its run once. Commands are repeated.
                None if self.store.is_triggered(test, *number, &self.owner).await? => Ok(None),
                None => Err(Error::Lost),
            }
        })
        .await?;
        self.wake();
        Ok(command)
    }

    /// Writes the last event and the final state, both or none: a reader that sees one finds the other, even when
    /// this server dies meanwhile. Fails when the run has ended or belongs to another owner.
    pub(in crate::runner) async fn end(&mut self, state: State, what: &RunEventKind) -> Result<(), Error> {
        let RunId { test, number } = &self.run;
        let (mut counts, mut secrets) = ((0, 0), String::new());
        if let RunEventKind::Judged { verdict } = what {
            counts = verdict.counts();
            let outputs = secret_outputs(verdict, &self.redactor);
            secrets =
                retry_while_unavailable(|| async { Ok(outputs.kept(&self.store, test).await?) }).await?;
        }
        let (test, number) = (test.clone(), *number);
        self.buffer(what);
        let events = std::mem::take(&mut self.buffered);
        let result = self.result(state, counts);
        let at = events.last().map_or_else(clock::now, |event| event.at);
        let end = store::RunEnd { state: state.as_str(), result, at, secrets, events };
        retry_while_unavailable(|| async {
            let ended = self.store.end_run(&test, number, &self.owner, &end).await?;
            if ended || self.is_in(end.state).await? { Ok(()) } else { Err(Error::Lost) }
        })
        .await?;
        self.standing.stored = Some(result.outcome);
        let outcome = if let RunEventKind::Judged { verdict } = what { Some(verdict.outcome) } else { None };
        let failure = what.failure().map(|message| self.redactor.text(message).into_owned());
        // The span must not stay open while late spans are watched for.
        let span = std::mem::replace(&mut self.span, Span::none());
        let end = self.run_end(state, outcome, failure.as_deref());
        spans::note_end(&span, &end);
        span.in_scope(|| self.recorder.run_ended(&end));
        self.wake();
        Ok(())
    }

    fn run_end<'r>(&'r self, state: State, outcome: Option<Outcome>, failure: Option<&'r str>) -> RunEnd<'r> {
        let RunId { test, number } = &self.run;
        RunEnd { test: unscoped(test), number: *number, trace: self.trace, state, outcome, failure }
    }

    /// Ends a run without a verdict.
    pub(super) async fn fail<T>(&mut self, state: State, what: &RunEventKind) -> Result<Option<T>, Error> {
        self.end(state, what).await?;
        Ok(None)
    }

    /// Points the run at another trace than the generated one.
    pub(super) async fn set_trace(&mut self, trace: TraceId) -> Result<(), Error> {
        self.trace = Some(trace);
        let RunId { test, number } = &self.run;
        retry_while_unavailable(|| async {
            Ok(self.store.set_trace(test, *number, &self.owner, trace).await?)
        })
        .await
    }

    fn wake(&self) {
        self.followers.wake(std::iter::once(&self.run));
        self.cluster.publish(|| Notification::Run(self.run.test.clone(), self.run.number));
    }
}

/// Serializes an event for the store.
pub(in crate::runner) fn body(what: &RunEventKind) -> String {
    redacted(what, &Redactor::default())
}

/// Serializes an event with its secrets redacted.
pub(super) fn redacted(what: &RunEventKind, redactor: &Redactor) -> String {
    // Plain data with string keys cannot fail to serialize.
    if redactor.is_empty() {
        return serde_json::to_string(what).unwrap_or_default();
    }
    let mut body = serde_json::to_value(what).unwrap_or_default();
    redactor.run_event(&mut body);
    body.to_string()
}
