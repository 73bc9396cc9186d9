//! A trigger that was sent once, without a run.

use qualitytrace_core::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::event::{Event, RunEventKind};
use super::fold::{RunState, trigger_result};
use super::run::{Trigger, TriggerOutcome, trigger};

/// The result of a trigger without a run. Times are nanoseconds, as texts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SentTrigger {
    /// The trace that it causes: `/api/traces/{id}` shows it as soon as spans arrive.
    trace_id: String,
    /// The span of the trigger, which the first span of the system under test has as its parent.
    span_id: String,
    /// When it was sent, in nanoseconds since the epoch.
    start: String,
    /// Nanoseconds until the end of the response, or until it failed.
    duration: String,
    /// The trigger with its values, as in a run.
    resolved_trigger: Trigger,
    /// The response, as in a run.
    trigger_result: TriggerOutcome,
    /// Why there is no response; null if there is one.
    failure: Option<TriggerFailure>,
    /// A warning about the security of the trigger.
    warning: Option<String>,
}

/// Why a trigger got no response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerFailure {
    /// The class: `invalid`, `dns`, `refused`, `unreachable`, `tls`, `timeout`, `cut`, `too-large`, `protocol`,
    /// `credentials`, `missing`, `denied` or `unsupported`.
    reason: String,
    /// One sentence, with the next step.
    message: String,
    /// Whether no connection was established.
    connection: bool,
}

impl SentTrigger {
    /// Makes the shape of what happened between these times.
    pub fn of(trace_id: String, span_id: String, start: Timestamp, end: Timestamp, events: &[Event]) -> Self {
        let facts = RunState::of(events);
        let warning = events.iter().find_map(|event| match &event.what {
            RunEventKind::Resolved { warning, .. } => warning.clone(),
            _ => None,
        });
        let failure = events.iter().find_map(|event| match &event.what {
            RunEventKind::TriggerFailed { reason, message, connection, .. } => Some(TriggerFailure {
                reason: reason.clone(),
                message: message.clone(),
                connection: *connection,
            }),
            _ => None,
        });
        Self {
            trace_id,
            span_id,
            start: start.as_nanos().to_string(),
            duration: end.since(start).as_nanos().to_string(),
            resolved_trigger: trigger(facts.trigger.as_ref()),
            trigger_result: trigger_result(&facts),
            failure,
            warning,
        }
    }
}
