//! Lines of a text, and replacements of its parts.

use std::ops::Range;

/// New text for a range of the old one.
#[derive(Debug, Clone)]
pub(super) struct Replacement {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Replacement {
    pub(super) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self { range: at..at, text: text.into() }
    }

    pub(super) fn remove(range: Range<usize>) -> Self {
        Self { range, text: String::new() }
    }
}

/// Replaces parts of a text; `None` when two of them overlap.
pub(super) fn replaced(source: &str, mut replacements: Vec<Replacement>) -> Option<String> {
    replacements.sort_by_key(|replacement| replacement.range.start);
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    for Replacement { range, text } in replacements {
        out.push_str(source.get(at..range.start)?);
        out.push_str(&text);
        at = range.end.max(range.start);
    }
    out.push_str(source.get(at..)?);
    Some(out)
}

/// The lines of a text, by the positions in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'s>(pub(super) &'s str);

impl<'s> Lines<'s> {
    /// Returns where the line with this position begins.
    pub(super) fn start(self, at: usize) -> usize {
        self.before(at).rfind('\n').map_or(0, |found| found + 1)
    }

    /// Returns where the line after the one with this position begins, or the end of the text.
    pub(super) fn next(self, at: usize) -> usize {
        let found = self.0.get(at..).and_then(|rest| rest.find('\n'));
        found.map_or(self.0.len(), |found| at + found + 1)
    }

    /// Returns the line that begins here, with its end.
    pub(super) fn line(self, start: usize) -> &'s str {
        self.0.get(start..self.next(start)).unwrap_or_default()
    }

    /// Returns how many bytes of its line are before a position.
    pub(super) fn column(self, at: usize) -> usize {
        at - self.start(at)
    }

    /// Returns how lines near this position end.
    pub(super) fn ending(self, at: usize) -> &'static str {
        let end = self.before(at).rfind('\n').or_else(|| self.0.find('\n'));
        if end.is_some_and(|end| self.before(end).ends_with('\r')) { "\r\n" } else { "\n" }
    }

    /// Returns where the blank lines directly before a line begin.
    pub(super) fn before_blanks(self, start: usize) -> usize {
        let mut at = start;
        while at > 0 {
            let above = self.start(at - 1);
            if !is_blank(self.line(above)) {
                break;
            }
            at = above;
        }
        at
    }

    /// Returns where the blank lines that begin here end.
    pub(super) fn after_blanks(self, start: usize) -> usize {
        let mut at = start;
        while at < self.0.len() && is_blank(self.line(at)) {
            at = self.next(at);
        }
        at
    }

    fn before(self, at: usize) -> &'s str {
        self.0.get(..at).unwrap_or_default()
    }
}

pub(super) fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

pub(super) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Returns the number of spaces that a line begins with.
pub(super) fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
