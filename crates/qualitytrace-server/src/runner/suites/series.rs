//! Series: running a test more than once, until it passes or a fixed number of times.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::run::State;
use qualitytrace_core::series::{self, Attempts, Next, RunEnding, next};

use super::Suites;
use crate::observability::Caller;
use crate::runner::retry::retry_while_unavailable;
use crate::runner::{Error, RunId, SuiteRunId};
use crate::storage::store::{Notification, OrphanSeries, StoredEvent, StoredRun, StoredTest, beside};
use crate::storage::variables::Variables;
use crate::wire::fold::{RunState, ended, gates};
use crate::wire::request::{InSeries, RunRequest};
use crate::wire::series::{Attempt, Series};
use crate::wire::{self, Event, RunEventKind};

/// How often the state of a followed run is polled, in case a notification was lost.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A request to run a test one or more times.
#[derive(Debug, Clone)]
pub struct Order {
    /// The test.
    pub test: StoredTest,
    /// How many times.
    pub attempts: Attempts,
    /// The variables of every run.
    pub variables: Variables,
    /// The rest of the request.
    pub request: RunRequest,
    /// The suite run that it is a step of.
    pub step_of: Option<SuiteRunId>,
}

/// The state of a series in progress.
#[derive(Debug)]
pub(super) struct SeriesState {
    order: Order,
    shown: Series,
    ended: Vec<RunEnding>,
    /// A user stopped the series, whatever its runs did.
    is_stopped: bool,
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct EndedRun {
    pub(super) ended: RunEnding,
    pub(super) state: RunState,
}

impl SeriesState {
    pub(super) fn new(order: Order) -> Self {
        Self { shown: Series::new(order.attempts), order, ended: Vec::new(), is_stopped: false }
    }

    /// A series that another server began.
    fn resumed(test: StoredTest, variables: Variables, request: RunRequest, shown: Series) -> Self {
        let attempts = Attempts { retries: shown.retries, repeat: shown.repeat };
        let request = RunRequest { series: None, ..request };
        let ended = shown.runs.iter().filter_map(|attempt| Some(attempt.outcome?.of_run())).collect();
        let order = Order { test, attempts, variables, request, step_of: None };
        Self { order, shown, ended, is_stopped: false }
    }

    /// The latest run, if it has not ended.
    fn under_way(&self) -> Option<RunId> {
        let latest = self.shown.runs.last().filter(|attempt| attempt.outcome.is_none())?;
        Some(RunId { test: self.order.test.id.clone(), number: latest.run })
    }

    /// Adds the next run.
    pub(super) fn add(&mut self, run: u64, trace_id: String) {
        self.shown.runs.push(Attempt { run, trace_id, outcome: None });
    }

    /// The number of runs that have begun.
    pub(super) fn begun(&self) -> usize {
        self.shown.runs.len()
    }

    /// The trace of the latest run.
    pub(super) fn trace_id(&self) -> &str {
        self.shown.runs.last().map_or("", |attempt| &attempt.trace_id)
    }

    /// Records how the latest run ended.
    pub(super) fn record_end(&mut self, ended: RunEnding) {
        if let Some(attempt) = self.shown.runs.last_mut() {
            attempt.outcome = Some(ended.into());
        }
        self.ended.push(ended);
        if let Next::Done(outcome) = self.next() {
            self.shown.end(outcome);
        }
    }

    /// Decides what to do next.
    pub(super) fn next(&self) -> Next {
        if self.is_stopped {
            return Next::Done(series::Outcome::Stopped);
        }
        next(self.order.attempts, &self.ended)
    }

    fn stop(&mut self) {
        self.is_stopped = true;
        self.shown.end(series::Outcome::Stopped);
    }
}

impl Suites {
    /// Starts a series and returns its first run.
    pub(in crate::runner) async fn start_series(self: &Arc<Self>, order: Order) -> Result<RunId, Error> {
        let several = order.attempts.is_several();
        let mut series = SeriesState::new(order);
        let first = self.begin_attempt(&mut series).await?;
        if several {
            self.spawn_series(series);
        }
        Ok(first)
    }

    /// Starts the runs of a series, each when the previous one has ended.
    fn spawn_series(self: &Arc<Self>, mut series: SeriesState) {
        let suites = Arc::clone(self);
        let follow = async move {
            loop {
                if let Some(run) = series.under_way() {
                    let ended_run = suites.wait_for_end(&run).await?;
                    series.record_end(ended_run.ended);
                    suites.store_series(&mut series).await?;
                }
                match series.next() {
                    Next::Start => drop(suites.begin_next_attempt(&mut series).await?),
                    Next::Done(_) => return Ok::<_, Error>(()),
                }
            }
        };
        // Every run of the series belongs to the caller of the first one; that request does not wait for them.
        let caller = Caller::current();
        let follow = async move {
            if let Err(error) = follow.await {
                tracing::error!(error = &error as &dyn std::error::Error, "a series of runs broke off");
            }
        };
        self.tasks.spawn(caller.scope(follow));
    }

