//! Retention of runs: old ones are removed in the background, a few at a time, with everything that belongs to them.

use std::time::Duration;

use qualitytrace_core::time::Timestamp;

use crate::base::clock;
use crate::base::limits::Limits;
use crate::config::Live;
use crate::storage::store::{self, RunsOf, Store};

/// The interval between two searches for old runs.
const INTERVAL: Duration = Duration::from_mins(1);
/// Runs that are looked up at one time; each is removed on its own, to keep transactions short.
const STEP: u64 = 100;
/// The pause between two steps, which leaves the database to other work.
const PAUSE: Duration = Duration::from_millis(50);

/// Removes old runs for as long as it is polled.
pub(crate) async fn keep(store: Store, config: Live) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        loop {
            match step(&store, &config.get().limits, clock::trusted()).await {
                Ok(0) => break,
                Ok(removed) => tracing::debug!(removed, "removed old runs"),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "failed to remove old runs");
                    break;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Removes some of the runs that are too old or too many, and returns their number. Also trims the audit log.
pub async fn step(store: &Store, limits: &Limits, now: Timestamp) -> Result<usize, store::Error> {
    let oldest =
        if limits.audit_retention.is_zero() { Timestamp::default() } else { now - limits.audit_retention };
    store.forget_changes(oldest, limits.audit_entries).await?;
    let mut removed = 0;
    // Removing a run of a suite also removes the runs that it started.
    for of in [RunsOf::Suites, RunsOf::Tests] {
        let mut found = store.surplus_runs(of, limits.runs_per_test, STEP).await?;
        if !limits.run_retention.is_zero() {
            found.extend(store.runs_before(of, now - limits.run_retention, STEP).await?);
        }
        for (id, number) in found {
            let is_removed = match of {
                RunsOf::Suites => store.delete_suite_run(&id, number).await?,
                RunsOf::Tests => store.delete_run(&id, number).await?,
            };
            removed += usize::from(is_removed);
        }
    }
    Ok(removed)
}
