//! Who answers whom, from samples of all traces that arrive: most of them belong to no run.
//!
//! A call and its answer are usually sent by two services in two requests, so they are found in the stored trace. Only a
//! few traces a second are looked at, beside everything else.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::wait::{Begin, Progress};

use super::{Error, Runner};
use crate::clock;
use crate::variables::mask_of_trace;

/// How often it is looked.
const INTERVAL: Duration = Duration::from_secs(1);
/// Traces that are looked at each time.
const TRACES: usize = 8;
/// Spans of a trace that is looked at; larger ones are left out.
const SPANS: u64 = 1_000;
/// How long nothing must have been added to a trace: both sides of a call should be there.
const SETTLED: Duration = Duration::from_secs(6);

impl Runner {
    /// Looks at samples, and stores what is known of services now and then.
    pub(super) async fn look_at_samples(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for trace in self.source.take_samples(clock::now() - SETTLED, TRACES) {
                if let Err(error) = self.look_at_sample(trace).await {
                    tracing::debug!(error = &error as &dyn std::error::Error, %trace, "failed to look at a trace");
                }
            }
            if let Err(error) = self.memory.store_lags(false).await {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "failed to store what is known of services"
                );
            }
        }
    }

    async fn look_at_sample(&self, trace: TraceId) -> Result<(), Error> {
        if self.store.span_count(trace).await? > SPANS {
            return Ok(());
        }
        let spans = self.source.load(trace).await?;
        let mut progress = Progress::new(Begin::Attached, Arc::default());
        for span in spans.spans() {
            progress.arrived(span, clock::now());
        }
        let answers = progress.take_answers();
        if !answers.is_empty() {
            self.memory.answered(answers, &mask_of_trace(&self.store, trace).await?);
        }
        Ok(())
    }
}
