//! Retries while the database is unavailable or its disk is full: an outage of some seconds must not fail the runs in
//! progress.

use std::time::Duration;

use tokio::time::Instant;

use super::Error;

/// How long a run retries.
const LONGEST: Duration = Duration::from_mins(1);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// The pause between two attempts to write the end of a run that failed.
const LONG_PAUSE: Duration = Duration::from_secs(1);

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
        if !error.is_temporary() || Instant::now() >= self.deadline {
            return false;
        }
        tracing::warn!(error = error as &dyn std::error::Error, "a run waits for the database");
        tokio::time::sleep(PAUSE).await;
        true
    }
}

/// Pauses before the end of a run that failed is written again. While this server lives, no other one would end that
/// run, so the end is written as soon as the database can, whatever the error is.
pub(super) async fn pause_before_end(error: &Error) {
    tracing::warn!(error = error as &dyn std::error::Error, "the end of a run cannot be stored yet");
    tokio::time::sleep(LONG_PAUSE).await;
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
