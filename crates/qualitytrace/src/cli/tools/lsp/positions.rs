//! Positions of the protocol, lines and UTF-16 code units from 0, and the bytes of a text.

use std::ops::Range;

use qualitytrace_server::wire::utf16::Utf16Offsets;
use tower_lsp_server::ls_types;

/// A text with the beginnings of its lines.
#[derive(Debug)]
pub(super) struct Positions<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Positions<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// The position of a byte; one behind the end is at the end.
    pub(super) fn position(&self, byte: usize) -> ls_types::Position {
        let byte = self.text.floor_char_boundary(byte.min(self.text.len()));
        let line = self.starts.partition_point(|start| *start <= byte) - 1;
        let units = Utf16Offsets::of(self.line(line)).from_byte(byte - self.starts[line]);
        ls_types::Position { line: narrow(line), character: narrow(units) }
    }

    pub(super) fn range(&self, bytes: &Range<usize>) -> ls_types::Range {
        ls_types::Range { start: self.position(bytes.start), end: self.position(bytes.end) }
    }

    /// The byte at a position; one behind the end of a line is at its end.
    pub(super) fn byte(&self, position: ls_types::Position) -> usize {
        let line = position.line as usize;
        let Some(start) = self.starts.get(line) else { return self.text.len() };
        let text = self.line(line).trim_end_matches(['\r', '\n']);
        let offsets = Utf16Offsets::of(text);
        let units = position.character as usize;
        // Between the two halves of a character is before it.
        let inside = offsets.to_byte(units).or_else(|| offsets.to_byte(units.saturating_sub(1)));
        start + inside.unwrap_or(text.len())
    }

    /// The bytes of a line, its end included.
    fn line(&self, line: usize) -> &'t str {
        let end = self.starts.get(line + 1).copied().unwrap_or(self.text.len());
        &self.text[self.starts[line]..end]
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_are_utf16_code_units() {
        let positions = Positions::of("a\n🚀x: ü\r\nend");
        let at = |line, character| ls_types::Position { line, character };
        for (byte, position) in [(0, at(0, 0)), (2, at(1, 0)), (6, at(1, 2)), (11, at(1, 6)), (13, at(2, 0))]
        {
            assert_eq!(positions.position(byte), position);
            assert_eq!(positions.byte(position), byte);
        }
        assert_eq!(positions.byte(at(1, 99)), 11, "behind the end of a line");
        assert_eq!(positions.byte(at(9, 0)), 16);
        assert_eq!(positions.byte(at(1, 1)), 2, "inside a character");
    }

    proptest! {
        #[test]
        fn bytes_and_positions_agree(text in "[a🚀ü\r\n]{0,40}", at in 0..200_usize) {
            let positions = Positions::of(&text);
            let byte = text.floor_char_boundary(at.min(text.len()));
            let back = positions.byte(positions.position(byte));
            prop_assert!(back == byte || text[back..byte].chars().all(|c| c == '\r'));
        }
    }
}
