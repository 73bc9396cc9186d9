//! Byte spans and positions in a text.

use std::fmt;
use std::ops::Range;

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
    pub(crate) fn after(self, text: &str) -> Self {
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
}
