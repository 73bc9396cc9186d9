//! Resolution of variables in a trigger.

use qualitytrace_core::definition::{Test, Trigger};
use qualitytrace_core::lang::{self, Generator};

use crate::base::compute;
use crate::storage::variables::Variables;

/// Returns the trigger with every text resolved, or a sentence that says why not.
pub(super) fn resolve(
    test: &Test,
    variables: &Variables,
    generator: &mut Generator,
) -> Result<Trigger, String> {
    let trigger = test.trigger.as_ref().ok_or("the test has no trigger; give it one to run it")?;
    let variables = variables.iter().cloned().collect();
    let budget = compute::budget();
    trigger.resolved(|text| {
        lang::resolve_text(text, &variables, generator, &budget)
            .map_err(|error| format!("`{text}` cannot be resolved: {error}"))
    })
}