    /// Starts the next run of a series.
    pub(super) async fn begin_attempt(self: &Arc<Self>, series: &mut SeriesState) -> Result<RunId, Error> {
        let order = &series.order;
        let mut request = order.request.clone();
        if order.attempts.is_several() {
            let first = series.shown.runs.first().map_or(0, |attempt| attempt.run);
            let attempt = u32::try_from(series.begun() + 1).unwrap_or(u32::MAX);
            request.series = Some(InSeries { first, attempt });
        }
        // Plain data with string keys cannot fail to serialize.
        let request = serde_json::to_string(&request).unwrap_or_default();
        let step_of = order.step_of.as_ref();
        let (run, trace) = self.queue.enqueue(&order.test, order.variables.clone(), request, step_of).await?;
        series.add(run.number, trace.to_string());
        self.store_series(series).await?;
        if series.is_stopped {
            self.queue.stop(&run).await?;
        }
        Ok(run)
    }

    /// Starts the next run, and retries while the queue is full.
    async fn begin_next_attempt(self: &Arc<Self>, series: &mut SeriesState) -> Result<RunId, Error> {
        loop {
            match self.begin_attempt(series).await {
                Err(Error::QueueFull { .. }) => tokio::time::sleep(POLL_INTERVAL).await,
                begun => return begun,
            }
        }
    }

    /// Stores the state of a series that can have more than one run. Detects that a user has stopped it meanwhile.
    pub(super) async fn store_series(&self, series: &mut SeriesState) -> Result<(), Error> {
        let Some(first) = series.shown.runs.first().filter(|_| series.order.attempts.is_several()) else {
            return Ok(());
        };
        let first = RunId { test: series.order.test.id.clone(), number: first.run };
        if !self.put_series(&first, series).await? && self.is_stopped(&first).await? {
            series.stop();
            self.put_series(&first, series).await?;
        }
        self.series_changed(&first);
        Ok(())
    }

    /// `false` when the series has ended or was deleted.
    async fn put_series(&self, first: &RunId, series: &SeriesState) -> Result<bool, Error> {
        let outcome = series.shown.outcome.map_or("", wire::series::Outcome::as_str);
        let body = serde_json::to_string(&series.shown).unwrap_or_default();
        let me = self.cluster.id();
        let put =
            || async { Ok(self.store.put_series(&first.test, first.number, &me, outcome, &body).await?) };
        retry_while_unavailable(put).await
    }

    async fn is_stopped(&self, first: &RunId) -> Result<bool, Error> {
        let stored =
            retry_while_unavailable(|| async { Ok(self.store.series(&first.test, first.number).await?) })
                .await?;
        let series: Option<Series> = stored.and_then(|body| serde_json::from_str(&body).ok());
        Ok(series.is_some_and(|series| series.outcome == Some(wire::series::Outcome::Stopped)))
    }

