//! Finding many secrets in a text in one walk over it.

use std::collections::HashMap;
use std::ops::Range;

use super::disguise::{self, Breaks, Budget, folded};

/// Letters that may be compared for each byte of a text, and for every text: more than any text needs that is not made
/// to need more. Of one that is, the rest is hidden.
const LETTERS_PER_BYTE: usize = 64;
const LETTERS_PER_TEXT: usize = 1 << 20;

/// A text to look for, with letters in lower case.
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

/// The patterns, by what they begin with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Finder {
    patterns: Vec<Pattern>,
    /// By their first two bytes.
    by_bytes: HashMap<[u8; 2], Vec<usize>>,
    /// By their first letter.
    by_letter: HashMap<char, Vec<usize>>,
}

impl Finder {
    /// Finds these; each has two bytes at least.
    pub(super) fn of(patterns: Vec<Pattern>) -> Self {
        let mut finder = Self::default();
        for (at, pattern) in patterns.iter().enumerate() {
            let letters = &pattern.letters;
            if let ([first, second, ..], Some(letter)) = (letters.as_bytes(), letters.chars().next()) {
                finder.by_bytes.entry([*first, *second]).or_default().push(at);
                finder.by_letter.entry(letter).or_default().push(at);
            }
        }
        Self { patterns, ..finder }
    }

    pub(super) fn count(&self) -> usize {
        self.patterns.len()
    }

    /// The places that say a secret, escaped or not, in their order; those that overlap are one. What was not looked at,
    /// because looking at it would take too long, counts as one of them.
    pub(super) fn places(&self, text: &str) -> Vec<Range<usize>> {
        let letters = text.len().saturating_mul(LETTERS_PER_BYTE).saturating_add(LETTERS_PER_TEXT);
        self.places_within(text, Budget::new(letters))
    }

    fn places_within(&self, text: &str, mut budget: Budget) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for (at, letter) in text.char_indices() {
            let end = self.longest(text.as_bytes(), at, letter, &mut budget);
            let end = if budget.is_spent() { Some(text.len()) } else { end };
            let Some(end) = end else { continue };
            match found.last_mut() {
                Some(last) if at < last.end => last.end = last.end.max(end),
                _ => found.push(at..end),
            }
            if budget.is_spent() {
                break;
            }
        }
        found
    }

    /// Where the longest secret ends that is said at this place.
    fn longest(&self, text: &[u8], at: usize, letter: char, budget: &mut Budget) -> Option<usize> {
        let mut ends = |pattern: &usize| {
            let Pattern { letters, breaks } = &self.patterns[*pattern];
            disguise::ends(text, at, letters, *breaks, budget)
        };
        let (first, second) = (text[at], text.get(at + 1).copied().unwrap_or(b'%'));
        if disguise::may_begin(first) {
            let said = self.by_letter.iter().filter(|(letter, _)| disguise::is_said(&text[at..], **letter));
            return said.flat_map(|(_, patterns)| patterns).filter_map(ends).max();
        }
        let is_plain = first.is_ascii() && second.is_ascii() && !disguise::may_begin(second);
        if is_plain && disguise::break_at(&[second], Breaks::Bytes) == 0 {
            let begins = [first.to_ascii_lowercase(), second.to_ascii_lowercase()];
            return self.by_bytes.get(&begins)?.iter().filter_map(&mut ends).max();
        }
        self.by_letter.get(&folded(letter))?.iter().filter_map(ends).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(secrets: &[&str]) -> Finder {
        Finder::of(secrets.iter().map(|secret| Pattern::new(secret, Breaks::None)).collect())
    }

    fn check(secrets: &[&str], text: &str, expected: &[&str]) {
        let places = finder(secrets).places(text);
        assert_eq!(places.iter().map(|place| &text[place.clone()]).collect::<Vec<_>>(), expected, "{text}");
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
        let places = finder(&[&secret]).places_within(&text, Budget::new(2_000));
        assert_eq!(places.len(), 1);
        assert_eq!(places[0].end, text.len());
        assert!(places[0].start > 0);
        assert!(finder(&[&secret]).places_within(&text, Budget::new(1_000_000)).is_empty());
    }
}
