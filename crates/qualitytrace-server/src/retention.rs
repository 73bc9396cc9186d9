//! Runs that have had their time: removed in the background, a few at a time, with all that belongs to them.

use std::time::Duration;

use qualitytrace_core::time::Timestamp;

use crate::clock;
use crate::config::Live;
use crate::limits::Limits;
use crate::store::{self, Store};

/// How often old runs are looked for.
const INTERVAL: Duration = Duration::from_mins(1);
/// Runs that are looked up at one time; each is removed on its own, so that nobody waits for long.
const STEP: u64 = 100;
/// How long others have the database to themselves between two steps.
const PAUSE: Duration = Duration::from_millis(50);

/// Removes old runs for as long as it is polled.
pub(crate) async fn keep(store: Store, config: Live) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        loop {
            match step(&store, &config.get().limits, clock::now()).await {
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

/// Removes some of the runs that are too old or too many, and answers with their number.
pub async fn step(store: &Store, limits: &Limits, now: Timestamp) -> Result<usize, store::Error> {
    let mut found = store.surplus_runs(limits.runs_per_test, STEP).await?;
    if !limits.run_retention.is_zero() {
        found.extend(store.runs_before(now - limits.run_retention, STEP).await?);
    }
    let mut removed = 0;
    for (test, number) in found {
        removed += usize::from(store.delete_run(&test, number).await?);
    }
    Ok(removed)
}
