//! Recovery of suite runs whose server is gone.
//!
//! A suite run is the list of its events, and its steps are runs like any other. The stored events say which steps
//! have ended, which were in progress, and what comes next; nothing is run a second time.

use std::sync::Arc;

use qualitytrace_core::definition::{self, Kind, Resource, TestSuite};
use qualitytrace_core::series::{Attempts, Outcome};
use qualitytrace_core::suite::{Plan, StepState};

use super::log::{SuiteLog, SuiteState};
use super::steps::{StartedRun, StepEnd, SuiteProgress};
use super::{StepTest, SuiteOrder, Suites};
use crate::runner::retry::retry_while_unavailable;
use crate::runner::{Error, RunId, SuiteRunId};
use crate::storage::store::{self, StoredDefinition, StoredSuiteRun};
use crate::storage::variables::Variables;
use crate::wire::request::RunRequest;
use crate::wire::suite::{Event, Step, SuiteEventKind};

impl Suites {
    /// Resumes the suite runs whose server is gone, then the series.
    pub(in crate::runner) async fn resume_all(self: &Arc<Self>) -> Result<(), Error> {
        let me = self.cluster.id();
        for orphan in self.store.orphan_suite_runs().await? {
            if self.store.take_suite_run(&orphan.suite, orphan.number, (&orphan.owner, &me)).await? {
                // It belongs to this server now, and no other one would resume it.
                retry_while_unavailable(|| async { self.resume_suite(&orphan, &me).await }).await?;
            }
        }
        self.repeat_commands().await?;
        self.resume_series().await
    }

    async fn resume_suite(self: &Arc<Self>, orphan: &StoredSuiteRun, me: &str) -> Result<(), Error> {
        let id = SuiteRunId { suite: orphan.suite.clone(), number: orphan.number };
        let events = self.store.suite_events(&id.suite, id.number, 0).await?;
        let mut log = self.suite_log(&id, me, events.last().map_or(0, |event| event.seq));
        let events: Vec<Event> = events.iter().filter_map(Event::read).collect();
        let Some(order) = self.load_order(orphan, &events).await? else {
            return self.mark_interrupted(&id, &mut log).await;
        };
        let progress = self.load_progress(&id, &order, &events).await?;
        log.change_state(SuiteState::Created, SuiteState::Executing).await?;
        log.append(SuiteEventKind::Resumed).await?;
        tracing::info!(suite = id.suite, run = id.number, "resumes a run of a suite whose server is gone");
        self.spawn(id, order, log, progress);
        Ok(())
    }

    /// Rebuilds the request of a suite run; `None` when its definition or tests are no longer known.
    async fn load_order(&self, run: &StoredSuiteRun, events: &[Event]) -> Result<Option<SuiteOrder>, Error> {
        let planned = events.iter().find_map(|event| match &event.what {
            SuiteEventKind::Planned { steps } => Some(steps),
            _ => None,
        });
        let stored = self.store.definition(Kind::TestSuite, &run.suite, Some(run.version)).await?;
        let (Some(planned), Some(suite)) = (planned, stored.as_ref().and_then(read)) else { return Ok(None) };
        let mut order = SuiteOrder {
            id: run.suite.clone(),
            shown_id: store::unscoped(&run.suite).to_owned(),
            version: run.version,
            plan: Plan::of(&suite),
            tests: std::collections::BTreeMap::new(),
            variables: Variables::open(&self.store, &run.suite, &run.variables)?,
            request: serde_json::from_str::<RunRequest>(&run.request).unwrap_or_default(),
        };
        for Step { test, title, version, retries, repeat, .. } in planned {
            let stored = self.store.test(&store::beside(&run.suite, test), Some(*version)).await?;
            let Some(stored) = stored.filter(|_| *version > 0) else { return Ok(None) };
            let attempts = Attempts { retries: *retries, repeat: *repeat };
            order.tests.insert(test.clone(), StepTest { stored, name: title.clone(), attempts });
        }
        Ok((planned.len() == order.plan.steps.len()).then_some(order))
    }

    /// Rebuilds the progress of a suite run.
    async fn load_progress(
        &self,
        id: &SuiteRunId,
        order: &SuiteOrder,
        events: &[Event],
    ) -> Result<SuiteProgress, Error> {
        let mut progress = SuiteProgress::new(order);
        let runs = self.store.step_runs(&id.suite, id.number, id.number).await?.remove(&id.number);
        for (run, _) in runs.unwrap_or_default() {
            let request = RunRequest::of(&run);
            let Some(step) = request.step().filter(|step| *step < order.plan.steps.len()) else { continue };
            let is_logged = events.iter().any(|event| {
                matches!(event.what, SuiteEventKind::StepStarted { step: told, run: number, .. }
                    if (told, number) == (step, run.number))
            });
            let trace_id = run.trace.to_string();
            let run = RunId { test: run.test, number: run.number };
            progress.started.entry(step).or_default().push_back(StartedRun { run, trace_id, is_logged });
        }
        for event in events {
            match &event.what {
                SuiteEventKind::StepsSkipped { steps } => {
                    for step in steps {
                        progress.standings[*step] = StepState::Skipped;
                    }
                }
                SuiteEventKind::StepEnded { step, outcome, recovered, message, .. } => {
                    let outcome = match outcome.of_series(*recovered) {
                        // Only a step that was not brought to its end has a message.
                        Outcome::Inconclusive if message.is_some() => Outcome::Interrupted,
                        outcome => outcome,
                    };
                    let last = progress.started.remove(step).and_then(|mut started| started.pop_back());
                    let mut end = StepEnd::new();
                    // A step that was stopped from outside has no outputs, whatever its run says.
                    if let Some(StartedRun { run, .. }) = last.filter(|_| message.is_none()) {
                        end = self.step_results(&run, &self.wait_for_end(&run).await?).await?;
                    }
                    let end = StepEnd { outcome, message: message.clone(), ..end };
                    progress.ended(&order.plan, *step, &end);
                }
                SuiteEventKind::Planned { .. }
                | SuiteEventKind::StepStarted { .. }
                | SuiteEventKind::Stopping
                | SuiteEventKind::Ended { .. }
                | SuiteEventKind::Resumed
                | SuiteEventKind::Interrupted => {}
            }
        }
        Ok(progress)
    }

    /// Marks a suite run that cannot be resumed. Its queued runs are stopped.
    async fn mark_interrupted(&self, id: &SuiteRunId, log: &mut SuiteLog) -> Result<(), Error> {
        log.end(SuiteState::Failed, SuiteEventKind::Interrupted).await?;
        let steps = self.store.step_runs(&id.suite, id.number, id.number).await?;
        for (run, _) in steps.into_values().flatten() {
            self.queue.stop(&RunId { test: run.test, number: run.number }).await?;
        }
        Ok(())
    }
}

fn read(stored: &StoredDefinition) -> Option<TestSuite> {
    match definition::read_stored(&stored.definition, stored.format(), Kind::TestSuite)? {
        Resource::TestSuite(suite) => Some(suite),
        _ => None,
    }
}
