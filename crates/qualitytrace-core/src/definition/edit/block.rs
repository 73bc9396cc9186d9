//! Lists and mappings in the block style of YAML: their lines.
//!
//! Items of a list are found by their dashes. All lines below a dash that are indented deeper belong to its item, so the
//! extent of an item does not depend on what is in it.

use std::ops::Range;

use qualitytrace_config::tree::{Entry, Node, Shape};

use super::item::{Field, NewItem};
use super::lines::{Lines, Replacement, indentation, is_blank, is_comment};
use super::scalar::Context;

/// A list in block style.
pub(super) struct BlockList<'s> {
    lines: Lines<'s>,
    /// The column of the dashes.
    column: usize,
    items: Vec<Item>,
}

/// The lines of an item.
#[derive(Debug, Clone)]
struct Item {
    /// Where the comments directly above it begin.
    start: usize,
    /// Its dash.
    dash: usize,
    /// Where the line after it begins.
    end: usize,
}

/// How new items are indented.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indents {
    /// From a dash to the text after it.
    pub(super) content: usize,
    /// From a key to the dashes of its list.
    pub(super) nested: usize,
}

impl<'s> BlockList<'s> {
    /// Finds the items of the list below a key; `None` if it is not a list in block style of this many items.
    pub(super) fn of(source: &'s str, entry: &Entry, count: usize) -> Option<Self> {
        let lines = Lines(source);
        if !is_alone(source.get(entry.key_span.end..lines.next(entry.key_span.end))?) {
            return None;
        }
        let mut at = lines.next(entry.key_span.end);
        while at < source.len() && (is_blank(lines.line(at)) || is_comment(lines.line(at))) {
            at = lines.next(at);
        }
        let column = indentation(lines.line(at));
        let mut items: Vec<Item> = Vec::new();
        while at < source.len() && is_dash(lines.line(at), column) {
            let (dash, start) = (at + column, comments_above(lines, at, column, items.last()));
            let end = extent(lines, at, column);
            items.push(Item { start, dash, end });
            at = end;
            // What is between two items: blank lines and comments.
            while at < source.len() && (is_blank(lines.line(at)) || is_comment(lines.line(at))) {
                at = lines.next(at);
            }
        }
        let is_below = column >= lines.column(entry.key_span.start);
        (items.len() == count && count > 0 && is_below).then_some(Self { lines, column, items })
    }

    /// Returns the bytes of an item, from its dash on.
    pub(super) fn item(&self, at: usize) -> Option<Range<usize>> {
        self.items.get(at).map(|item| item.dash..item.end)
    }

    /// Returns the distance from the dashes to the text after them.
    pub(super) fn content_indent(&self) -> usize {
        let rest = self.items.first().and_then(|item| self.lines.0.get(item.dash + 1..item.end));
        let blanks = rest.map_or(1, indentation);
        // The text of an item may begin on the next line.
        if rest.is_some_and(|rest| rest.trim_start_matches(' ').starts_with(['\r', '\n', '#', '&', '!'])) {
            return 2;
        }
        1 + blanks
    }

    /// Inserts items before the one with this index, or at the end.
    pub(super) fn insert(&self, at: usize, new: &[NewItem<'_>], nested: usize) -> Vec<Replacement> {
        let indents = Indents { content: self.content_indent(), nested };
        let ending = self.lines.ending(self.items.first().map_or(0, |item| item.end));
        let written: Vec<String> =
            new.iter().map(|item| written(item, self.column, indents, ending)).collect();
        let text = written.join(self.gap(ending));
        self.insert_text(at, &text, ending)
    }

    /// Removes an item with the comments directly above it and the blank lines before.
    pub(super) fn remove(&self, at: usize) -> Vec<Replacement> {
        let Some(item) = self.items.get(at) else { return Vec::new() };
        let mut range = self.lines.before_blanks(item.start)..item.end;
        if at == 0 && range.start == item.start && self.items.len() > 1 {
            range.end = self.lines.after_blanks(item.end);
        }
        vec![Replacement::remove(range)]
    }

    /// Moves an item with the comments directly above it, so that it gets the index `to`.
    pub(super) fn relocate(&self, at: usize, to: usize) -> Vec<Replacement> {
        let Some(item) = self.items.get(at) else { return Vec::new() };
        let ending = self.lines.ending(item.end);
        let mut text = self.lines.0.get(item.start..item.end).unwrap_or_default().to_owned();
        if !text.ends_with('\n') {
            text.push_str(ending);
        }
        let mut replacements = self.remove(at);
        replacements.extend(self.insert_text(if to > at { to + 1 } else { to }, &text, ending));
        replacements
    }

    /// Inserts whole lines before the item with this index, or at the end.
    fn insert_text(&self, at: usize, text: &str, ending: &'static str) -> Vec<Replacement> {
        let gap = self.gap(ending);
        if let Some(next) = self.items.get(at) {
            return vec![Replacement::insert(next.start, format!("{text}{gap}"))];
        }
        let end = self.items.last().map_or(0, |item| item.end);
        vec![after_line(self.lines, end, &format!("{gap}{text}"), ending)]
    }

    /// Returns what is between two items: nothing or a blank line.
    fn gap(&self, ending: &'static str) -> &'static str {
        match self.items.as_slice() {
            [first, second, ..]
                if self.lines.after_blanks(first.end) > first.end && second.dash > first.end =>
            {
                ending
            }
            _ => "",
        }
    }
}

/// Inserts lines at `end`, where a line begins, or the text ends without a line break.
pub(super) fn after_line(lines: Lines<'_>, end: usize, text: &str, ending: &str) -> Replacement {
    if end == 0 || lines.0.get(..end).is_some_and(|before| before.ends_with('\n')) {
        return Replacement::insert(end, text);
    }
    let text = text.strip_suffix(ending).unwrap_or(text);
    Replacement::insert(end, format!("{ending}{text}"))
}

/// Writes a new item as lines, the last one with its end.
pub(super) fn written(item: &NewItem<'_>, column: usize, indents: Indents, ending: &str) -> String {
    let dash = format!("{}-{}", " ".repeat(column), " ".repeat(indents.content - 1));
    let fields = match item {
        NewItem::Text(text) => return format!("{dash}{}{ending}", Context::Block.scalar(text)),
        NewItem::Fields(fields) => fields,
    };
    let column = column + indents.content;
    let mut out = dash;
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push_str(&" ".repeat(column));
        }
        out.push_str(&field_lines(field, column, indents, ending));
    }
    out
}

