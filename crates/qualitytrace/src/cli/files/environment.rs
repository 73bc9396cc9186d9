//! `${NAME}` in definition files: the value of a variable of the environment replaces it before the text is read.
//!
//! Only plain names are replaced: `${var:NAME}` and other expressions belong to the language. A name that is not set
//! stays as it is.

use std::ops::Range;

/// What was replaced in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Expansion {
    /// The text as it is in the file.
    original: String,
    /// Replaced ranges, in the order of the text.
    pieces: Vec<Piece>,
    /// Names that are not set, and where they are in the expanded text.
    unset: Vec<(Range<usize>, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    original: Range<usize>,
    expanded: Range<usize>,
}

/// Replaces every `${NAME}` that has a value. `\${NAME}` is the text itself.
pub(crate) fn expanded(source: String, value: impl Fn(&str) -> Option<String>) -> (String, Expansion) {
    let (mut text, mut pieces, mut unset) = (String::with_capacity(source.len()), Vec::new(), Vec::new());
    let mut done = 0;
    while let Some(found) = source[done..].find("${") {
        let start = done + found;
        text.push_str(&source[done..start]);
        let name: &str = source[start + 2..].split_once('}').map_or("", |(name, _)| name);
        let end = start + name.len() + 3;
        if !is_name(name) || source[..start].ends_with('\\') {
            text.push_str("${");
            done = start + 2;
            continue;
        }
        let at = text.len();
        match value(name) {
            Some(value) => {
                text.push_str(&value);
                pieces.push(Piece { original: start..end, expanded: at..text.len() });
            }
            None => {
                text.push_str(&source[start..end]);
                unset.push((at..text.len(), name.to_owned()));
            }
        }
        done = end;
    }
    text.push_str(&source[done..]);
    (text, Expansion { original: source, pieces, unset })
}

impl Expansion {
    /// The text as it is in the file.
    pub(crate) fn original(&self) -> &str {
        &self.original
    }

    /// The range of the original text that became this one.
    pub(crate) fn original_range(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.original_offset(range.start, |piece| piece.original.start);
        let end = self.original_offset(range.end, |piece| piece.original.end);
        start..end.max(start)
    }

    /// The name that is not set and overlaps this range of the expanded text.
    pub(crate) fn unset_at(&self, range: &Range<usize>) -> Option<&str> {
        let touches = |place: &Range<usize>| place.start <= range.end && range.start < place.end;
        self.unset.iter().find(|(place, _)| touches(place)).map(|(_, name)| name.as_str())
    }

    fn original_offset(&self, at: usize, inside: impl Fn(&Piece) -> usize) -> usize {
        let before = self.pieces.iter().rev().find(|piece| piece.expanded.start < at);
        match before {
            None => at,
            Some(piece) if at < piece.expanded.end => inside(piece),
            Some(piece) => piece.original.end + (at - piece.expanded.end),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("shop.internal".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn check(source: &str, text: &str) {
        assert_eq!(expanded(source.to_owned(), values).0, text);
    }

    #[test]
    fn only_plain_names_with_a_value_are_replaced() {
        check("url: http://${HOST}/x", "url: http://shop.internal/x");
        check("a ${EMPTY}b", "a b");
        check(
            "${var:HOST} ${HOST:x} ${ HOST } $HOST \\${HOST}",
            "${var:HOST} ${HOST:x} ${ HOST } $HOST \\${HOST}",
        );
        check("${GONE} ${HOST", "${GONE} ${HOST");
        check("${${HOST}}", "${shop.internal}");
    }

    #[test]
    fn places_are_those_of_the_file() {
        let source = "a: ${HOST}\nb: ${GONE}\n";
        let (text, expansion) = expanded(source.to_owned(), values);
        let at = text.find("b:").unwrap();
        assert_eq!(&source[expansion.original_range(&(at..at + 2))], "b:");
        let inside = text.find("internal").unwrap();
        assert_eq!(&source[expansion.original_range(&(inside..inside + 3))], "${HOST}");
        let gone = text.find("GONE").unwrap();
        assert_eq!(expansion.unset_at(&(gone..gone + 1)), Some("GONE"));
        assert_eq!(expansion.unset_at(&(0..1)), None);
    }

    proptest! {
        #[test]
        fn any_range_has_a_place_in_the_file(source in "(\\$\\{(HOST|EMPTY|GONE)\\}|[a-zäö${}:\\\\\n ]){0,40}", a in 0..300_usize, b in 0..300_usize) {
            let (text, expansion) = expanded(source.clone(), values);
            let (start, end) = (a.min(b).min(text.len()), a.max(b).min(text.len()));
            let range = expansion.original_range(&(start..end));
            prop_assert!(range.start <= range.end && range.end <= source.len());
        }

        #[test]
        fn a_text_without_values_stays(source in ".{0,60}") {
            prop_assert_eq!(expanded(source.clone(), |_| None).0, source);
        }
    }
}
