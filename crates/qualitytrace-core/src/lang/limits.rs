//! Limits of texts and trees that all stages share.
//!
//! The parser refuses larger texts with a diagnostic. Checking, printing, evaluating and writing recurse over the
//! levels of a tree and rely on this limit.

/// Maximum nesting of parentheses, lists, calls, selectors and interpolations, and maximum number of steps in one
/// chain of a selector: clients represent a chain as nested objects.
pub const MAX_DEPTH: usize = 48;

/// Maximum nesting of lists and mappings in a definition, in YAML and in JSON.
pub const MAX_DEFINITION_DEPTH: usize = 64;

/// Maximum number of values in one definition file, in YAML (with its aliases expanded) and in JSON.
pub const MAX_DEFINITION_NODES: usize = 250_000;

/// Maximum number of values, conditions and filters in one text: a tree takes a hundred times as much memory as
/// its text.
pub const MAX_PARTS: usize = 50_000;

/// Maximum total size of the selectors, assertions and outputs of one test, in bytes.
pub const MAX_LANGUAGE_BYTES: usize = 1024 * 1024;

/// Maximum number of diagnostics kept for one text.
pub(crate) const MAX_DIAGNOSTICS: usize = 100;
