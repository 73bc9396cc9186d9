//! Finding many secrets in a text in one walk over it.

use std::collections::HashMap;
use std::ops::Range;

use super::disguise;

/// The secrets, by what they begin with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Finder {
    secrets: Vec<String>,
    /// By their first two bytes.
    by_bytes: HashMap<[u8; 2], Vec<usize>>,
    /// By their first letter.
    by_letter: HashMap<char, Vec<usize>>,
}

impl Finder {
    /// Finds these; each has two bytes at least.
    pub(super) fn of(secrets: Vec<String>) -> Self {
        let mut finder = Self::default();
        for (at, secret) in secrets.iter().enumerate() {
            if let ([first, second, ..], Some(letter)) = (secret.as_bytes(), secret.chars().next()) {
                finder.by_bytes.entry([*first, *second]).or_default().push(at);
                finder.by_letter.entry(letter).or_default().push(at);
            }
        }
        Self { secrets, ..finder }
    }

    pub(super) fn count(&self) -> usize {
        self.secrets.len()
    }

    /// The places that say a secret, escaped or not, in their order; those that overlap are one.
    pub(super) fn places(&self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            let Some(end) = self.longest(text.as_bytes(), at) else { continue };
            match found.last_mut() {
                Some(last) if at < last.end => last.end = last.end.max(end),
                _ => found.push(at..end),
            }
        }
        found
    }

    /// Where the longest secret ends that is said at this place.
    fn longest(&self, text: &[u8], at: usize) -> Option<usize> {
        let ends = |secret: &usize| disguise::ends(text, at, &self.secrets[*secret]);
        let (first, second) = (text[at], text.get(at + 1).copied().unwrap_or(b'%'));
        if !disguise::may_begin(first) && !disguise::may_begin(second) {
            return self.by_bytes.get(&[first, second])?.iter().filter_map(ends).max();
        }
        let said = self.by_letter.iter().filter(|(letter, _)| disguise::is_said(&text[at..], **letter));
        said.flat_map(|(_, secrets)| secrets).filter_map(ends).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secrets: &[&str], text: &str, expected: &[&str]) {
        let places = Finder::of(secrets.iter().map(|secret| (*secret).to_owned()).collect()).places(text);
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
}
