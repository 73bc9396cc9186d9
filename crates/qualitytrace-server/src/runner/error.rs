//! Errors of the runner.

use crate::storage::store;

/// Errors of our own side that end a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The test was deleted meanwhile.
    #[error("test {test} is not there any more")]
    Gone {
        /// The test.
        test: String,
    },
    /// The queue is full.
    #[error("{bound} runs are waiting for their turn, which is the limit (runs.queue); try again later")]
    QueueFull {
        /// The limit.
        bound: u64,
    },
    /// The run was deleted, or another server has taken it over.
    #[error("the run was deleted, or another server has taken it over")]
    Lost,
    /// The trace of one run takes more memory than all runs together may.
    #[error(
        "the trace takes more memory than the {limit} bytes that runs have for traces (limits.apiBytes); send fewer \
         spans, or raise the limit"
    )]
    TraceTooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The task of a suite step panicked or was cancelled.
    #[error("a step of a suite was interrupted")]
    Step {
        /// The error of the task.
        #[source]
        source: tokio::task::JoinError,
    },
    /// The stored definition cannot be read as a test.
    #[error("the stored definition of test {test} is not a test")]
    Definition {
        /// The test.
        test: String,
    },
}

impl Error {
    /// Whether the operation may be retried: the database is unavailable, or cannot do it now.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_temporary())
    }

    /// The message to clients for a temporary error.
    pub(crate) fn temporary_message(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => error.temporary_message(),
            _ => None,
        }
    }

    /// Whether nothing was done and a retry may succeed.
    pub(super) fn was_not_begun(&self) -> bool {
        match self {
            Self::QueueFull { .. } => true,
            Self::Store(error) => error.was_not_sent(),
            _ => false,
        }
    }
}
