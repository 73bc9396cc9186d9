//! The request that started a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::storage::store::StoredRun;

/// The request that started a run, without the values of its variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunRequest {
    /// Free-form metadata of the run.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The variable set that was named; without values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable_set: Option<Value>,
    /// The gates that the run must pass.
    pub required_gates: Vec<String>,
    /// The names of the variables in their order.
    pub variables: Vec<String>,
    /// The names of those whose values are those of the variable set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from_set: Vec<String>,
    /// Settings of this run, which override those of the server.
    #[serde(skip_serializing_if = "RunSettings::is_empty")]
    pub settings: RunSettings,
    /// The run of a suite that this run is a step of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<SuiteRun>,
    /// The series that this run belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<InSeries>,
}

/// Settings of one run. Those that are objects are the `spec` of a resource of that kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RunSettings {
    /// The rules of the analyzer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analyzer: Option<Map<String, Value>>,
    /// How to wait for the trace of a test that has no profile of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polling_profile: Option<Map<String, Value>>,
    /// Services that send no spans, besides those that the server, the profile and the test name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uninstrumented: Vec<String>,
}

impl RunSettings {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl RunRequest {
    /// Returns the request that started this run.
    pub fn of(run: &StoredRun) -> Self {
        serde_json::from_str(&run.request).unwrap_or_default()
    }

    /// Returns the index of its step in the suite, counted from 0.
    pub fn step(&self) -> Option<usize> {
        let step: usize = self.metadata.get("step")?.as_str()?.parse().ok()?;
        self.suite.as_ref()?;
        step.checked_sub(1)
    }
}

/// A reference to a run of a suite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteRun {
    /// The suite.
    pub id: String,
    /// The number of the run.
    pub run: u64,
}

/// The position of a run in its series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InSeries {
    /// The first run; 0 for the first run itself.
    pub first: u64,
    /// Its number in the series, counted from 1.
    pub attempt: u32,
}

impl InSeries {
    /// Returns the number of the first run of the series, where `run` has this position.
    pub const fn first_run(self, run: u64) -> u64 {
        if self.first == 0 { run } else { self.first }
    }
}
