//! Offsets in a text, as the API counts them: UTF-16 code units from its beginning, as JavaScript, editors and the
//! language server protocol do. Inside the server, offsets are bytes.

/// The distance of noted positions, in bytes.
const BLOCK: usize = 256;

/// Translates offsets in one text.
#[derive(Debug)]
pub struct Utf16Offsets<'t> {
    text: &'t str,
    /// The number of code units before each block of bytes; empty for a text in which both count the same.
    before: Vec<usize>,
}

impl<'t> Utf16Offsets<'t> {
    /// Prepares the translation of offsets in this text.
    pub fn of(text: &'t str) -> Self {
        let mut before = Vec::new();
        if !text.is_ascii() {
            let mut units = 0;
            let mut start = 0;
            while start < text.len() {
                before.push(units);
                let end = text.floor_char_boundary((before.len() * BLOCK).min(text.len()));
                units += units_in(&text[start..end]);
                start = end;
            }
        }
        Self { text, before }
    }

    /// Returns the place of a byte. One inside a character is at its beginning, one behind the end at the end.
    pub fn from_byte(&self, byte: usize) -> usize {
        let byte = self.text.floor_char_boundary(byte.min(self.text.len()));
        let block = byte / BLOCK;
        let start = self.text.floor_char_boundary(block * BLOCK);
        match self.before.get(block).or(self.before.last()) {
            Some(units) if block < self.before.len() => units + units_in(&self.text[start..byte]),
            Some(units) => {
                let start = self.text.floor_char_boundary((self.before.len() - 1) * BLOCK);
                units + units_in(&self.text[start..byte])
            }
            None => byte,
        }
    }

    /// Returns the byte at a place; `None` behind the end, or between the two halves of a character.
    pub fn to_byte(&self, place: usize) -> Option<usize> {
        if self.before.is_empty() {
            return (place <= self.text.len()).then_some(place);
        }
        let block = self.before.partition_point(|units| *units <= place).saturating_sub(1);
        let start = self.text.floor_char_boundary(block * BLOCK);
        let mut units = self.before[block];
        for (at, c) in self.text[start..].char_indices() {
            if units >= place {
                return (units == place).then_some(start + at);
            }
            units += c.len_utf16();
        }
        (units == place).then_some(self.text.len())
    }
}

fn units_in(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_place_is_translated_both_ways(text in "([a-z]{0,300}|[é\u{1f980}ß漢]{0,200}){0,4}") {
            let offsets = Utf16Offsets::of(&text);
            let mut units = 0;
            for (byte, c) in text.char_indices().chain([(text.len(), 'x')]) {
                prop_assert_eq!(offsets.from_byte(byte), units);
                prop_assert_eq!(offsets.to_byte(units), Some(byte));
                if byte < text.len() && c.len_utf16() == 2 {
                    prop_assert_eq!(offsets.to_byte(units + 1), None);
                }
                units += c.len_utf16();
            }
            let end = offsets.from_byte(text.len());
            prop_assert_eq!(offsets.from_byte(text.len() + 9), end);
            prop_assert_eq!(offsets.to_byte(end + 1), None);
        }
    }
}
