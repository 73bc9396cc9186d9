//! Decoding of text that may be encoded: base64, base32, hexadecimal digits and lists of decimal numbers.
//!
//! The boundaries of encoded data are unknown: every run of characters of an encoding is decoded from each offset at
//! which a byte can begin in it.

use std::ops::{ControlFlow, Range};

use super::encodings::unescaped;

/// Minimum characters of a run: shorter ones would match by chance.
const SHORTEST_RUN: usize = 8;
/// Minimum numbers of a list.
const SHORTEST_LIST: usize = 4;
/// Maximum bytes between two characters of a run: a line break, escaped or not, and the indentation of the next line.
const LONGEST_BREAK: usize = 64;
/// Minimum characters of a run that are decoded together. A longer run is decoded in overlapping pieces.
const PIECE: usize = 1 << 16;

/// The supported encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Base64,
    Base32,
    Hexadecimal,
    Decimal,
}

impl Encoding {
    const ALL: [Self; 4] = [Self::Base64, Self::Base32, Self::Hexadecimal, Self::Decimal];

    /// Returns the bits of one character. In a list of numbers, each number counts as one character.
    const fn bits(self) -> usize {
        match self {
            Self::Base64 => 6,
            Self::Base32 => 5,
            Self::Hexadecimal => 4,
            Self::Decimal => 8,
        }
    }

    /// Returns the number of offsets in a run at which a byte can begin.
    const fn offsets(self) -> usize {
        match self {
            Self::Base64 => 4,
            Self::Base32 => 8,
            Self::Hexadecimal => 2,
            Self::Decimal => 1,
        }
    }

    const fn shortest(self) -> usize {
        match self {
            Self::Decimal => SHORTEST_LIST,
            Self::Base64 | Self::Base32 | Self::Hexadecimal => SHORTEST_RUN,
        }
    }

    const fn value(self, letter: u8) -> Option<u8> {
        match (self, letter) {
            (Self::Base64 | Self::Base32, b'A'..=b'Z') => Some(letter - b'A'),
            (Self::Base64, b'a'..=b'z') => Some(letter - b'a' + 26),
            (Self::Base64, b'0'..=b'9') => Some(letter - b'0' + 52),
            (Self::Base64, b'+' | b'-') => Some(62),
            (Self::Base64, b'/' | b'_') => Some(63),
            (Self::Base32, b'a'..=b'z') => Some(letter - b'a'),
            (Self::Base32, b'2'..=b'7') => Some(letter - b'2' + 26),
            (Self::Hexadecimal | Self::Decimal, b'0'..=b'9') => Some(letter - b'0'),
            (Self::Hexadecimal, b'a'..=b'f') => Some(letter - b'a' + 10),
            (Self::Hexadecimal, b'A'..=b'F') => Some(letter - b'A' + 10),
            _ => None,
        }
    }

    /// Returns the bits of [`CLASSES`] for its characters and for breaks in its runs.
    const fn classes(self) -> (u8, u8) {
        let bit = self as u8;
        (1 << bit, 16 << bit)
    }

    /// Whether this byte may separate two characters of a run.
    const fn is_break(self, letter: u8) -> bool {
        match letter {
            b'\r' | b'\n' => true,
            // Text with spaces may be wrapped base64, but not base32.
            b' ' | b'\t' => !matches!(self, Self::Base32),
            b',' => matches!(self, Self::Hexadecimal | Self::Decimal),
            b':' | b'-' => matches!(self, Self::Hexadecimal),
            b';' => matches!(self, Self::Decimal),
            _ => false,
        }
    }
}

/// The classes of each byte: a character of an encoding, or a break.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_u8;
    loop {
        let mut at = 0;
        while at < Encoding::ALL.len() {
            let encoding = Encoding::ALL[at];
            let (letter, breaks) = encoding.classes();
            if encoding.value(byte).is_some() {
                classes[byte as usize] |= letter;
            } else if encoding.is_break(byte) {
                classes[byte as usize] |= breaks;
            }
            at += 1;
        }
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    classes
};

/// Characters that may be encoded data.
#[derive(Debug)]
pub(super) struct Run {
    encoding: Encoding,
    values: Vec<u8>,
    /// The position of each character.
    places: Vec<Range<usize>>,
    /// Bytes of breaks since the last character.
    broken: usize,
    /// Where the padding ends.
    padded: Option<usize>,
    /// Whether the letters are upper case, if that must be the same for all.
    capitals: Option<bool>,
}

impl Run {
    const fn new(encoding: Encoding) -> Self {
        Self { encoding, values: Vec::new(), places: Vec::new(), broken: 0, padded: None, capitals: None }
    }

    /// Takes the next byte of the text. Returns `false` if the run ends before it.
    fn take(&mut self, letter: u8, place: &Range<usize>) -> bool {
        let (letters, breaks) = self.encoding.classes();
        let class = CLASSES[usize::from(letter)];
        if class & letters != 0 && self.padded.is_none() {
            return self.is_of_one_case(letter)
                && self.encoding.value(letter).is_some_and(|value| self.push(value, place));
        }
        if self.values.is_empty() {
            return true;
        }
        if letter == b'=' && matches!(self.encoding, Encoding::Base64 | Encoding::Base32) {
            self.padded = Some(place.end);
            return true;
        }
        // The prefix `0x` of a byte in hexadecimal digits.
        if matches!(letter, b'x' | b'X')
            && self.encoding == Encoding::Hexadecimal
            && self.values.last() == Some(&0)
            && self.places.last().is_some_and(|last| last.end == place.start)
        {
            self.values.pop();
            self.places.pop();
            return true;
        }
        self.broken += place.len();
        class & breaks != 0 && self.broken <= LONGEST_BREAK && self.padded.is_none()
    }

