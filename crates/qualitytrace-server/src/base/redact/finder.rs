//! Search for many secrets in one pass over a text.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use super::decode;
use super::encodings::{self, Breaks, Budget, folded};

/// The budget of compared characters and decoded bytes, for each byte of a text and for every text: more than ordinary
/// texts need. When a hostile text exceeds it, the rest is redacted.
const LETTERS_PER_BYTE: usize = 64;
const LETTERS_PER_TEXT: usize = 1 << 20;
/// Maximum nested encodings.
const DEPTH: usize = 4;
/// Encoded forms of longer patterns are found only as far as they are in one piece.
const LONGEST_ENCODED: usize = 4096;

/// A text to search for, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    letters: String,
    breaks: Breaks,
}

impl Pattern {
    pub(super) fn new(text: &str, breaks: Breaks) -> Self {
        Self { letters: text.chars().map(folded).collect(), breaks }
    }
}

/// The patterns, indexed by their beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Finder {
    patterns: Vec<Pattern>,
    /// By their first two bytes.
    by_bytes: HashMap<[u8; 2], Vec<usize>>,
    /// By their first character.
    by_letter: HashMap<char, Vec<usize>>,
    /// A bitmap of the two bytes that a pattern can begin with, escaped or not: it excludes most positions.
    beginnings: Vec<u64>,
    /// Length of the longest pattern in bytes.
    longest: usize,
}

impl Finder {
    /// Creates a finder for these patterns of at least two bytes.
    pub(super) fn of(patterns: Vec<Pattern>) -> Self {
        if patterns.is_empty() {
            return Self::default();
        }
        let longest = patterns.iter().map(|pattern| pattern.letters.len()).max().unwrap_or_default();
        let mut finder = Self { beginnings: vec![0; (1 << 16) / 64], longest, ..Self::default() };
        for (at, pattern) in patterns.iter().enumerate() {
            let letters = &pattern.letters;
            if let ([first, second, ..], Some(letter)) = (letters.as_bytes(), letters.chars().next()) {
                finder.by_bytes.entry([*first, *second]).or_default().push(at);
                finder.by_letter.entry(letter).or_default().push(at);
                finder.note_beginnings(letter, *second);
            }
        }
        Self { patterns, ..finder }
    }

    /// Records the beginnings of a pattern with this first character and this second byte.
    fn note_beginnings(&mut self, letter: char, second: u8) {
        let upper = letter.to_uppercase();
        for first in upper.chain([letter]) {
            let first = first.encode_utf8(&mut [0; 4]).as_bytes()[0];
            for next in 0..=u8::MAX {
                let is_plain = next.eq_ignore_ascii_case(&second);
                if is_plain || !first.is_ascii() || is_unclear(next) {
                    self.note_beginning(first, next);
                }
            }
        }
        for escape in (0..=u8::MAX).filter(|byte| encodings::may_begin(*byte)) {
            let is_space = letter == ' ';
            let follows = |next: &u8| match escape {
                b'%' | b'=' => next.is_ascii_hexdigit(),
                b'&' => next.is_ascii_alphabetic() || *next == b'#',
                b'+' => is_space,
                // An escape is found at its last backslash.
                b'\\' => *next != b'\\' || letter == '\\',
                _ => true,
            };
            (0..=u8::MAX).filter(follows).for_each(|next| self.note_beginning(escape, next));
        }
    }

    fn note_beginning(&mut self, first: u8, second: u8) {
        let pair = usize::from(first) << 8 | usize::from(second);
        self.beginnings[pair / 64] |= 1 << (pair % 64);
    }

    fn may_begin(&self, first: u8, second: u8) -> bool {
        let pair = usize::from(first) << 8 | usize::from(second);
        self.beginnings.get(pair / 64).is_some_and(|bits| bits & (1 << (pair % 64)) != 0)
    }

    pub(super) fn count(&self) -> usize {
        self.patterns.len()
    }

    /// Returns the positions of secrets, escaped, encoded or not, sorted and merged. Text that was not searched,
    /// because the budget is exhausted, is included.
    pub(super) fn matches(&self, text: &str) -> Vec<Range<usize>> {
        let letters = text.len().saturating_mul(LETTERS_PER_BYTE).saturating_add(LETTERS_PER_TEXT);
        self.matches_within(text, Budget::new(letters))
    }

    fn matches_within(&self, text: &str, mut budget: Budget) -> Vec<Range<usize>> {
        joined(self.found(text.as_bytes(), DEPTH, &mut budget))
    }

