//! Late spans: a run is judged again when spans arrive after its verdict, and records when the verdict changes.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::State;
use qualitytrace_core::trace::Trace;
use qualitytrace_core::wait::{Absence, Begin, CONFIRM, History, Wait, absences, is_absence_proven, wait};
use tokio::time::Instant;

use super::Execution;
use super::arrivals::Arrivals;
use super::execute::{NOT_WAITED, read, unproven};
use super::judged::{Confirmation, JudgedRun, WaitExtent};
use super::judging::Judge;
use super::log::{Log, ResultInputs};
use crate::base::clock;
use crate::base::compute;
use crate::runner::counts::recount_suite;
use crate::runner::relays::Announced;
use crate::runner::retry::retry_while_unavailable;
use crate::runner::{Error, RunId, SuiteRunId};
use crate::storage::store::StoredRun;
use crate::storage::variables::{Variables, redactor_of_trace};
use crate::wire::fold::RunState;
use crate::wire::request::RunRequest;
use crate::wire::run::Linter;
use crate::wire::{Event, Outcome, RunEventKind};

/// How often a failure by absence is rechecked until it is proven.
pub(super) const CONFIRM_INTERVAL: Duration = Duration::from_millis(500);
/// How long a judged run stays in memory: most late spans arrive within moments.
const HELD: Duration = Duration::from_secs(2);
/// The limit of the window that is derived from the lags of services; `runs.lateWindow` may be longer.
const MAX_LATE_WINDOW: Duration = Duration::from_mins(10);

impl JudgedRun {
    /// What the result of this run depends on.
    pub(super) fn standing(&self, run: &StoredRun) -> ResultInputs {
        let specs = (!self.has_no_verdict).then_some(self.outcome);
        let (analysis, is_open) = (self.analysis.as_ref(), self.analysis_open.is_some());
        ResultInputs::of(run).judged(analysis, is_open, specs, self.already_counted)
    }
}

impl Execution {
    /// Follows a trace.
    pub(super) fn arrivals(&self, trace: TraceId, begin: Begin, history: Arc<History>) -> Arrivals {
        let announced = Announced::new(Arc::clone(&self.cluster), trace);
        Arrivals::follow(self.source.clone(), announced, trace, begin, history, self.traces.clone())
    }

    /// Watches for late spans until the deadline, in a task of its own.
    fn spawn_watching(self: &Arc<Self>, mut log: Log, judged: JudgedRun, deadline: Instant) {
        let execution = Arc::clone(self);
        self.tasks.spawn(async move { execution.watch_late(&mut log, judged, deadline).await });
    }

    /// Watches for late spans of a run that was just judged.
    pub(super) fn watch_judged(self: &Arc<Self>, log: Log, judged: JudgedRun) {
        self.spawn_watching(log, judged, Instant::now() + self.late_window());
    }

    /// Watches for late spans until the deadline. The run is parked when its verdict is settled and no span came for a
    /// while, or when too many others are in memory.
    async fn watch_late(self: &Arc<Self>, log: &mut Log, mut judged: JudgedRun, deadline: Instant) {
        let _counted = self.watched.loaded();
        judged.arrivals.forget();
        let mut held_until = Instant::now() + HELD;
        let mut permit = None;
        loop {
            let now = Instant::now();
            let is_settled = judged.confirmation == Confirmation::Settled
                && !matches!(judged.awaited, WaitExtent::NotYet { .. });
            if now >= held_until && now < deadline {
                permit = permit.filter(|_| !is_settled);
                if permit.is_none() && !is_settled {
                    permit = Arc::clone(&self.unsettled).try_acquire_owned().ok();
                }
                if permit.is_none() {
                    return self.park(log, judged, deadline);
                }
            }
            // A failure by absence is rechecked when arrivals of other traces may have proven it, and a trace that
            // was not waited for when it may be complete.
            let until = match (judged.awaited, judged.confirmation) {
                (WaitExtent::NotYet { until }, _) => deadline.min(until),
                (_, Confirmation::Open) => deadline.min(now + CONFIRM_INTERVAL),
                (_, Confirmation::Settled) => deadline,
            };
            let until = if permit.is_none() { until.min(held_until) } else { until };
            let has_changed = judged.arrivals.change_before(until).await;
            let is_incomplete = matches!(judged.awaited, WaitExtent::NotYet { .. });
            if has_changed {
                held_until = Instant::now() + HELD;
            }
            let looked = if has_changed || (is_incomplete && now < deadline) {
                self.judge_again(log, &mut judged).await
            } else if now >= deadline {
                return;
            } else {
                self.note_if_proven(log, &mut judged);
                log.flush().await
            };
            if let Err(error) = looked {
                tracing::warn!(error = &error as &dyn std::error::Error, "failed to judge late spans");
                return;
            }
            judged.arrivals.forget();
        }
    }

    /// How long late spans are watched for after a verdict; longer when services are known to deliver late.
    pub(super) fn late_window(&self) -> Duration {
        let late = self.learning.services().largest_lag().saturating_mul(2).min(MAX_LATE_WINDOW);
        self.config.get().limits.late_window.max(late)
    }

