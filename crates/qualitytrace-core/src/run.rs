//! A run: an append-only list of events, and what follows from it.

use std::time::Duration;

use crate::id::{SpanId, TraceId};
use crate::time::Timestamp;

/// How far a run has come. The words are the ones that clients watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Asked for, not begun.
    Created,
    /// The trigger is under way.
    Executing,
    /// Spans are arriving.
    AwaitingTrace,
    /// The analyzer is at work.
    AnalyzingTrace,
    /// The specs are being judged.
    AwaitingTestResults,
    /// Judged, with whatever verdict.
    Finished,
    /// The trigger could not be sent or got no answer.
    TriggerFailed,
    /// No trace came.
    TraceFailed,
    /// The analyzer could not do its work.
    AnalyzingError,
    /// The specs could not be judged.
    AssertionFailed,
    /// Ended by the user.
    Stopped,
    /// The server went away while the run was under way.
    Failed,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 12] = [
        Self::Created,
        Self::Executing,
        Self::AwaitingTrace,
        Self::AnalyzingTrace,
        Self::AwaitingTestResults,
        Self::Finished,
        Self::TriggerFailed,
        Self::TraceFailed,
        Self::AnalyzingError,
        Self::AssertionFailed,
        Self::Stopped,
        Self::Failed,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Executing => "EXECUTING",
            Self::AwaitingTrace => "AWAITING_TRACE",
            Self::AnalyzingTrace => "ANALYZING_TRACE",
            Self::AwaitingTestResults => "AWAITING_TEST_RESULTS",
            Self::Finished => "FINISHED",
            Self::TriggerFailed => "TRIGGER_FAILED",
            Self::TraceFailed => "TRACE_FAILED",
            Self::AnalyzingError => "ANALYZING_ERROR",
            Self::AssertionFailed => "ASSERTION_FAILED",
            Self::Stopped => "STOPPED",
            Self::Failed => "FAILED",
        }
    }

    /// The state of this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing follows any more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Created
            | Self::Executing
            | Self::AwaitingTrace
            | Self::AnalyzingTrace
            | Self::AwaitingTestResults => false,
            Self::Finished
            | Self::TriggerFailed
            | Self::TraceFailed
            | Self::AnalyzingError
            | Self::AssertionFailed
            | Self::Stopped
            | Self::Failed => true,
        }
    }
}