/// Writes a field as lines, the first without its indentation.
pub(super) fn field_lines(field: &Field<'_>, column: usize, indents: Indents, ending: &str) -> String {
    match field {
        Field::Text(key, text) => format!("{key}: {}{ending}", Context::Block.scalar(text)),
        Field::Texts(key, texts) => {
            let items = texts
                .iter()
                .map(|text| written(&NewItem::Text(text), column + indents.nested, indents, ending));
            format!("{key}:{ending}{}", items.collect::<String>())
        }
    }
}

/// Returns the bytes of an entry of a mapping in block style, up to the beginning of the line after it.
pub(super) fn entry_range(source: &str, entry: &Entry) -> Range<usize> {
    let lines = Lines(source);
    let start = lines.start(entry.key_span.start);
    entry.key_span.start..extent(lines, start, lines.column(entry.key_span.start))
}

/// Removes an entry of a mapping in block style. The first one of an item is on the line of its dash.
pub(super) fn remove_entry(source: &str, entry: &Entry) -> Replacement {
    let lines = Lines(source);
    let range = entry_range(source, entry);
    let start = lines.start(range.start);
    if source.get(start..range.start).is_some_and(is_blank) {
        return Replacement::remove(start..range.end);
    }
    Replacement::remove(range.start..range.end + indentation(lines.line(range.end)))
}

/// Maximum number of lists that are examined for their indentation.
const MAX_EXAMINED: usize = 100;

/// Returns the distance from a key to the dashes of its list, as the first list in the tree has it.
pub(super) fn nested_indent(source: &str, node: &Node) -> Option<usize> {
    let mut lists = Vec::new();
    lists_in(node, &mut lists);
    lists.into_iter().find_map(|(entry, count)| {
        let list = BlockList::of(source, entry, count)?;
        list.column.checked_sub(Lines(source).column(entry.key_span.start))
    })
}

/// Collects the first lists below keys, with the number of their items.
fn lists_in<'n>(node: &'n Node, found: &mut Vec<(&'n Entry, usize)>) {
    match &node.shape {
        Shape::Map(entries) => {
            for entry in entries {
                if let Shape::List(items) = &entry.value.shape
                    && found.len() < MAX_EXAMINED
                {
                    found.push((entry, items.len()));
                }
                lists_in(&entry.value, found);
            }
        }
        Shape::List(items) => items.iter().for_each(|item| lists_in(item, found)),
        Shape::Null | Shape::Scalar(_) => {}
    }
}

/// Whether a key has no value on its line: there is at most an anchor or a tag, and a comment.
fn is_alone(rest: &str) -> bool {
    let Some(rest) = rest.trim_start().strip_prefix(':') else { return false };
    let mut words = rest.split_whitespace().skip_while(|word| word.starts_with(['&', '!']));
    words.next().is_none_or(|word| word.starts_with('#'))
}

fn is_dash(line: &str, column: usize) -> bool {
    let rest = line.get(column..).and_then(|rest| rest.strip_prefix('-'));
    indentation(line) == column
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Returns where the lines end that belong to the one that begins here: they are indented deeper than `column`, or
/// blank between such.
fn extent(lines: Lines<'_>, start: usize, column: usize) -> usize {
    let mut end = lines.next(start);
    let mut at = end;
    while at < lines.0.len() {
        let line = lines.line(at);
        at = lines.next(at);
        if is_blank(line) {
            continue;
        }
        if indentation(line) <= column {
            break;
        }
        end = at;
    }
    end
}

/// Returns where the comments directly above a dash begin that do not belong to the item before.
fn comments_above(lines: Lines<'_>, dash_line: usize, column: usize, before: Option<&Item>) -> usize {
    let mut at = dash_line;
    while at > before.map_or(0, |item| item.end) {
        let above = lines.start(at - 1);
        let line = lines.line(above);
        if !is_comment(line) || (before.is_some() && indentation(line) > column) {
            break;
        }
        at = above;
    }
    at
}