    /// Whether every span that a failure may have missed is known to be absent by now.
    fn is_proven(&self, judged: &JudgedRun) -> bool {
        let (progress, services) = (&judged.arrivals.progress, self.learning.services());
        judged.confirmation == Confirmation::Open
            && is_absence_proven(&judged.policy, judged.confirm, progress, &services, clock::now())
    }

    /// Buffers the event that a failure is proven, if it is by now.
    pub(super) fn note_if_proven(&self, log: &mut Log, judged: &mut JudgedRun) {
        if self.is_proven(judged) {
            judged.confirmation = Confirmation::Settled;
            log.buffer(&RunEventKind::Confirmed);
        }
    }

    /// Asks whether a trace that the run did not wait for is complete by now, and else when to ask again.
    fn awaited_now(&self, judged: &JudgedRun, trace: &Trace) -> WaitExtent {
        let specs = judged.judge.standing(trace);
        let (progress, services, now) = (&judged.arrivals.progress, self.learning.services(), clock::now());
        match wait(&judged.policy, progress, &services, || specs, now) {
            Wait::Until(then, _) => WaitExtent::NotYet { until: Instant::now() + then.since(now) },
            Wait::Ready(_) | Wait::GaveUp(_) => WaitExtent::CutShort,
        }
    }

    pub(super) async fn judge_again(&self, log: &mut Log, judged: &mut JudgedRun) -> Result<(), Error> {
        let read = judged.arrivals.read(&self.learning, log.redactor()).await?;
        let new = read.saturating_sub(std::mem::take(&mut judged.already_counted));
        if new == 0 && !matches!(judged.awaited, WaitExtent::NotYet { .. }) {
            return Ok(());
        }
        let trace = judged.redactor.trace(judged.arrivals.trace(&judged.root));
        let standing = judged.judge.standing(&trace);
        let progress = &judged.arrivals.progress;
        let mut open = absences(&judged.policy, progress, &self.learning.services(), &standing, clock::now());
        open.extend(self.source.ingest().refusals().since(judged.root.start).map(Absence::of_refused));
        let refused = self.source.refused(trace.id());
        if matches!(judged.awaited, WaitExtent::NotYet { .. }) {
            judged.awaited = self.awaited_now(judged, &trace);
        }
        if matches!(judged.awaited, WaitExtent::NotYet { .. }) {
            open.push(Absence::of_anyone(NOT_WAITED.to_owned()));
        }
        // An analysis does not hold for sure while the trace may be incomplete.
        let analysis = self.analysis(&log.run().test, &trace, &judged.settings).await?;
        let analysis_open = unproven(&open, refused.as_ref());
        let is_known = |analysis: &Linter| {
            analysis_open == judged.analysis_open
                && judged.analysis.as_ref().is_some_and(|known| known.agrees(analysis))
        };
        if let Some(analysis) = analysis.filter(|analysis| !is_known(analysis)) {
            (judged.analysis, judged.analysis_open) = (Some(analysis.clone()), analysis_open.clone());
            log.analyzed_again(&RunEventKind::Analyzed { analysis, open: analysis_open }).await?;
        }
        compute::give_way().await;
        let mut verdict = judged.judge.verdict_after(judged.is_resumed, &trace, open, refused);
        if judged.awaited == WaitExtent::ToTheEnd {
            let (progress, passed) = (&judged.arrivals.progress, verdict.outcome == Outcome::Passed);
            self.learning.observed(progress.entries(), log.redactor());
            retry_while_unavailable(|| async { self.learning.late(&log.run().test, progress, passed).await })
                .await?;
        }
        // A decided verdict is not replaced by an inconclusive one while more spans are arriving.
        if verdict.outcome == judged.outcome || verdict.outcome == Outcome::Inconclusive {
            return Ok(());
        }
        self.look_for_lost_parts(&judged.judge, &trace, &mut verdict).await;
        let before = std::mem::replace(&mut judged.outcome, verdict.outcome);
        if std::mem::take(&mut judged.has_no_verdict) {
            log.change_state(State::TraceFailed, State::Finished).await?;
        }
        log.correct(new, before, verdict).await?;
        let RunId { test, number } = log.run();
        match self.store.suite_of(test, *number).await? {
            Some((suite, number)) => recount_suite(&self.store, &SuiteRunId { suite, number }).await,
            None => Ok(()),
        }
    }

