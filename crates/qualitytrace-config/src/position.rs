//! Byte spans and positions in a text.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;

use crate::Origin;

/// Bytes of a text.
pub type Span = Range<usize>;

/// A position in a text: line, and column in characters, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// The beginning of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Returns the position of a byte of the text; the end of the text if there is no character at this byte.
    pub fn of(text: &str, byte: usize) -> Self {
        Self::START.after(text.get(..byte).unwrap_or(text))
    }

    /// Returns the position behind `text` when that begins here.
    fn after(self, text: &str) -> Self {
        match text.rfind('\n') {
            None => Self { column: self.column + text.chars().count(), ..self },
            Some(end) => Self {
                line: self.line + text.matches('\n').count(),
                column: text[end + 1..].chars().count() + 1,
            },
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A text with its name, for the positions of what was read from it. A byte order mark has no column: editors do not
/// show it.
#[derive(Debug)]
pub struct SourceText<'t> {
    name: &'t str,
    text: &'t str,
    /// The last byte that was asked for, and its position: most texts are read from the beginning to the end.
    last: Cell<(usize, Position)>,
}

impl<'t> SourceText<'t> {
    /// A text and the name that diagnostics call it by: most often its file.
    pub fn new(name: &'t str, text: &'t str) -> Self {
        Self { name, text, last: Cell::new((mark(text), Position::START)) }
    }

    /// Returns the position of a byte; the end of the text if there is no character at this byte.
    pub fn position(&self, byte: usize) -> Position {
        let begin = mark(self.text);
        let byte = if self.text.is_char_boundary(byte) { byte.max(begin) } else { self.text.len() };
        let (start, from) =
            Some(self.last.get()).filter(|(at, _)| *at <= byte).unwrap_or((begin, Position::START));
        let position = from.after(&self.text[start..byte]);
        self.last.set((byte, position));
        position
    }

    /// Returns the position of a byte together with the name of the text.
    pub fn origin(&self, byte: usize) -> Origin {
        Origin::File { path: self.name.to_owned(), position: self.position(byte) }
    }
}

/// Returns the length of the byte order mark that the text begins with.
fn mark(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ä: 1\n\n  né: x\r\nend";

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        for (part, line, column) in [("ä", 1, 1), ("1", 1, 4), ("x", 3, 7), ("end", 4, 1)] {
            let byte = TEXT.find(part).unwrap();
            assert_eq!(Position::of(TEXT, byte), Position { line, column }, "{part}");
        }
        assert_eq!(Position::of("", 0), Position::START);
        assert_eq!(Position::of(TEXT, 1), Position::of(TEXT, TEXT.len()), "inside a character");
        assert_eq!(Position::of(TEXT, 999), Position { line: 4, column: 4 });
    }

    #[test]
    fn the_order_of_questions_does_not_matter() {
        let source = SourceText::new("t", TEXT);
        for byte in (0..TEXT.len() + 2).chain((0..TEXT.len() + 2).rev()) {
            assert_eq!(source.position(byte), Position::of(TEXT, byte), "{byte}");
        }
        let marked = SourceText::new("t", "\u{feff}ab");
        assert_eq!([0, 3, 4].map(|byte| marked.position(byte).column), [1, 1, 2]);
    }
}