    /// Stops the series that a run is part of, if it is in progress: no further run begins, and the latest one is
    /// stopped. `false` when there was none.
    pub(in crate::runner) async fn stop_series(&self, run: &RunId) -> Result<bool, Error> {
        let Some(stored) = self.store.run(&run.test, run.number).await? else { return Ok(false) };
        let Some(place) = RunRequest::of(&stored).series else { return Ok(false) };
        let first = RunId { number: place.first_run(run.number), ..run.clone() };
        // The series may advance between the read and the write.
        while let Some(before) = self.store.series(&first.test, first.number).await? {
            let series = serde_json::from_str(&before).ok();
            let Some(mut series) = series.filter(|series: &Series| series.outcome.is_none()) else { break };
            series.end(series::Outcome::Stopped);
            // Its latest run is stopped next; if that has ended before, the server that follows it corrects the
            // entry.
            if let Some(latest) = series.runs.last_mut().filter(|latest| latest.outcome.is_none()) {
                latest.outcome = Some(wire::series::Outcome::Stopped);
            }
            let (outcome, after) =
                (wire::series::Outcome::Stopped.as_str(), serde_json::to_string(&series).unwrap_or_default());
            if self.store.end_series(&first.test, first.number, &before, outcome, &after).await? {
                if let Some(latest) = series.runs.last() {
                    self.queue.stop(&RunId { number: latest.run, ..run.clone() }).await?;
                }
                self.series_changed(&first);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Wakes the followers of the first run of a series, here and on other servers.
    fn series_changed(&self, first: &RunId) {
        self.run_followers.wake(std::iter::once(first));
        self.cluster.publish(|| Notification::Run(first.test.clone(), first.number));
    }

    /// Resumes the series whose server is gone. Series of suite steps are resumed with their suites.
    pub(super) async fn resume_series(self: &Arc<Self>) -> Result<(), Error> {
        let me = self.cluster.id();
        for orphan in self.store.orphan_series().await? {
            let Some(first) = self.store.run(&orphan.test, orphan.first).await? else { continue };
            let request = RunRequest::of(&first);
            if self.is_step_in_progress(&first, &request).await?
                || !self.store.take_series(&orphan, &me).await?
            {
                continue;
            }
            // It belongs to this server now, and no other one would resume it.
            retry_while_unavailable(|| async { self.resume_taken(&orphan, &first, &request).await }).await?;
        }
        Ok(())
    }

    async fn resume_taken(
        self: &Arc<Self>,
        orphan: &OrphanSeries,
        first: &StoredRun,
        request: &RunRequest,
    ) -> Result<(), Error> {
        let series = serde_json::from_str(&orphan.body).ok().filter(|_| request.suite.is_none());
        let test = self.store.test(&first.test, Some(first.test_version)).await?;
        let (Some(shown), Some(test)) = (series, test) else { return self.mark_series(orphan).await };
        let variables = Variables::open(&self.store, &first.test, &first.variables)?;
        tracing::info!(test = first.test, run = orphan.first, "resumes a series whose server is gone");
        self.spawn_series(SeriesState::resumed(test, variables, request.clone(), shown));
        Ok(())
    }

    /// Whether a run is a step of a suite run in progress.
    async fn is_step_in_progress(&self, run: &StoredRun, request: &RunRequest) -> Result<bool, Error> {
        let Some(suite) = &request.suite else { return Ok(false) };
        let stored = self.store.suite_run(&beside(&run.test, &suite.id), suite.run).await?;
        Ok(stored.is_some_and(|stored| ["CREATED", "EXECUTING"].contains(&stored.state.as_str())))
    }

    /// Marks a series that cannot be resumed.
    async fn mark_series(&self, orphan: &OrphanSeries) -> Result<(), Error> {
        let mut series: Series =
            serde_json::from_str(&orphan.body).unwrap_or_else(|_| Series::new(Attempts::default()));
        series.end(series::Outcome::Interrupted);
        let outcome = wire::series::Outcome::Inconclusive.as_str();
        let body = serde_json::to_string(&series).unwrap_or_default();
        let me = self.cluster.id();
        self.store.put_series(&orphan.test, orphan.first, &me, outcome, &body).await?;
        self.series_changed(&RunId { test: orphan.test.clone(), number: orphan.first });
        Ok(())
    }

    /// Waits until a run has ended, whichever server executes it.
    pub(super) async fn wait_for_end(&self, run: &RunId) -> Result<EndedRun, Error> {
        self.follow_run(run, None::<fn()>).await
    }

    /// Waits until a run has ended, and tells when only the window of a first run is left, if that is asked.
    pub(super) async fn follow_run(
        &self,
        run: &RunId,
        mut settling: Option<impl FnOnce()>,
    ) -> Result<EndedRun, Error> {
        let mut changes = self.run_followers.follow(run.clone());
        loop {
            changes.mark_unchanged();
            let stored =
                retry_while_unavailable(|| async { Ok(self.store.run(&run.test, run.number).await?) })
                    .await?;
            let Some(stored) = stored else {
                return Ok(EndedRun { ended: RunEnding::Stopped, state: RunState::default() });
            };
            let state = State::named(&stored.state).unwrap_or(State::Failed);
            if state.is_final() {
                let events = retry_while_unavailable(|| async {
                    Ok(self.store.events(&run.test, run.number, 0).await?)
                })
                .await?;
                let events: Vec<Event> = events.iter().filter_map(Event::read).collect();
                let folded = RunState::of(&events);
                let gates = gates(&RunRequest::of(&stored).required_gates, &folded);
                let specs = folded.verdict.as_ref().map(|verdict| verdict.outcome);
                return Ok(EndedRun { ended: ended(state, &gates, specs), state: folded });
            }
            if settling.is_some() && state == State::AwaitingTrace && self.is_settling(run).await? {
                settling.take().into_iter().for_each(|tell| tell());
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Whether a run only waits for the end of its window.
    async fn is_settling(&self, run: &RunId) -> Result<bool, Error> {
        let openings =
            retry_while_unavailable(|| async { Ok(self.store.event_openings(&run.test, run.number).await?) });
        let is_told = |event: &StoredEvent| {
            serde_json::from_str(&event.body).is_ok_and(|what: RunEventKind| what == RunEventKind::Settling)
        };
        Ok(openings.await?.iter().any(is_told))
    }
}
