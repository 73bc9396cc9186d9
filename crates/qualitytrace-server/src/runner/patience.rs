//! A database that is away for some seconds must not fail the runs under way.

use std::time::Duration;

use tokio::time::Instant;

use super::Error;

/// How long a run waits for the database.
const LONGEST: Duration = Duration::from_mins(1);
/// How often it asks.
const PAUSE: Duration = Duration::from_millis(200);

/// What a run has for the database while it asks for one thing.
#[derive(Debug)]
pub(super) struct Patience {
    deadline: Instant,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { deadline: Instant::now() + LONGEST }
    }

    /// Whether to ask again after this error, when the time for that has come.
    pub(super) async fn lasts(&self, error: &Error) -> bool {
        if !error.is_away() || Instant::now() >= self.deadline {
            return false;
        }
        tracing::warn!(error = error as &dyn std::error::Error, "a run waits for the database");
        tokio::time::sleep(PAUSE).await;
        true
    }
}

/// Asks until the database answers, or has been away for too long. What is asked may have been done although nobody said
/// so, and is asked again all the same.
pub(super) async fn patiently<T, F>(mut ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let patience = Patience::new();
    loop {
        match ask().await {
            Err(error) if patience.lasts(&error).await => {}
            answer => return answer,
        }
    }
}
