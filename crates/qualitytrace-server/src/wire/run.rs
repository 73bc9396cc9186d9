//! A run as clients see it, in the shape of Tracetest's API, including its omissions.

mod analysis;
mod selector;
mod spans;
pub(super) mod trigger;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Omitted;
use super::request::InSeries;

pub use analysis::{FailedRule, Linter, RulePage, ShortPlugin, ShortRule, analysis};
pub use selector::{Selector, selector};
pub use spans::{RunTrace, ShownTrace, imported_trace};
pub use trigger::{Trigger, TriggerOutcome, definition_trigger, trigger};

/// A run. Empty values are left out, except for objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Run {
    /// Its number among the runs of its test.
    pub id: u64,
    /// The trace of the run.
    pub trace_id: String,
    /// The span of the trigger.
    pub span_id: String,
    /// The version of the test that was run.
    pub test_version: u64,
    /// Its state.
    pub state: String,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "is_blank")]
    pub last_error_state: String,
    /// Its duration in seconds, rounded up.
    pub execution_time: u64,
    /// The duration of the trigger in milliseconds.
    #[serde(skip_serializing_if = "is_blank")]
    pub trigger_time: u64,
    /// When it was created.
    pub created_at: String,
    /// When the trigger was sent.
    pub service_triggered_at: String,
    /// When the trigger got its response.
    pub service_trigger_completed_at: String,
    /// When the wait for the trace ended.
    pub obtained_trace_at: String,
    /// When it ended.
    pub completed_at: String,
    /// The given variables, updated with the outputs.
    pub variable_set: VariableSet,
    /// The trigger with its values.
    pub resolved_trigger: Trigger,
    /// The result of the trigger.
    pub trigger_result: TriggerOutcome,
    /// The trace; empty in lists.
    pub trace: RunTrace,
    /// The results of the specs.
    pub result: Results,
    /// The report of the analyzer.
    pub linter: Linter,
    /// The values of its outputs.
    #[serde(skip_serializing_if = "is_blank")]
    pub outputs: Vec<Output>,
    /// The result of the gates.
    pub required_gates_result: Gates,
    /// Free-form metadata.
    #[serde(skip_serializing_if = "is_blank")]
    pub metadata: Map<String, Value>,
    /// The suite that it is a step of.
    #[serde(skip_serializing_if = "is_blank")]
    pub test_suite_id: String,
    /// The run of that suite.
    #[serde(skip_serializing_if = "is_blank")]
    pub test_suite_run_id: u64,
    /// Its position in a series.
    #[serde(skip_serializing_if = "is_blank")]
    pub series: Option<InSeries>,
    /// What is missing of the trace and could change the result: if there is any, the run is inconclusive.
    #[serde(skip_serializing_if = "is_blank")]
    pub missing: Vec<String>,
}

/// The results of specs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Results {
    /// Whether all of them passed.
    #[serde(skip_serializing_if = "is_blank")]
    pub all_passed: bool,
    /// One for each spec.
    #[serde(skip_serializing_if = "is_blank")]
    pub results: Vec<SpecResult>,
}

/// The results of one spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SpecResult {
    /// The selector of the spec.
    pub selector: Selector,
    /// One for each assertion.
    pub results: Vec<AssertionResult>,
}

/// The results of one assertion.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AssertionResult {
    /// The assertion, as written.
    pub assertion: String,
    /// Whether it holds for all spans.
    #[serde(skip_serializing_if = "is_blank")]
    pub all_passed: bool,
    /// One for each span, or one for all of them.
    pub span_results: Vec<SpanResult>,
    /// The number of results beyond the storage limit.
    #[serde(skip_serializing_if = "is_blank")]
    pub omitted: Omitted,
}

/// The result of one assertion on one span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SpanResult {
    /// The span.
    #[serde(skip_serializing_if = "is_blank")]
    pub span_id: String,
    /// The value of the left side.
    #[serde(skip_serializing_if = "is_blank")]
    pub observed_value: String,
    /// Whether it holds.
    #[serde(skip_serializing_if = "is_blank")]
    pub passed: bool,
    /// The error message.
    #[serde(skip_serializing_if = "is_blank")]
    pub error: String,
}

/// The value of an output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Output {
    /// The name of the variable.
    #[serde(skip_serializing_if = "is_blank")]
    pub name: String,
    /// The span that it was read from.
    #[serde(skip_serializing_if = "is_blank")]
    pub span_id: String,
    /// Its value.
    #[serde(skip_serializing_if = "is_blank")]
    pub value: String,
    /// Why it has none.
    #[serde(skip_serializing_if = "is_blank")]
    pub error: String,
}

/// The variables of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "RunVariables")]
pub struct VariableSet {
    /// The variable set that was named.
    #[serde(skip_serializing_if = "is_blank")]
    pub id: String,
    /// Its title.
    #[serde(skip_serializing_if = "is_blank")]
    pub name: String,
    /// Its description.
    #[serde(skip_serializing_if = "is_blank")]
    pub description: String,
    /// The variables.
    #[serde(skip_serializing_if = "is_blank")]
    pub values: Vec<Pair>,
    /// Those of the values that the run was given beside the set: what to send, with the set, to run the same again.
    #[serde(skip_serializing_if = "is_blank")]
    pub given: Vec<GivenVariable>,
}

/// A variable that a run was given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GivenVariable {
    /// Its name.
    #[serde(skip_serializing_if = "is_blank")]
    pub key: String,
    /// `secret`, if it is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its value, if an output of the same name has replaced it among the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// A variable or a header: name and value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pair {
    /// Its name.
    #[serde(skip_serializing_if = "is_blank")]
    pub key: String,
    /// Its value.
    #[serde(skip_serializing_if = "is_blank")]
    pub value: String,
}

/// The result of the gates of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Gates {
    /// The required gates.
    pub required: Vec<String>,
    /// The gates that failed, required or not.
    pub failed: Vec<String>,
    /// Whether the required gates passed.
    pub passed: bool,
    /// The required gates that failed only because spans may be missing.
    #[serde(skip_serializing_if = "is_blank")]
    pub inconclusive: Vec<String>,
}

impl Gates {
    /// Whether all required gates that failed are inconclusive.
    pub fn is_inconclusive(&self) -> bool {
        let missed = self.failed.iter().filter(|gate| self.required.contains(gate));
        !self.inconclusive.is_empty() && missed.count() == self.inconclusive.len()
    }
}

/// Whether a value is the default, which is left out.
pub(super) fn is_blank<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
