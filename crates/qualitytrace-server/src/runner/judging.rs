//! The two questions to the language: what is still open, and what is the verdict.

use qualitytrace_core::definition::Test;
use qualitytrace_core::trace::Trace;
use qualitytrace_core::wait::Standing;

use super::Variables;
use crate::wire::{Outcome, Verdict};

/// A test whose specs are ready to be judged.
#[derive(Debug)]
pub(super) struct Judge {}

impl Judge {
    pub(super) fn compile(_test: &Test, _variables: Variables) -> Self {
        Self {}
    }

    /// What the specs say about the spans that are here.
    pub(super) fn standing(&self, _trace: &Trace) -> Standing {
        Standing::default()
    }

    /// The verdict on a trace. `missing` says what could still change it.
    pub(super) fn verdict(&self, _trace: &Trace, missing: Vec<String>) -> Verdict {
        Verdict {
            outcome: Outcome::Passed,
            missing,
            specs: vec![],
            outputs: vec![],
        }
    }
}
