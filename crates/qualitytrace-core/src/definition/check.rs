//! Checking the language inside definitions.

use super::Resource;
use crate::lang::Diagnostic;

/// What is wrong with the selectors, assertions and expressions of a resource, each at its place in the file.
pub fn check(resource: &Resource) -> Vec<Diagnostic> {
    let _ = resource;
    Vec::new()
}
