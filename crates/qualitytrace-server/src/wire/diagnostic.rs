//! A diagnostic of a text that a client sent.

use qualitytrace_core::lang;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::utf16::Utf16Offsets;

/// An error or a warning about a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Diagnostic {
    /// The kind of mistake; stable across versions.
    pub code: String,
    /// Whether the text is invalid.
    pub severity: Severity,
    /// One sentence that says what is wrong.
    pub message: String,
    /// Where it begins, in UTF-16 code units.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// A suggestion.
    pub help: Option<String>,
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The text has a meaning, but maybe not the intended one.
    Warning,
    /// The text is invalid.
    Error,
}

impl Diagnostic {
    /// Makes the shape of a diagnostic; `offsets` are those of its text.
    pub fn of(diagnostic: &lang::Diagnostic, offsets: &Utf16Offsets<'_>) -> Self {
        Self {
            code: diagnostic.code.to_owned(),
            severity: match diagnostic.severity {
                lang::Severity::Warning => Severity::Warning,
                lang::Severity::Error => Severity::Error,
            },
            message: diagnostic.message.clone(),
            from: offsets.from_byte(diagnostic.span.start),
            to: offsets.from_byte(diagnostic.span.end),
            help: diagnostic.help.clone(),
        }
    }
}
