//! Writes the parts of a file in the canonical layout.

use qualitytrace_config::tree::{Node, Shape};

use super::parts::{Comment, Content, Document, File, Part};
use super::{Top, rank};
use crate::definition::schema::Place;

/// The indentation of nested keys, items and lines.
const INDENT: usize = 2;

pub(super) fn yaml(file: &File) -> String {
    let mut out = String::new();
    comments(&mut out, &file.before, 0, true);
    for (number, document) in file.documents.iter().enumerate() {
        if number > 0 || document.is_marked {
            out.push_str("---\n");
        }
        self::document(&mut out, document);
    }
    if file.has_returns { out.replace('\n', "\r\n") } else { out }
}

fn document(out: &mut String, document: &Document) {
    comments(out, &document.head, 0, true);
    match &document.content {
        Content::Map { parts, below } => {
            block(out, parts, below, 0, !document.head.is_empty());
        }
        Content::List { parts, below } => block(out, parts, below, 0, false),
        content => {
            inline(out, content, 0);
            out.push('\n');
            lines_below(out, content, 0);
        }
    }
}

/// Writes the parts of a list or mapping, and what is below them. The first part follows something when
/// `is_continued`.
fn block(out: &mut String, parts: &[Part], below: &[Comment], indent: usize, is_continued: bool) {
    for (number, part) in parts.iter().enumerate() {
        let is_first = number == 0 && !is_continued;
        comments(out, &part.above, indent, is_first);
        if part.is_after_blank && !(is_first && part.above.is_empty()) {
            out.push('\n');
        }
        pad(out, indent);
        self::part(out, part, indent);
    }
    comments(out, below, indent, false);
}

/// Writes a part, whose line is indented already.
fn part(out: &mut String, part: &Part, indent: usize) {
    if part.key.is_empty() && part.name.is_empty() {
        out.push('-');
    } else {
        out.push_str(&part.key);
        out.push(':');
    }
    let is_item = part.key.is_empty();
    // The first key of a mapping in a list is on the line of its dash, unless a comment is in between.
    if let (true, None, Content::Map { parts, below } | Content::List { parts, below }) =
        (is_item, &part.beside, &part.content)
        && let Some((first, rest)) = parts.split_first()
        && first.above.is_empty()
    {
        out.push(' ');
        self::part(out, first, indent + INDENT);
        block(out, rest, below, indent + INDENT, true);
        return;
    }
    inline(out, &part.content, indent);
    if let Some(comment) = &part.beside {
        out.push(' ');
        out.push_str(comment);
    }
    out.push('\n');
    lines_below(out, &part.content, indent);
}

/// Writes what is on the line of a key or a dash.
fn inline(out: &mut String, content: &Content, indent: usize) {
    let blank = if out.is_empty() || out.ends_with('\n') { "" } else { " " };
    match content {
        Content::Nothing | Content::Map { .. } | Content::List { .. } => {}
        Content::Inline(lines) => {
            for (number, line) in lines.iter().enumerate() {
                if number == 0 {
                    out.push_str(blank);
                } else {
                    out.push('\n');
                    if !line.is_empty() {
                        pad(out, indent + INDENT);
                    }
                }
                out.push_str(line);
            }
        }
        Content::Flow { lines } => {
            for (number, (deeper, line)) in lines.iter().enumerate() {
                if number == 0 {
                    out.push_str(blank);
                } else {
                    out.push('\n');
                    if !line.is_empty() {
                        pad(out, indent.saturating_add_signed(*deeper));
                    }
                }
                out.push_str(line);
            }
        }
        Content::Block { header, .. } => {
            out.push_str(blank);
            let digit = char::from_digit(u32::try_from(INDENT).unwrap_or(2), 10).unwrap_or('2');
            out.extend(header.chars().map(|c| if c.is_ascii_digit() { digit } else { c }));
        }
    }
}

/// Writes the lines below that of a key or a dash.
fn lines_below(out: &mut String, content: &Content, indent: usize) {
    match content {
        Content::Nothing | Content::Inline(_) | Content::Flow { .. } => {}
        Content::Block { lines, .. } => {
            for line in lines {
                if !line.is_empty() {
                    pad(out, indent + INDENT);
                    out.push_str(line);
                }
                out.push('\n');
            }
        }
        Content::Map { parts, below } | Content::List { parts, below } => {
            block(out, parts, below, indent + INDENT, false);
        }
    }
}

fn comments(out: &mut String, comments: &[Comment], indent: usize, is_first: bool) {
    for (number, comment) in comments.iter().enumerate() {
        if comment.is_after_blank && !(is_first && number == 0) {
            out.push('\n');
        }
        pad(out, indent);
        out.push_str(&comment.text);
        out.push('\n');
    }
}

fn pad(out: &mut String, columns: usize) {
    out.extend(std::iter::repeat_n(' ', columns));
}

/// Writes a document of a JSON file.
pub(super) fn json(out: &mut String, source: &str, document: &Node, top: &Top<'_>, indent: usize) {
    json_node(out, source, document, Some(&top.place()), top.spec().as_ref(), indent);
}

fn json_node(
    out: &mut String,
    source: &str,
    node: &Node,
    place: Option<&Place<'_>>,
    spec: Option<&Place<'_>>,
    indent: usize,
) {
    let line = |out: &mut String, columns: usize| {
        out.push('\n');
        pad(out, columns);
    };
    match &node.shape {
        Shape::List(items) if !items.is_empty() => {
            let inner = place.map(Place::item);
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                line(out, indent + INDENT);
                json_node(out, source, item, inner.as_ref(), None, indent + INDENT);
            }
            line(out, indent);
            out.push(']');
        }
        Shape::Map(entries) if !entries.is_empty() => {
            let keys = place.map(Place::keys).unwrap_or_default();
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by_key(|entry| rank(&keys, &entry.key));
            out.push('{');
            for (number, entry) in sorted.into_iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                line(out, indent + INDENT);
                out.push_str(source.get(entry.key_span.clone()).unwrap_or_default());
                out.push_str(": ");
                let of_kind = spec.filter(|_| entry.key == "spec").cloned();
                let inner = of_kind.or_else(|| place.map(|place| place.key(&entry.key)));
                json_node(out, source, &entry.value, inner.as_ref(), None, indent + INDENT);
            }
            line(out, indent);
            out.push('}');
        }
        Shape::List(_) => out.push_str("[]"),
        Shape::Map(_) => out.push_str("{}"),
        Shape::Null | Shape::Scalar(_) => {
            out.push_str(source.get(node.span.clone()).unwrap_or_default());
        }
    }
}
