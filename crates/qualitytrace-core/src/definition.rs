//! What users write: tests and the resources around them.

use std::ops::Range;

/// A text of the user's, with the place where it stands in its file.
///
/// Two texts are equal when they say the same, wherever they stand.
#[derive(Debug, Clone, Default)]
pub struct Text {
    /// What it says, after YAML or JSON decoding.
    pub value: String,
    /// The bytes of the file that it was read from; `None` for a text that did not come from a file.
    pub origin: Option<Range<usize>>,
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Text {}

impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self {
            value: value.to_owned(),
            origin: None,
        }
    }
}

/// What must hold for the spans that a selector picks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// A title for reports.
    pub name: Option<String>,
    /// Which spans; an empty text means all of them.
    pub selector: Text,
    /// What must hold for each of them.
    pub assertions: Vec<Text>,
}

/// A value that a test hands to its own specs and to later tests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The variable that it becomes.
    pub name: Text,
    /// Which span to read it from.
    pub selector: Text,
    /// The expression that gives its value.
    pub value: Text,
}
