//! Spans that come after the verdict: the run is judged again, and says so when the verdict changes.

use tokio::time::Instant;

use super::execute::Judged;
use super::log::Log;
use super::{Error, Runner};
use crate::wire::What;

impl Runner {
    /// Looks for late spans for a while after the verdict.
    pub(super) async fn watch_late(&self, log: &mut Log, mut judged: Judged) {
        let deadline = Instant::now() + self.config.get().limits.late_window;
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
        let new = judged.arrivals.read(&self.memory).await?;
        if new == 0 {
            return Ok(());
        }
        self.memory.late(&log.run().test, &judged.arrivals.progress).await?;
        let verdict = judged.judge.verdict(&judged.arrivals.trace(&judged.root), Vec::new());
        if verdict.outcome == judged.outcome {
            return Ok(());
        }
        let before = std::mem::replace(&mut judged.outcome, verdict.outcome);
        log.append(What::Late { spans: new, before, verdict }).await
    }
}
