//! Specs about the answer to an imported request.

use crate::definition::Spec;
use crate::names::{RESPONSE_STATUS, TRIGGER_SPAN};

/// The selector of the request itself.
pub(super) fn trigger_selector() -> String {
    format!("span[name=\"{TRIGGER_SPAN}\"]")
}

/// A spec about the answer to the request.
pub(super) fn answer_spec(name: &str, assertions: Vec<String>) -> Spec {
    Spec {
        name: Some(name.to_owned()),
        selector: trigger_selector().into(),
        within: None,
        assertions: assertions.into_iter().map(Into::into).collect(),
    }
}

/// The spec that the answer has this status.
pub(super) fn status_spec(status: u64) -> Spec {
    answer_spec(
        &format!("The answer has status {status}"),
        vec![format!("attr:{RESPONSE_STATUS} = {status}")],
    )
}

/// The spec that the answer is no error.
pub(super) fn no_error_spec() -> Spec {
    answer_spec("The answer is no error", vec![format!("attr:{RESPONSE_STATUS} < 400")])
}
