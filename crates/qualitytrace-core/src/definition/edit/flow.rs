//! Lists and mappings between brackets and braces: the flow style of YAML, and JSON.

use std::ops::Range;

use qualitytrace_config::tree::{Entry, Node, Shape};

use super::item::{Field, NewItem};
use super::lines::Replacement;
use super::scalar::Context;

/// A list or mapping in flow style.
pub(super) struct Flow<'s> {
    source: &'s str,
    context: Context,
    /// The position after the opening bracket.
    open: usize,
    /// The bytes of its items or entries.
    parts: Vec<Range<usize>>,
}

impl<'s> Flow<'s> {
    /// Whether the value is written between brackets or braces.
    pub(super) fn is_flow(source: &str, node: &Node) -> bool {
        let first = source.as_bytes().get(node.span.start);
        match node.shape {
            Shape::List(_) => first == Some(&b'['),
            Shape::Map(_) => first == Some(&b'{'),
            Shape::Null | Shape::Scalar(_) => false,
        }
    }

    /// Finds the parts of the value; `None` if it is not in flow style, or a part is an alias.
    pub(super) fn of(source: &'s str, context: Context, node: &Node) -> Option<Self> {
        if !Self::is_flow(source, node) {
            return None;
        }
        let open = node.span.start + 1;
        let parts: Vec<Range<usize>> = match &node.shape {
            Shape::List(items) => items.iter().map(|item| item.span.clone()).collect(),
            Shape::Map(entries) => entries.iter().map(entry_span).collect(),
            Shape::Null | Shape::Scalar(_) => return None,
        };
        let mut at = open;
        for part in &parts {
            if part.start < at || part.end <= part.start || part.end > node.span.end {
                return None;
            }
            at = part.end;
        }
        Some(Self { source, context, open, parts })
    }

    pub(super) fn context(&self) -> Context {
        self.context
    }

    /// Inserts items before the one with this index, or at the end.
    pub(super) fn insert(&self, at: usize, new: &[NewItem<'_>]) -> Vec<Replacement> {
        let separator = format!(",{}", self.blanks());
        let written: Vec<String> = new.iter().map(|item| written(item, self.context)).collect();
        self.insert_text(at, &written.join(&separator))
    }

    /// Inserts a part before the one with this index, or at the end.
    pub(super) fn insert_text(&self, at: usize, text: &str) -> Vec<Replacement> {
        let blanks = self.blanks();
        let replacement = match (self.parts.get(at), self.parts.last()) {
            (Some(next), _) => Replacement::insert(next.start, format!("{text},{blanks}")),
            (None, Some(last)) => Replacement::insert(last.end, format!(",{blanks}{text}")),
            (None, None) => Replacement::insert(self.open, text),
        };
        vec![replacement]
    }

    /// Removes parts, with one comma each.
    pub(super) fn remove(&self, gone: &[usize]) -> Vec<Replacement> {
        let mut replacements = Vec::new();
        for &at in gone {
            let Some(part) = self.parts.get(at) else { continue };
            match self.comma(part.end) {
                Some(comma) => {
                    let blanks = leading_blanks(self.source, comma + 1);
                    // Without the blanks before it, a comment would be none.
                    let is_comment = self.source.as_bytes().get(comma + 1 + blanks) == Some(&b'#');
                    let end = comma + 1 + if is_comment { 0 } else { blanks };
                    replacements.push(Replacement::remove(part.start..end));
                }
                // The last one: the comma behind the last part that stays goes, too.
                None => {
                    let before = (0..at).rev().find(|before| !gone.contains(before));
                    if let Some((before, next)) =
                        before.and_then(|at| Some((self.parts.get(at)?, self.parts.get(at + 1)?)))
                        && let Some(comma) = self.comma(before.end)
                    {
                        // The line break after a comment stays.
                        let blanks =
                            self.source.get(comma + 1..next.start).filter(|text| text.trim().is_empty());
                        replacements.push(Replacement::remove(comma..comma + 1 + blanks.map_or(0, str::len)));
                    }
                    replacements.push(Replacement::remove(part.clone()));
                }
            }
        }
        replacements
    }

    /// Moves a part, so that it gets the index `to`.
    pub(super) fn relocate(&self, at: usize, to: usize) -> Vec<Replacement> {
        let text = self.parts.get(at).and_then(|part| self.source.get(part.clone())).unwrap_or_default();
        // The texts change places one by one: what is between them stays.
        let range = at.min(to)..=at.max(to);
        let mut replacements = Vec::new();
        for place in range {
            let from = match place {
                place if place == to => at,
                place if at < to => place + 1,
                place => place - 1,
            };
            let moved = self.parts.get(from).and_then(|part| self.source.get(part.clone())).unwrap_or(text);
            if let Some(part) = self.parts.get(place) {
                replacements.push(Replacement { range: part.clone(), text: moved.to_owned() });
            }
        }
        replacements
    }

    /// Returns the blanks between two parts: a line break with its indentation, one blank or none.
    fn blanks(&self) -> &'s str {
        let before = |at: usize, from: usize| {
            let start = self.parts.get(at).map_or(from, |part| part.start);
            let count = trailing_blanks(self.source, from..start);
            self.source.get(start - count..start).unwrap_or_default()
        };
        match self.parts.as_slice() {
            [] => " ",
            [_] => match before(0, self.open) {
                blanks if blanks.contains('\n') => blanks,
                _ => " ",
            },
            [first, ..] => before(1, first.end),
        }
    }

    /// Returns the comma after a part, behind blanks and comments.
    fn comma(&self, end: usize) -> Option<usize> {
        let mut at = end;
        loop {
            at += leading_blanks(self.source, at);
            match self.source.as_bytes().get(at)? {
                b',' => return Some(at),
                b'#' if self.context != Context::Json => at += self.source.get(at..)?.find('\n')?,
                _ => return None,
            }
        }
    }
}

/// Returns the bytes of an entry; an absent value ends with the key.
fn entry_span(entry: &Entry) -> Range<usize> {
    entry.key_span.start..entry.value.span.end.max(entry.key_span.end)
}

/// Writes a new item between brackets.
pub(super) fn written(item: &NewItem<'_>, context: Context) -> String {
    match item {
        NewItem::Text(text) => context.scalar(text),
        NewItem::Fields(fields) => {
            let fields: Vec<String> = fields.iter().map(|field| field_text(field, context)).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

/// Writes a field between braces.
pub(super) fn field_text(field: &Field<'_>, context: Context) -> String {
    match field {
        Field::Text(key, text) => format!("{}: {}", context.key(key), context.scalar(text)),
        Field::Texts(key, texts) => {
            let texts: Vec<String> = texts.iter().map(|text| context.scalar(text)).collect();
            format!("{}: [{}]", context.key(key), texts.join(", "))
        }
    }
}

fn leading_blanks(source: &str, at: usize) -> usize {
    source.get(at..).map_or(0, |rest| rest.len() - rest.trim_start().len())
}

fn trailing_blanks(source: &str, range: Range<usize>) -> usize {
    source.get(range).map_or(0, |text| text.len() - text.trim_end().len())
}
