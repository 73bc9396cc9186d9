//! Variables: named texts, from variable sets, from outputs, or given with a run.

use std::collections::BTreeMap;

/// Named texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Makes an empty set of variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the text of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets the text of this name.
    pub fn set(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.0.insert(name.into(), text.into());
    }

    /// Merges `overlay` into these: where both have a name, the overlay's text counts.
    #[must_use]
    pub fn merged(mut self, overlay: &Self) -> Self {
        self.0.extend(overlay.0.iter().map(|(name, text)| (name.clone(), text.clone())));
        self
    }

    /// Iterates over names and texts, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Returns the number of variables.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no variables.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>, T: Into<String>> FromIterator<(N, T)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, text)| (name.into(), text.into())).collect())
    }
}
