//! A series: several runs of one test, started together.

use qualitytrace_core::series::{self, Attempts, RunEnding};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// Retries of a repetition that does not pass.
    pub retries: u32,
    /// The number of repetitions.
    pub repeat: u32,
    /// The runs, in order.
    pub runs: Vec<Attempt>,
    /// The outcome; missing while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Whether every repetition passed in the end, although not every run did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
}

/// One run of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The number of the run.
    pub run: u64,
    /// Its initial trace.
    pub trace_id: String,
    /// Its outcome; missing while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// The outcome of a run, a series or a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It passed.
    Passed,
    /// Some runs passed and some did not.
    Flaky,
    /// It was judged, and did not pass.
    Failed,
    /// Missing spans could change its verdict, or the server could not bring it to its end.
    Inconclusive,
    /// It could not be executed or judged.
    Broken,
    /// The user stopped it.
    Stopped,
}

impl Outcome {
    /// The outcomes of single runs that have ended.
    pub const OF_RUNS: [Self; 5] =
        [Self::Passed, Self::Failed, Self::Inconclusive, Self::Broken, Self::Stopped];

    /// Returns its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Flaky => "flaky",
            Self::Failed => "failed",
            Self::Inconclusive => "inconclusive",
            Self::Broken => "broken",
            Self::Stopped => "stopped",
        }
    }
}

impl Outcome {
    /// Converts it to the outcome of a run.
    pub const fn of_run(self) -> RunEnding {
        match self {
            Self::Passed => RunEnding::Passed,
            Self::Failed => RunEnding::Failed,
            Self::Inconclusive => RunEnding::Inconclusive,
            Self::Stopped => RunEnding::Stopped,
            Self::Broken | Self::Flaky => RunEnding::Broken,
        }
    }

    /// Converts it to the outcome of a series.
    pub const fn of_series(self, recovered: bool) -> series::Outcome {
        match self {
            Self::Passed => series::Outcome::Passed,
            Self::Flaky => series::Outcome::Flaky { recovered },
            Self::Failed => series::Outcome::Failed,
            Self::Inconclusive => series::Outcome::Inconclusive,
            Self::Broken => series::Outcome::Broken,
            Self::Stopped => series::Outcome::Stopped,
        }
    }
}

impl From<RunEnding> for Outcome {
    fn from(ended: RunEnding) -> Self {
        match ended {
            RunEnding::Passed => Self::Passed,
            RunEnding::Failed => Self::Failed,
            RunEnding::Inconclusive | RunEnding::Interrupted => Self::Inconclusive,
            RunEnding::Broken => Self::Broken,
            RunEnding::Stopped => Self::Stopped,
        }
    }
}

impl From<series::Outcome> for Outcome {
    fn from(outcome: series::Outcome) -> Self {
        match outcome {
            series::Outcome::Passed => Self::Passed,
            series::Outcome::Flaky { .. } => Self::Flaky,
            series::Outcome::Failed => Self::Failed,
            series::Outcome::Inconclusive | series::Outcome::Interrupted => Self::Inconclusive,
            series::Outcome::Broken => Self::Broken,
            series::Outcome::Stopped => Self::Stopped,
        }
    }
}

impl Series {
    /// Creates a series without runs.
    pub fn new(attempts: Attempts) -> Self {
        Self {
            retries: attempts.retries,
            repeat: attempts.repeat,
            runs: Vec::new(),
            outcome: None,
            recovered: false,
        }
    }

    /// Sets the outcome.
    pub fn end(&mut self, outcome: series::Outcome) {
        self.outcome = Some(outcome.into());
        self.recovered = outcome == series::Outcome::Flaky { recovered: true };
    }
}
