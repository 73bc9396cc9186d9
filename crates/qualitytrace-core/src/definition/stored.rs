//! The server's data about a stored resource, which its JSON contains beside the definition.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::shape::is_blank;

/// The server's data about a resource beside its definition. Empty for one that is not stored.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// Its id, when the definition has none.
    pub id: Option<String>,
    /// When it was first stored, in RFC 3339.
    pub created_at: Option<String>,
    /// Its version, counted from 1.
    pub version: Option<u32>,
    /// The tests of a suite, in full.
    pub full_steps: Option<Vec<Value>>,
    /// A summary of its runs.
    pub summary: Option<Summary>,
}

/// How the runs of a test or a suite went.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Summary {
    /// How many there were.
    pub runs: u64,
    /// The latest.
    pub last_run: LastRun,
    /// Only if the test has series.
    #[serde(skip_serializing_if = "is_blank")]
    pub flakiness: Option<Flakiness>,
    /// The latest runs of a test, newest first.
    #[serde(skip_serializing_if = "is_blank")]
    pub history: Vec<PastRun>,
}

/// A run in the history of a test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PastRun {
    /// The number of the run.
    pub run: u64,
    /// `passed`, `failed`, `inconclusive`, `broken` or `stopped`; null until it ends.
    pub outcome: Option<String>,
    /// Nanoseconds from its request to its end; null until it ends.
    pub duration: Option<String>,
}

/// How the latest run went.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LastRun {
    /// When it was started, in RFC 3339.
    pub time: String,
    /// Assertions that held.
    pub passes: u64,
    /// Assertions that did not.
    pub fails: u64,
    /// Always 0.
    pub analyzer_score: u64,
    /// The outcome of the run of a test; missing until it ends.
    #[serde(skip_serializing_if = "is_blank")]
    pub outcome: Option<String>,
}

/// The flakiness of a test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flakiness {
    /// The number of series.
    pub series: u64,
    /// The number of series that both passed and failed.
    pub flaky: u64,
    /// `flaky` divided by `series`.
    pub rate: f64,
}