    /// Resumes watching for late spans of runs that a dead server has judged.
    pub(in crate::runner) async fn resume_watching(self: &Arc<Self>) -> Result<(), Error> {
        let (me, now) = (self.cluster.id(), clock::now());
        let window = self.late_window();
        for orphan in self.store.judged_orphans(now, window).await? {
            let run = RunId { test: orphan.run.test.clone(), number: orphan.run.number };
            let state = if orphan.run.state == State::TraceFailed.as_str() {
                State::TraceFailed
            } else {
                State::Finished
            };
            let (before, after) = ((&*orphan.owner, state), (&*me, state));
            if !self.store.take_run(&run.test, run.number, before, after).await? {
                continue;
            }
            let Some(mut judged) = self.judged(&orphan.run).await? else { continue };
            let mut log = self.log(&run, Arc::clone(&me), orphan.seq).with_trace(orphan.run.trace);
            log.set_redactor(judged.redactor.clone());
            log.set_standing(judged.standing(&orphan.run));
            let deadline = Instant::now() + window.saturating_sub(now.since(orphan.ended));
            let execution = Arc::clone(self);
            self.tasks.spawn(async move {
                // Judges what arrived before this server took over.
                if let Err(error) = execution.judge_again(&mut log, &mut judged).await {
                    tracing::warn!(error = &error as &dyn std::error::Error, "failed to judge late spans");
                }
                execution.watch_late(&mut log, judged, deadline).await;
            });
        }
        Ok(())
    }

    /// Watches for late spans of a rerun.
    pub(super) async fn watch_again(self: &Arc<Self>, run: &RunId, mut log: Log) -> Result<(), Error> {
        let Some(stored) = self.store.run(&run.test, run.number).await? else { return Ok(()) };
        let Some(mut judged) = self.judged(&stored).await? else { return Ok(()) };
        log.set_redactor(judged.redactor.clone());
        log.set_standing(judged.standing(&stored));
        self.judge_again(&mut log, &mut judged).await?;
        self.watch_judged(log, judged);
        Ok(())
    }

    /// Rebuilds a run that was judged, or ended without a trace, from its events. `None` when late spans do not
    /// matter to it.
    pub(super) async fn judged(&self, run: &StoredRun) -> Result<Option<JudgedRun>, Error> {
        let Some(stored) = self.store.test(&run.test, Some(run.test_version)).await? else { return Ok(None) };
        let test = read(&stored)?;
        let events = self.store.events(&run.test, run.number, 0).await?;
        let events: Vec<Event> = events.iter().filter_map(Event::read).collect();
        let state = RunState::of(&events);
        // A rerun was waited for by its earlier run, which has learned from it already.
        let is_own = !events.iter().any(|event| matches!(event.what, RunEventKind::Again { .. }));
        let has_no_verdict = events.iter().any(|event| matches!(event.what, RunEventKind::NoTrace { .. }));
        let outcome = match &state.verdict {
            Some(verdict) => Some(verdict.outcome),
            None => has_no_verdict.then_some(Outcome::Inconclusive),
        };
        let (Some(root), Some(outcome), Some(answered), true) =
            (state.root(run.trace), outcome, state.answered, state.waited)
        else {
            return Ok(None);
        };
        let begin = match (&test.trigger, root.id) {
            (Some(Trigger::TraceId(_) | Trigger::Integration(_)), _) | (_, None) => Begin::Attached,
            (_, Some(id)) => Begin::Triggered(id),
        };
        let settings = RunRequest::of(run).settings;
        let waiting = self.waiting(&run.test, &test, &settings).await?;
        let policy = waiting.as_ref().map_or(self.policy, |waiting| waiting.policy);
        let confirm = waiting.as_ref().and_then(|waiting| waiting.confirm).unwrap_or(CONFIRM);
        let history = self.learning.history(&run.test).await?;
        let mut arrivals = self.arrivals(run.trace, begin, history);
        arrivals
            .progress
            .know_uninstrumented(waiting.map(|waiting| waiting.uninstrumented).unwrap_or_default());
        arrivals.progress.answered(answered);
        // The stored trigger is redacted, so the trace and the variables must be too.
        let variables = Variables::shown(&run.variables);
        let generator = Generator::in_utc(clock::now(), rand::random());
        Ok(Some(JudgedRun {
            judge: Judge::compile(&test, &variables, generator).with_within(policy.within),
            redactor: redactor_of_trace(&self.store, run.trace).await?,
            root,
            arrivals,
            outcome,
            has_trace: true,
            has_no_verdict: state.verdict.is_none(),
            is_resumed: events.iter().any(|event| event.what == RunEventKind::Resumed),
            policy,
            confirm,
            confirmation: Confirmation::Settled,
            awaited: if is_own
                && !events.iter().any(|event| matches!(event.what, RunEventKind::WaitSkipped { .. }))
            {
                WaitExtent::ToTheEnd
            } else {
                WaitExtent::CutShort
            },
            already_counted: spans_of(&events),
            analysis: state.analysis.clone(),
            analysis_open: state.analysis_open.clone(),
            settings,
        }))
    }
}

/// The number of spans that the latest verdict was based on.
fn spans_of(events: &[Event]) -> usize {
    events.iter().fold(0, |known, event| match &event.what {
        RunEventKind::Arrived { spans, .. } => *spans,
        RunEventKind::Late { spans, .. } => known + spans,
        RunEventKind::Again { events, .. } => spans_of(events),
        _ => known,
    })
}
