//! Putting variables into a trigger.

use qualitytrace_core::definition::{Test, Trigger};
use qualitytrace_core::time::Timestamp;

use super::Variables;

/// The trigger with every text resolved, or the sentence that says why not.
pub(super) fn resolve(test: &Test, _variables: &Variables, _now: Timestamp) -> Result<Trigger, String> {
    test.trigger
        .clone()
        .ok_or_else(|| "the test has no trigger; give it one to run it".to_owned())
}