    /// Returns the positions of secrets, unsorted, through so many nested encodings. When the budget is exhausted, the
    /// rest of the text is included.
    fn found(&self, text: &[u8], depth: usize, budget: &mut Budget) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for (at, first) in text.iter().enumerate() {
            let second = text.get(at + 1).copied().unwrap_or_default();
            if !self.may_begin(*first, second) {
                continue;
            }
            let end = self.longest(text, at, budget);
            if budget.is_spent() {
                found.push(at..text.len());
                return found;
            }
            found.extend(end.map(|end| at..end));
        }
        if depth > 0 {
            self.find_encoded(text, depth, budget, &mut found);
        }
        found
    }

    /// Searches the decoded forms of the text.
    fn find_encoded(&self, text: &[u8], depth: usize, budget: &mut Budget, found: &mut Vec<Range<usize>>) {
        let stopped = decode::runs(text, self.longest.min(LONGEST_ENCODED), |run| {
            for (offset, bytes) in run.readings() {
                budget.spend(bytes.len() * 2);
                if !budget.is_spent() {
                    let matches = self.found(&bytes, depth - 1, budget);
                    found.extend(matches.iter().filter_map(|place| run.place(offset, place)));
                }
                if budget.is_spent() {
                    return ControlFlow::Break(run.start());
                }
            }
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(start) = stopped {
            found.push(start..text.len());
        }
    }

    /// Returns the end of the longest secret at this position.
    fn longest(&self, text: &[u8], at: usize, budget: &mut Budget) -> Option<usize> {
        let mut ends = |pattern: &usize| {
            let Pattern { letters, breaks } = &self.patterns[*pattern];
            encodings::ends(text, at, letters, *breaks, budget)
        };
        let (first, second) = (text[at], text.get(at + 1).copied().unwrap_or_default());
        if encodings::may_begin(first) {
            let said = self.by_letter.iter().filter(|(letter, _)| encodings::is_said(&text[at..], **letter));
            return said.flat_map(|(_, patterns)| patterns).filter_map(ends).max();
        }
        if first.is_ascii() && !is_unclear(second) {
            let begins = [first.to_ascii_lowercase(), second.to_ascii_lowercase()];
            return self.by_bytes.get(&begins)?.iter().filter_map(&mut ends).max();
        }
        let letter = letter_at(text, at)?;
        self.by_letter.get(&folded(letter))?.iter().filter_map(ends).max()
    }
}

/// Whether the index by two bytes is not sufficient: this byte may begin an escape, or separate two characters.
fn is_unclear(byte: u8) -> bool {
    !byte.is_ascii()
        || byte == 0
        || encodings::may_begin(byte)
        || encodings::break_at(&[byte], Breaks::Lines) > 0
}

/// Returns the unescaped character at a position.
fn letter_at(text: &[u8], at: usize) -> Option<char> {
    let rest = &text[at..text.len().min(at + 4)];
    let valid = rest.utf8_chunks().next()?.valid();
    valid.chars().next()
}

/// Sorts positions and merges those that overlap.
fn joined(mut matches: Vec<Range<usize>>) -> Vec<Range<usize>> {
    matches.sort_unstable_by_key(|place| (place.start, place.end));
    let mut joined: Vec<Range<usize>> = Vec::new();
    for place in matches {
        match joined.last_mut() {
            Some(last) if place.start < last.end => last.end = last.end.max(place.end),
            _ => joined.push(place),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(secrets: &[&str]) -> Finder {
        Finder::of(secrets.iter().map(|secret| Pattern::new(secret, Breaks::None)).collect())
    }

    fn check(secrets: &[&str], text: &str, expected: &[&str]) {
        let matches = finder(secrets).matches(text);
        assert_eq!(matches.iter().map(|place| &text[place.clone()]).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn what_overlaps_is_one_place() {
        check(&["abcd", "bcdefgh"], "xabcdefghx", &["abcdefgh"]);
        check(&["abcd", "abcdef"], "abcdef abcd", &["abcdef", "abcd"]);
        check(&["abcd"], "abcdabcd", &["abcd", "abcd"]);
        check(&["abcd", "wxyz"], "nothing", &[]);
    }

    #[test]
    fn every_disguise_is_found_wherever_it_begins() {
        let text = r#"x%61/bc a%2Fbc %C3%A9fgh \"ij\" éfgh"#;
        let expected = ["%61/bc", "a%2Fbc", "%C3%A9fgh", r#"\"ij\""#, "éfgh"];
        check(&["a/bc", "éfgh", "\"ij\""], text, &expected);
    }

    #[test]
    fn letters_of_another_case_are_found() {
        check(&["Straße 7", "éFGh"], "STRAßE 7 ÉfgH %c3%89FGH", &["STRAßE 7", "ÉfgH", "%c3%89FGH"]);
    }

    #[test]
    fn what_would_take_too_long_is_hidden() {
        let text = "a".repeat(1_000) + "bc";
        let secret = "a".repeat(500) + "x";
        let matches = finder(&[&secret]).matches_within(&text, Budget::new(2_000));
        assert_eq!(matches.len(), 1);
        assert_eq!(matches[0].end, text.len());
        assert!(matches[0].start > 0);
        assert!(finder(&[&secret]).matches_within(&text, Budget::new(1_000_000)).is_empty());
    }
}
