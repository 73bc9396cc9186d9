//! The result of a connection test to a trace data store.

use schemars::JsonSchema;
use serde::Serialize;

use crate::wire::run::is_blank;

/// The result of each step, in their order; empty for steps that were skipped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Connection {
    /// Whether the port is a usual one.
    pub port_check: Step,
    /// Whether the endpoint accepts connections.
    pub connectivity: Step,
    /// Whether the credentials are accepted.
    pub authentication: Step,
    /// Whether traces can be fetched.
    pub fetch_traces: Step,
}

/// The result of one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectionStep")]
pub struct Step {
    /// Whether the next step can be taken.
    #[serde(skip_serializing_if = "is_blank")]
    pub passed: bool,
    /// `passed`, `warning` or `failed`.
    #[serde(skip_serializing_if = "is_blank")]
    pub status: &'static str,
    /// The message.
    #[serde(skip_serializing_if = "is_blank")]
    pub message: String,
    /// The error, if it failed.
    #[serde(skip_serializing_if = "is_blank")]
    pub error: String,
}
