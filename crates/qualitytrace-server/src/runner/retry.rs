//! Retries while the database is unavailable: an outage of some seconds must not fail the runs in progress.

use std::time::Duration;

use tokio::time::Instant;

use super::Error;

/// How long a run retries.
const LONGEST: Duration = Duration::from_mins(1);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// The deadline for the retries of one operation.
#[derive(Debug)]
pub(super) struct RetryDeadline {
    deadline: Instant,
}

impl RetryDeadline {
    pub(super) fn new() -> Self {
        Self { deadline: Instant::now() + LONGEST }
    }

    /// Whether to retry after this error; sleeps before it returns `true`.
    pub(super) async fn allows_retry(&self, error: &Error) -> bool {
        if !error.is_unavailable() || Instant::now() >= self.deadline {
            return false;
        }
        tracing::warn!(error = error as &dyn std::error::Error, "a run waits for the database");
        tokio::time::sleep(PAUSE).await;
        true
    }
}

/// Retries an operation until the database answers, or the deadline is over. The operation may already have been
/// done when its answer was lost, and must tolerate that.
pub(super) async fn retry_while_unavailable<T, F>(mut operation: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let deadline = RetryDeadline::new();
    loop {
        match operation().await {
            Err(error) if deadline.allows_retry(&error).await => {}
            answer => return answer,
        }
    }
}
