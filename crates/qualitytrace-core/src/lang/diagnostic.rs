//! What is wrong with a user's text, and where.

use std::ops::Range;

/// One thing that is wrong, or odd, about a text of the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Names the kind of trouble; it never changes.
    pub code: &'static str,
    /// Whether the text can be used all the same.
    pub severity: Severity,
    /// The bytes of the text that it is about.
    pub span: Range<usize>,
    /// One sentence.
    pub message: String,
    /// A few words for the place that the span points at.
    pub label: Option<String>,
    /// What to do about it.
    pub help: Option<String>,
}

/// Whether a text can be used all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// It can; something about it is odd.
    Warning,
    /// It cannot.
    Error,
}