    /// Base32 has letters of one case: this excludes most words and base64.
    fn is_of_one_case(&mut self, letter: u8) -> bool {
        if self.encoding != Encoding::Base32 || !letter.is_ascii_alphabetic() {
            return true;
        }
        *self.capitals.get_or_insert(letter.is_ascii_uppercase()) == letter.is_ascii_uppercase()
    }

    fn push(&mut self, value: u8, place: &Range<usize>) -> bool {
        let is_next = self.broken == 0;
        self.broken = 0;
        if self.encoding == Encoding::Decimal
            && let (Some(number), Some(last)) = (self.values.last_mut(), self.places.last_mut())
            && is_next
        {
            let longer = number.checked_mul(10).and_then(|tens| tens.checked_add(value));
            *number = longer.unwrap_or_default();
            last.end = place.end;
            return longer.is_some();
        }
        self.values.push(value);
        self.places.push(place.clone());
        true
    }

    /// Returns its start in the text.
    pub(super) fn start(&self) -> usize {
        self.places.first().map_or(0, |place| place.start)
    }

    /// Iterates over all ways to decode it: the offset of the first character, and the bytes.
    pub(super) fn readings(&self) -> impl Iterator<Item = (usize, Vec<u8>)> {
        (0..self.encoding.offsets()).map(|offset| (offset, self.decoded(offset)))
    }

    fn decoded(&self, offset: usize) -> Vec<u8> {
        let bits = self.encoding.bits();
        let letters = self.values.get(offset..).unwrap_or_default();
        let mut bytes = Vec::with_capacity(letters.len() * bits / 8);
        let (mut held, mut count) = (0_u32, 0);
        for value in letters {
            held = held << bits | u32::from(*value);
            count += bits;
            if count >= 8 {
                count -= 8;
                bytes.push((held >> count).to_le_bytes()[0]);
            }
        }
        bytes
    }

    /// Returns the position in the text of decoded bytes; `None` if they come from too few characters.
    pub(super) fn place(&self, offset: usize, bytes: &Range<usize>) -> Option<Range<usize>> {
        let bits = self.encoding.bits();
        let first = offset + bytes.start * 8 / bits;
        let last = (offset + (bytes.end * 8).div_ceil(bits)).min(self.places.len());
        if last < first + self.encoding.shortest() {
            return None;
        }
        let end = self.places.get(last - 1)?.end;
        // One character can hold the end of two bytes, of which the last is only padding.
        let padded = self.padded.filter(|_| last + 1 >= self.places.len());
        Some(self.places.get(first)?.start..padded.unwrap_or(end))
    }

    fn is_long_enough(&self) -> bool {
        self.values.len() >= self.encoding.shortest()
    }

    /// Continues with the last `kept` characters.
    fn keep(&mut self, kept: usize) {
        let gone = self.values.len().saturating_sub(kept);
        self.values.drain(..gone);
        self.places.drain(..gone);
        (self.broken, self.padded) = (0, None);
        if kept == 0 {
            self.capitals = None;
        }
    }
}

/// Calls `look` for every run in a text, until it returns `Break`. Encoded data of up to `longest` bytes, however
/// nested, is within one of these runs.
pub(super) fn runs<B>(
    text: &[u8],
    longest: usize,
    mut look: impl FnMut(&Run) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let kept = longest * 16;
    let piece = PIECE.max(kept * 4);
    let mut runs = Encoding::ALL.map(Run::new);
    for stretch in stretches(text) {
        let mut at = stretch.start;
        while at < stretch.end {
            let (letter, length) = unescaped(&text[..stretch.end], at);
            let place = at..at + length;
            for run in &mut runs {
                let is_taken = run.take(letter, &place);
                if is_taken && run.values.len() < piece {
                    continue;
                }
                if run.is_long_enough() {
                    look(run)?;
                }
                run.keep(if is_taken { kept } else { 0 });
                if !is_taken {
                    run.take(letter, &place);
                }
            }
            at += length;
        }
        for run in &mut runs {
            if run.is_long_enough() {
                look(run)?;
            }
            run.keep(0);
        }
    }
    ControlFlow::Continue(())
}

/// Returns the parts of a text that can contain runs: most bytes decoded from other text cannot.
fn stretches(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < text.len() {
            let start = at;
            at += text[at..].iter().take_while(|byte| IN_RUNS[usize::from(**byte)]).count();
            let end = at;
            at += text[at..].iter().take_while(|byte| !IN_RUNS[usize::from(**byte)]).count();
            if end - start >= SHORTEST_RUN {
                return Some(start..end);
            }
        }
        None
    })
}

/// The bytes of runs, and of escapes in them.
const IN_RUNS: [bool; 256] = {
    let mut found = [false; 256];
    let mut byte = 0;
    while byte < CLASSES.len() {
        found[byte] = CLASSES[byte] != 0;
        byte += 1;
    }
    let escapes = b"%\\&#;{}=xX";
    let mut at = 0;
    while at < escapes.len() {
        found[escapes[at] as usize] = true;
        at += 1;
    }
    found
};
