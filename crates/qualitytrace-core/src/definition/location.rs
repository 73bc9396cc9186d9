//! Locations in a file for messages: the document, and the path of keys.

use std::fmt::Write as _;
use std::ops::Range;

use qualitytrace_config::tree::{Node, Shape};

use super::reader::Reader;
use super::{Format, parse};

/// A location in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The number of the document, from 1; empty documents do not count.
    pub document: usize,
    /// The path from the top of its document, like `spec.values[0].type`; empty for the document as a whole.
    pub key: String,
}

/// Returns the location of a byte range of a file.
pub fn location(source: &str, format: Format, bytes: &Range<usize>) -> Location {
    let documents = parse(&Reader::new(source, format));
    let at = documents.iter().rposition(|document| document.span.start <= bytes.start).unwrap_or(0);
    let mut key = String::new();
    if let Some(document) = documents.get(at) {
        walk(document, bytes, &mut key);
    }
    Location { document: at + 1, key }
}

fn walk(node: &Node, bytes: &Range<usize>, key: &mut String) {
    let is_in = |start: usize, end: usize| start <= bytes.start && bytes.end <= end && !bytes.is_empty();
    match &node.shape {
        Shape::Map(entries) => {
            let held = |value: &Node, start: usize| is_in(start, value.span.end.max(start));
            if let Some(entry) = entries.iter().find(|entry| {
                is_in(entry.key_span.start, entry.key_span.end) || held(&entry.value, entry.key_span.start)
            }) {
                let dot = if key.is_empty() { "" } else { "." };
                let _ = write!(key, "{dot}{}", entry.key);
                walk(&entry.value, bytes, key);
            }
        }
        Shape::List(items) => {
            if let Some(at) = items.iter().position(|item| is_in(item.span.start, item.span.end)) {
                let _ = write!(key, "[{at}]");
                walk(&items[at], bytes, key);
            }
        }
        Shape::Null | Shape::Scalar(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, format: Format, part: &str, document: usize, key: &str) {
        let start = source.find(part).unwrap();
        let found = location(source, format, &(start..start + part.len()));
        assert_eq!(found, Location { document, key: key.to_owned() });
    }

    const STREAM: &str = "---\n# nothing\n---\ntype: Test\nspec:\n  name: T\n---\nspec:\n  list:\n  - a: x\n  - b: {c: deep}\n  last: end\n";

    #[test]
    fn a_value_is_found_by_its_keys() {
        check(STREAM, Format::Yaml, "T\n---", 1, "");
        check(STREAM, Format::Yaml, "name", 1, "spec.name");
        check(STREAM, Format::Yaml, "deep", 2, "spec.list[1].b.c");
        check(STREAM, Format::Yaml, "x", 2, "spec.list[0].a");
        check(STREAM, Format::Yaml, "end", 2, "spec.last");
        check(r#"{"spec": {"a": [1, {"b": "v"}]}}"#, Format::Json, "\"v\"", 1, "spec.a[1].b");
    }

    #[test]
    fn what_is_missing_has_the_place_of_what_it_is_missing_from() {
        assert_eq!(
            location("spec: {name: x}", Format::Yaml, &(6..6)),
            Location { document: 1, key: String::new() }
        );
        assert_eq!(location("", Format::Yaml, &(0..0)), Location { document: 1, key: String::new() });
    }
}
