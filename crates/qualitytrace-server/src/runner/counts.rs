//! The assertion counts of suite runs.

use super::retry::retry_while_unavailable;
use super::{Error, SuiteRunId};
use crate::storage::store::{Store, unscoped};
use crate::wire;
use crate::wire::fold::RunState;
use crate::wire::suite::{Event, SuiteProgress};

/// Recounts the assertions of a suite run: late spans may have changed the verdicts of its steps.
pub(super) async fn recount_suite(store: &Store, run: &SuiteRunId) -> Result<(), Error> {
    let recount = || async {
        let events = store.suite_events(&run.suite, run.number, 0).await?;
        let progress = SuiteProgress::of(&events.iter().filter_map(Event::read).collect::<Vec<_>>());
        let runs = store.step_runs(&run.suite, run.number, run.number).await?;
        let mut counts = (0, 0);
        for (step, events) in runs.into_values().flatten() {
            let is_last = progress.runs.iter().any(|(at, number)| {
                let test = progress.steps.get(*at).map(|step| step.test.as_str());
                *number == step.number && test == Some(unscoped(&step.test))
            });
            let events: Vec<_> = events.iter().filter_map(wire::Event::read).collect();
            if let Some(verdict) = RunState::of(&events).verdict.filter(|_| is_last) {
                let (passed, failed) = verdict.counts();
                counts = (counts.0 + passed, counts.1 + failed);
            }
        }
        Ok(store.count_suite_assertions(&run.suite, run.number, counts).await?)
    };
    retry_while_unavailable(recount).await
}
