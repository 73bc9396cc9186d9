//! Spans that come after the verdict: the run is judged again, and says so when the verdict changes.

use std::sync::Arc;

use qualitytrace_core::definition::Trigger;
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::State;
use qualitytrace_core::wait::{Begin, absences};
use tokio::time::Instant;

use super::arrivals::Arrivals;
use super::execute::{Judged, read};
use super::judging::Judge;
use super::log::Log;
use super::patience::patiently;
use super::queue::Announced;
use super::{Error, RunId, Runner, SuiteRunId};
use crate::clock;
use crate::compute;
use crate::store::StoredRun;
use crate::variables::{Variables, mask_of_trace};
use crate::wire::run::{Asked, Facts, Linter};
use crate::wire::{Event, Outcome, What};

impl Runner {
    /// Looks for late spans until then.
    pub(super) async fn watch_late(&self, log: &mut Log, mut judged: Judged, deadline: Instant) {
        judged.arrivals.forget();
        while judged.arrivals.change_before(deadline).await {
            if let Err(error) = self.judge_again(log, &mut judged).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "failed to judge late spans");
                return;
            }
            judged.arrivals.forget();
        }
    }

    async fn judge_again(&self, log: &mut Log, judged: &mut Judged) -> Result<(), Error> {
        let read = judged.arrivals.read(&self.memory, log.mask()).await?;
        let new = read.saturating_sub(std::mem::take(&mut judged.already_counted));
        if new == 0 {
            return Ok(());
        }
        let trace = judged.mask.trace(judged.arrivals.trace(&judged.root));
        // Nobody is sure of a trace that was not looked at in whole.
        let analysis = self.analysis(&log.run().test, &trace, &judged.settings).await?;
        let is_known =
            |analysis: &Linter| judged.analysis.as_ref().is_some_and(|known| known.agrees(analysis));
        if let Some(analysis) = analysis.filter(|analysis| !is_known(analysis)) {
            judged.analysis = Some(analysis.clone());
            log.append(&What::Analyzed { analysis }).await?;
        }
        let open = absences(&self.policy, &judged.arrivals.progress, &self.memory.services(), clock::now());
        compute::give_way().await;
        let verdict = judged.judge.verdict(&trace, open, self.source.refused(trace.id()));
        if judged.was_awaited {
            let (progress, passed) = (&judged.arrivals.progress, verdict.outcome == Outcome::Passed);
            patiently(|| async { self.memory.late(&log.run().test, progress, passed).await }).await?;
        }
        // Whoever is sure now is not made unsure by half of what is coming.
        if verdict.outcome == judged.outcome || verdict.outcome == Outcome::Inconclusive {
            return Ok(());
        }
        let before = std::mem::replace(&mut judged.outcome, verdict.outcome);
        if std::mem::take(&mut judged.has_no_verdict) {
            log.change_state(State::TraceFailed, State::Finished).await?;
        }
        log.correct(new, before, verdict).await?;
        let RunId { test, number } = log.run();
        match self.store.suite_of(test, *number).await? {
            Some((suite, number)) => self.recount_suite(&SuiteRunId { suite, number }).await,
            None => Ok(()),
        }
    }

    /// Goes on looking for late spans of runs that were judged by a server that is gone.
    pub(super) async fn resume_watching(self: &Arc<Self>) -> Result<(), Error> {
        let (me, now) = (self.cluster.id(), clock::now());
        let window = self.config.get().limits.late_window;
        for orphan in self.store.judged_orphans(now, window).await? {
            let run = RunId { test: orphan.run.test.clone(), number: orphan.run.number };
            let (before, after) = ((&*orphan.owner, State::Finished), (&*me, State::Finished));
            if !self.store.take_run(&run.test, run.number, before, after).await? {
                continue;
            }
            let Some(mut judged) = self.judged(&orphan.run).await? else { continue };
            let mut log = self.log(&run, Arc::clone(&me), orphan.seq).about(orphan.run.trace);
            log.hide(judged.mask.clone());
            let deadline = Instant::now() + window.saturating_sub(now.since(orphan.ended));
            let runner = Arc::clone(self);
            self.spawn(async move {
                // What came before anybody looked again.
                if let Err(error) = runner.judge_again(&mut log, &mut judged).await {
                    tracing::warn!(error = &error as &dyn std::error::Error, "failed to judge late spans");
                }
                runner.watch_late(&mut log, judged, deadline).await;
            });
        }
        Ok(())
    }

    /// Looks for late spans of a run that was judged by the trace of an earlier one.
    pub(super) async fn watch_again(self: &Arc<Self>, run: &RunId, mut log: Log) -> Result<(), Error> {
        let Some(stored) = self.store.run(&run.test, run.number).await? else { return Ok(()) };
        let Some(mut judged) = self.judged(&stored).await? else { return Ok(()) };
        log.hide(judged.mask.clone());
        self.judge_again(&mut log, &mut judged).await?;
        let deadline = Instant::now() + self.config.get().limits.late_window;
        let runner = Arc::clone(self);
        self.spawn(async move { runner.watch_late(&mut log, judged, deadline).await });
        Ok(())
    }

    /// A run that came to a verdict, from what is written down of it. `None` when late spans do not matter to it.
    async fn judged(&self, run: &StoredRun) -> Result<Option<Judged>, Error> {
        let Some(stored) = self.store.test(&run.test, Some(run.test_version)).await? else { return Ok(None) };
        let test = read(&stored)?;
        let events = self.store.events(&run.test, run.number, 0).await?;
        let events: Vec<Event> = events.iter().filter_map(Event::read).collect();
        let facts = Facts::of(&events);
        // What was judged again was waited for before, and has taught what it can teach.
        let is_own = !events.iter().any(|event| matches!(event.what, What::Again { .. }));
        let (Some(root), Some(verdict), Some(answered), true) =
            (facts.root(run.trace), &facts.verdict, facts.answered, facts.waited)
        else {
            return Ok(None);
        };
        let begin = match (&test.trigger, root.id) {
            (Some(Trigger::TraceId(_) | Trigger::Integration(_)), _) | (_, None) => Begin::Attached,
            (_, Some(id)) => Begin::Triggered(id),
        };
        let history = self.memory.history(&run.test).await?;
        let announced = Announced::new(Arc::clone(&self.cluster), run.trace);
        let mut arrivals = Arrivals::follow(self.source.clone(), announced, run.trace, begin, history);
        arrivals.progress.answered(answered);
        // What was written down of the trigger has masks for secrets, and so has the trace then: they fit together.
        let variables = Variables::shown(&run.variables);
        let generator = Generator::in_utc(clock::now(), rand::random());
        Ok(Some(Judged {
            judge: Judge::compile(&test, &variables, generator),
            mask: mask_of_trace(&self.store, run.trace).await?,
            root,
            arrivals,
            outcome: verdict.outcome,
            has_trace: true,
            has_no_verdict: false,
            was_awaited: is_own && !events.iter().any(|event| matches!(event.what, What::WaitSkipped { .. })),
            already_counted: spans_of(&events),
            analysis: facts.analysis.clone(),
            settings: Asked::of(run).settings,
        }))
    }
}

/// How many spans the latest verdict knew.
fn spans_of(events: &[Event]) -> usize {
    events.iter().fold(0, |known, event| match &event.what {
        What::Arrived { spans, .. } => *spans,
        What::Late { spans, .. } => known + spans,
        What::Again { events, .. } => spans_of(events),
        _ => known,
    })
}
