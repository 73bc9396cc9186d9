//! The result of a connection test to a trace data store.

use schemars::JsonSchema;
use serde::Serialize;

use super::run::is_blank;

/// Each step, in the order in which they are taken; empty for those that are not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Connection {
    /// Whether the port is a usual one.
    pub port_check: Step,
    /// Whether somebody listens.
    pub connectivity: Step,
    /// Whether we are let in.
    pub authentication: Step,
    /// Whether traces can be fetched.
    pub fetch_traces: Step,
}

/// How one step went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectionStep")]
pub struct Step {
    /// Whether nothing speaks against going on.
    #[serde(skip_serializing_if = "is_blank")]
    pub passed: bool,
    /// `passed`, `warning` or `failed`.
    #[serde(skip_serializing_if = "is_blank")]
    pub status: &'static str,
    /// A sentence.
    #[serde(skip_serializing_if = "is_blank")]
    pub message: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "is_blank")]
    pub error: String,
}
