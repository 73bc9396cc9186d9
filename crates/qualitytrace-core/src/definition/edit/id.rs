//! Ids in a definition file: setting and finding them, and the range of a resource in its file.

use std::ops::Range;

use qualitytrace_config::tree::{Entry, Node, Shape};

use super::scalar::{quoted, word};
use crate::definition::reader::Reader;
use crate::definition::{Format, parse};

/// Sets the id of resource number `index`, counted from 0; comments and layout stay.
///
/// Returns `None` when the file has no such resource, or the resource no `spec`.
pub fn with_id(source: &str, format: Format, index: usize, id: &str) -> Option<String> {
    let documents = parse(&Reader::new(source, format));
    let spec = documents.get(index)?.get("spec")?;
    let Shape::Map(entries) = &spec.shape else { return None };
    let written = match format {
        Format::Json => format!("\"id\": {}", quoted(id)),
        Format::Yaml => format!("id: {}", word(id)),
    };
    let (range, text) = match (entries.iter().find(|entry| entry.key == "id"), entries.first()) {
        (Some(entry), _) => (entry.key_span.start..end(source, entry), written),
        (None, Some(first)) => {
            let at = first.key_span.start;
            (at..at, format!("{written}{}", separator(source, spec, at)))
        }
        // An empty mapping can only be written with braces.
        (None, None) => (spec.span.start + 1..spec.span.start + 1, written),
    };
    Some([source.get(..range.start)?, &text, source.get(range.end..)?].concat())
}

/// Whether resource number `index` of the file, counted from 0, has an id.
pub fn has_id(source: &str, format: Format, index: usize) -> bool {
    let documents = parse(&Reader::new(source, format));
    let id = documents.get(index).and_then(|document| document.get("spec")?.get("id"));
    id.is_some_and(|id| !id.is_empty())
}

/// Returns the range of a resource with all that belongs to it: up to the lines between documents, with the
/// comments around it.
pub fn surroundings(source: &str, format: Format, resource: &Range<usize>) -> Range<usize> {
    if format == Format::Json {
        return resource.clone();
    }
    let mut whole = 0..source.len();
    let (mut at, mut is_first) = (0, true);
    for line in source.split_inclusive('\n') {
        let is_between = ["---", "..."].iter().any(|mark| {
            line.strip_prefix(mark)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        });
        if is_between && at >= resource.end {
            whole.end = at;
            break;
        }
        at += line.len();
        if is_between && at <= resource.start && !is_first {
            whole.start = at;
        }
        // Lines before the first document belong to it.
        is_first &= is_between || line.trim().is_empty() || line.starts_with(['#', '%']);
    }
    // A document that begins on the separator line begins there.
    if whole.contains(&resource.start) { whole } else { resource.clone() }
}

/// Returns the place of the id of the resource in this range; the resource as a whole if it has none.
pub fn id_place(source: &str, format: Format, resource: &Range<usize>) -> Range<usize> {
    let documents = parse(&Reader::new(source, format));
    let document = documents.iter().find(|document| resource.contains(&document.span.start));
    let id = document.and_then(|document| document.get("spec")?.get("id"));
    id.map_or_else(|| resource.clone(), |id| id.span.clone())
}

/// Returns where an entry ends: an absent value ends with the colon.
fn end(source: &str, entry: &Entry) -> usize {
    let colon = source.get(entry.key_span.end..).and_then(|rest| rest.find(':'));
    let colon = colon.map_or(entry.key_span.end, |at| entry.key_span.end + at + 1);
    entry.value.span.end.max(colon)
}

/// Returns the text between two entries of the mapping whose first entry begins at `at`.
fn separator(source: &str, spec: &Node, at: usize) -> String {
    if source.get(spec.span.start..).is_some_and(|rest| rest.starts_with('{')) {
        return ", ".to_owned();
    }
    let line = source.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line_end = if source[..line].ends_with("\r\n") { "\r\n" } else { "\n" };
    format!("{line_end}{}", " ".repeat(at - line))
}
