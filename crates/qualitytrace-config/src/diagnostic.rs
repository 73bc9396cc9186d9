//! Diagnostics of a configuration, with their positions.

use std::fmt;

use crate::nearest::nearest;
use crate::position::Position;

/// Where a setting came from. A higher layer is greater than a lower one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A default: it was not set.
    Default,
    /// A position in a file.
    File {
        /// The file as it was named.
        path: String,
        /// The position in it.
        position: Position,
    },
    /// An environment variable.
    Environment(String),
    /// A command line flag.
    Flag(String),
}

impl Origin {
    /// The rank of its layer; all files are one layer.
    pub fn layer(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Environment(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, position } => write!(f, "{path}:{position}"),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information; no action is needed.
    Note,
    /// The setting is ignored, or may not mean what was intended.
    Warning,
    /// The server must not start with this configuration.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One finding about a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// The position of the key or value.
    pub origin: Origin,
    /// The key as the user wrote it.
    pub key: String,
    /// The value as the user wrote it; `None` when the key itself is wrong or the value is secret.
    pub value: Option<String>,
    /// One sentence that says what is wrong.
    pub message: String,
    /// What to write instead, when that is known.
    pub help: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.origin, self.severity, self.message)?;
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}

/// Collects diagnostics while a configuration is read.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The diagnostics so far.
    pub diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// Whether the server must not start.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Adds a diagnostic about a key.
    pub fn push(
        &mut self,
        severity: Severity,
        origin: &Origin,
        key: &str,
        message: String,
        help: Option<String>,
    ) {
        self.diagnostics.push(Diagnostic {
            severity,
            origin: origin.clone(),
            key: key.to_owned(),
            value: None,
            message,
            help,
        });
    }

    /// Adds an error.
    pub fn error(&mut self, origin: &Origin, key: &str, message: String, help: Option<String>) {
        self.push(Severity::Error, origin, key, message, help);
    }

    /// Adds a note, which needs no action.
    pub fn note(&mut self, origin: &Origin, key: &str, message: String) {
        self.push(Severity::Note, origin, key, message, None);
    }

    /// Adds a diagnostic about a value that is not one of the allowed ones.
    pub fn bad_value(&mut self, severity: Severity, origin: &Origin, key: &str, value: &str, allowed: &str) {
        let words: Vec<&str> = allowed.split(['|', ',']).map(str::trim).collect();
        let guess = nearest(value, words.iter().copied()).map(|word| format!("did you mean `{word}`?"));
        self.diagnostics.push(Diagnostic {
            severity,
            origin: origin.clone(),
            key: key.to_owned(),
            value: Some(value.to_owned()),
            message: format!("`{key}` cannot be `{value}`: expected {allowed}"),
            help: guess,
        });
    }

    /// Adds an error about an unknown key, with the nearest known one.
    pub fn unknown_key<'a>(&mut self, origin: &Origin, key: &str, known: impl IntoIterator<Item = &'a str>) {
        let help = nearest(key, known).map(|word| format!("did you mean `{word}`?"));
        self.error(origin, key, format!("`{key}` is not a known setting"), help);
    }
}
