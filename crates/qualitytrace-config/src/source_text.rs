//! A text that knows the positions of its bytes.

use std::cell::Cell;

use crate::diagnostic::Origin;
use crate::position::Position;

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
    fn the_order_of_questions_does_not_matter() {
        let source = SourceText::new("t", TEXT);
        for byte in (0..TEXT.len() + 2).chain((0..TEXT.len() + 2).rev()) {
            assert_eq!(source.position(byte), Position::of(TEXT, byte), "{byte}");
        }
        let marked = SourceText::new("t", "\u{feff}ab");
        assert_eq!([0, 3, 4].map(|byte| marked.position(byte).column), [1, 1, 2]);
    }
}
