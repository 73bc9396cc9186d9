//! A cursor over a text.

use std::ops::Range;

/// A position in a text. Every step is total: at the end nothing is consumed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'s> {
    pub(super) text: &'s str,
    pub(super) at: usize,
}

impl<'s> Cursor<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(super) fn starts_with(&self, prefix: &str) -> bool {
        self.rest().starts_with(prefix)
    }

    pub(super) fn eat(&mut self, prefix: &str) -> bool {
        let found = self.starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Returns the text from `start` to the current position.
    pub(super) fn since(&self, start: usize) -> &'s str {
        &self.text[start..self.at]
    }

    /// Returns the range of the next word, for diagnostics about unexpected text.
    pub(super) fn next_word(&self) -> Range<usize> {
        let mut ahead = *self;
        let word = ahead.take_while(|c| c.is_alphanumeric() || c == '_');
        if word.is_empty() {
            ahead.bump();
        }
        self.at..ahead.at
    }
}
