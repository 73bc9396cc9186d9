//! The limits of texts and trees that all stages share.
//!
//! Parsing refuses what is beyond them, with a diagnostic. Checking, printing, evaluating and writing call themselves
//! for each level of a tree, and rely on it that no tree is deeper.

/// How deep parentheses, lists, calls, selectors and interpolations may stand inside each other, and how many steps one
/// chain of a selector may have: clients read a chain as one object inside the other.
pub const MAX_DEPTH: usize = 48;

/// How deep the lists and objects of a JSON value may stand inside each other.
pub const MAX_JSON_DEPTH: usize = 128;

/// How deep lists and mappings of a definition may nest, in YAML and in JSON.
pub const MAX_DEFINITION_DEPTH: usize = 64;

/// How many values one definition file may hold, in YAML (with its aliases written out) and in JSON.
pub const MAX_DEFINITION_NODES: usize = 250_000;

/// How many values, conditions and filters one text may have: a tree takes a hundred times as much memory as its text.
pub const MAX_PARTS: usize = 50_000;

/// How many bytes the selectors, assertions and outputs of one test may take together.
pub const MAX_LANGUAGE_BYTES: usize = 1024 * 1024;

/// How many diagnostics of one text are kept.
pub(crate) const MAX_DIAGNOSTICS: usize = 100;
