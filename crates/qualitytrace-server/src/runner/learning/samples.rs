//! Samples of all stored traces, to learn which service answers which address: most traces belong to no run.
//!
//! A call and its answer are usually exported by two services in two requests, so they are matched in the stored
//! trace. Only a few traces per second are sampled, in the background.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::wait::{Begin, Progress};

use super::Learning;
use crate::base::clock;
use crate::receive::source::Source;
use crate::runner::Error;
use crate::storage::variables::redactor_of_trace;

/// The sampling interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// Traces per interval.
const TRACES: usize = 8;
/// The most spans of a sampled trace; larger ones are skipped.
const SPANS: u64 = 1_000;
/// The same in bytes of memory.
const BYTES: u64 = 16 << 20;
/// How long a trace must have been unchanged: both sides of a call should have arrived.
const UNCHANGED: Duration = Duration::from_secs(6);

impl Learning {
    /// Samples traces, and stores what is known of services from time to time.
    pub(in crate::runner) async fn sample_traces(self: Arc<Self>, source: Source) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for trace in source.ingest().take_samples(clock::now() - UNCHANGED, TRACES) {
                if let Err(error) = self.sample_trace(&source, trace).await {
                    tracing::debug!(error = &error as &dyn std::error::Error, %trace, "failed to look at a trace");
                }
            }
            if let Err(error) = self.store_lags(false).await {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "failed to store what is known of services"
                );
            }
        }
    }

    async fn sample_trace(&self, source: &Source, trace: TraceId) -> Result<(), Error> {
        if self.store.span_count(trace).await? > SPANS || source.size(&[trace]).await?.in_memory() > BYTES {
            return Ok(());
        }
        let spans = source.load(trace).await?;
        let mut progress = Progress::new(Begin::Attached, Arc::default());
        for span in spans.spans() {
            progress.arrived(span, clock::now());
        }
        let observations = progress.take_observations().of_answers();
        if !observations.is_empty() {
            self.observed(observations, &redactor_of_trace(&self.store, trace).await?);
        }
        Ok(())
    }
}
