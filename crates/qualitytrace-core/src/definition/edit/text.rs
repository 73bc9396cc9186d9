//! Which bytes of a definition a change replaces.
//!
//! It need not be right in every case: the caller reads the result again and refuses what does not mean the change.

use std::ops::Range;

use qualitytrace_config::tree::{Entry, Node, Shape, Style};

use super::block::{self, BlockList, Indents};
use super::change::Change;
use super::flow::{self, Flow};
use super::item::{Field, NewItem};
use super::lines::{Lines, Replacement, indentation, is_blank, is_comment};
use super::scalar::Context;
use crate::definition::{Format, Output, Spec, Test, Text};

/// Blanks between a dash and its text, and between a key and the dashes below it, where the file shows no other.
const USUAL_INDENT: usize = 2;

const NO_SPEC: &str = "the test has no `spec` that is written as a mapping";
const NO_LIST: &str = "the list is not written in place: it may be an alias";
const NO_ITEM: &str = "the item is not written in place: it may be an alias";
const NO_VALUE: &str = "the value is not written in place: it may be an alias";

type Replacements = Result<Vec<Replacement>, &'static str>;

/// Returns what a change replaces in the text. `document` is the test in it, `before` and `after` its meaning.
pub(super) fn replacements(
    source: &str,
    format: Format,
    document: &Node,
    change: &Change,
    before: &Test,
    after: &Test,
) -> Replacements {
    let spec = document.get("spec").filter(|spec| matches!(spec.shape, Shape::Map(_))).ok_or(NO_SPEC)?;
    let nested = match format {
        Format::Yaml => block::nested_indent(source, document).unwrap_or(USUAL_INDENT),
        Format::Json => USUAL_INDENT,
    };
    let editor = Editor { source, format, nested };
    let specs = ListAt { holder: spec, key: "specs", count: before.specs.len() };
    let outputs = ListAt { holder: spec, key: "outputs", count: before.outputs.len() };
    match change {
        Change::Rename { name } => editor.set_text(spec, "name", name),
        Change::AddSpec { at, .. } => {
            let at = at.unwrap_or(before.specs.len());
            let new = after.specs.get(at).map(NewItem::of_spec).ok_or(NO_ITEM)?;
            editor.insert(&specs, at, &[new])
        }
        Change::ChangeSpec { at, .. }
        | Change::AddAssertion { spec: at, .. }
        | Change::ChangeAssertion { spec: at, .. }
        | Change::RemoveAssertion { spec: at, .. } => match (before.specs.get(*at), after.specs.get(*at)) {
            (Some(before), Some(after)) => editor.change_spec(&specs, *at, before, after),
            _ => Err(NO_ITEM),
        },
        Change::RemoveSpec { at } => editor.remove(&specs, *at..at + 1),
        Change::MoveSpec { at, to } => editor.relocate(&specs, *at, *to),
        Change::AddOutput { at, .. } => {
            let at = at.unwrap_or(before.outputs.len());
            let new = after.outputs.get(at).map(NewItem::of_output).ok_or(NO_ITEM)?;
            editor.insert(&outputs, at, &[new])
        }
        Change::ChangeOutput { at, .. } => match (before.outputs.get(*at), after.outputs.get(*at)) {
            (Some(before), Some(after)) => editor.change_output(&outputs, *at, before, after),
            _ => Err(NO_ITEM),
        },
        Change::RemoveOutput { at } => editor.remove(&outputs, *at..at + 1),
        Change::MoveOutput { at, to } => editor.relocate(&outputs, *at, *to),
    }
}

/// A list under a key of a mapping; it may be absent.
struct ListAt<'n> {
    holder: &'n Node,
    key: &'static str,
    count: usize,
}

impl<'n> ListAt<'n> {
    fn entry(&self) -> Option<&'n Entry> {
        entry(self.holder, self.key)
    }

    fn item(&self, at: usize) -> Option<&'n Node> {
        match &self.entry()?.value.shape {
            Shape::List(items) => items.get(at),
            Shape::Null | Shape::Scalar(_) | Shape::Map(_) => None,
        }
    }
}

fn entry<'n>(map: &'n Node, key: &str) -> Option<&'n Entry> {
    match &map.shape {
        Shape::Map(entries) => entries.iter().find(|entry| entry.key == key),
        Shape::Null | Shape::Scalar(_) | Shape::List(_) => None,
    }
}

struct Editor<'s> {
    source: &'s str,
    format: Format,
    nested: usize,
}

impl<'s> Editor<'s> {
    fn lines(&self) -> Lines<'s> {
        Lines(self.source)
    }

    fn flow(&self, node: &Node) -> Option<Flow<'s>> {
        Flow::of(self.source, Context::flow(self.format), node)
    }

    fn block(&self, list: &ListAt<'_>) -> Option<BlockList<'s>> {
        if self.format == Format::Json {
            return None;
        }
        BlockList::of(self.source, list.entry()?, list.count)
    }

    /// Inserts items into a list, which is made where there is none.
    fn insert(&self, list: &ListAt<'_>, at: usize, new: &[NewItem<'_>]) -> Replacements {
        if let Some(block) = self.block(list) {
            return Ok(block.insert(at, new, self.nested));
        }
        let Some(entry) = list.entry() else {
            return self.insert_list(list, new);
        };
        if list.count > 0 || Flow::is_flow(self.source, list.holder) {
            return match self.flow(&entry.value) {
                Some(flow) => Ok(flow.insert(at, new)),
                None if list.count == 0 => self.fill(entry, &self.flow_list(new)),
                None => Err(NO_LIST),
            };
        }
        // An empty list in a block: its items get lines of their own.
        let colon = self.colon(entry).ok_or(NO_VALUE)?;
        let value = &entry.value.span;
        let is_written = value.start >= colon && value.end > value.start;
        let mut replacements = Vec::new();
        if is_written {
            let blanks =
                self.source.get(colon + 1..value.start).map_or(0, |text| text.len() - text.trim_end().len());
            replacements.push(Replacement::remove(value.start - blanks..value.end));
        }
        let end = self.lines().next(if is_written { value.end } else { colon });
        let ending = self.lines().ending(end);
        let column = self.lines().column(entry.key_span.start) + self.nested;
        let text = self.block_items(new, column, ending);
        replacements.push(block::after_line(self.lines(), end, &text, ending));
        Ok(replacements)
    }

    /// Adds the key of a list, with the items, at the end of its mapping.
    fn insert_list(&self, list: &ListAt<'_>, new: &[NewItem<'_>]) -> Replacements {
        if let Some(flow) = self.flow(list.holder) {
            let Shape::Map(entries) = &list.holder.shape else { return Err(NO_LIST) };
            let text = format!("{}: {}", flow.context().key(list.key), self.flow_list(new));
            return Ok(flow.insert_text(entries.len(), &text));
        }
        let (column, end) = self.end_of_map(list.holder)?;
        let ending = self.lines().ending(end);
        let items = self.block_items(new, column + self.nested, ending);
        let text = format!("{}{}:{ending}{items}", " ".repeat(column), list.key);
        Ok(vec![block::after_line(self.lines(), end, &text, ending)])
    }

    /// Returns the column of the keys of a mapping in block style, and where the line after it begins.
    fn end_of_map(&self, map: &Node) -> Result<(usize, usize), &'static str> {
        let Shape::Map(entries) = &map.shape else { return Err(NO_SPEC) };
        // Merged entries are written elsewhere.
        let own = entries.iter().filter(|entry| entry.key_span.start >= map.span.start);
        let last = own.max_by_key(|entry| entry.key_span.start).ok_or(NO_SPEC)?;
        let column = self.lines().column(last.key_span.start);
        let mut end = block::entry_range(self.source, last).end;
        // The dashes of a list may be in the column of their key.
        let mut at = end;
        while at < self.source.len() {
            let line = self.lines().line(at);
            at = self.lines().next(at);
            let is_item = indentation(line) == column && line.trim_start().starts_with("- ");
            if is_item || (indentation(line) > column && !is_blank(line)) {
                end = at;
            } else if !is_blank(line) && !is_comment(line) {
                break;
            }
        }
        Ok((column, end))
    }

    fn block_items(&self, new: &[NewItem<'_>], column: usize, ending: &str) -> String {
        let indents = Indents { content: USUAL_INDENT, nested: self.nested };
        new.iter().map(|item| block::written(item, column, indents, ending)).collect()
    }

    fn flow_list(&self, new: &[NewItem<'_>]) -> String {
        let items: Vec<String> =
            new.iter().map(|item| flow::written(item, Context::flow(self.format))).collect();
        format!("[{}]", items.join(", "))
    }

    fn remove(&self, list: &ListAt<'_>, range: Range<usize>) -> Replacements {
        if let Some(block) = self.block(list) {
            return Ok(range.flat_map(|at| block.remove(at)).collect());
        }
        let flow = list.entry().and_then(|entry| self.flow(&entry.value)).ok_or(NO_LIST)?;
        Ok(flow.remove(&range.collect::<Vec<_>>()))
    }

    fn relocate(&self, list: &ListAt<'_>, at: usize, to: usize) -> Replacements {
        if at == to {
            return Ok(Vec::new());
        }
        if let Some(block) = self.block(list) {
            return Ok(block.relocate(at, to));
        }
        let flow = list.entry().and_then(|entry| self.flow(&entry.value)).ok_or(NO_LIST)?;
        Ok(flow.relocate(at, to))
    }

    fn change_spec(&self, list: &ListAt<'_>, at: usize, before: &Spec, after: &Spec) -> Replacements {
        let item = self.item(list, at)?;
        let legacy = item.get("Key").and(item.get("Value"));
        let (inner, name, selector, assertions) = match legacy {
            Some(value) => (value, "Name", "Key", "Assertions"),
            None => (item, "name", "selector", "assertions"),
        };
        let mut replacements = Vec::new();
        let mut gone = Vec::new();
        if before.name != after.name {
            match &after.name {
                Some(new) => replacements.extend(self.set_text(inner, name, new)?),
                None => gone.push(name),
            }
        }
        if before.selector != after.selector {
            if after.selector.is_empty() && legacy.is_none() {
                gone.push(selector);
            } else {
                replacements.extend(self.set_selector(item, selector, &after.selector)?);
            }
        }
        if let Some(within) = after.within.as_ref().filter(|within| before.within.as_ref() != Some(within)) {
            replacements.extend(self.set_text(inner, "within", &within.text)?);
        }
        replacements.extend(self.remove_entries(inner, &gone)?);
        let list = ListAt { holder: inner, key: assertions, count: before.assertions.len() };
        replacements.extend(self.change_texts(&list, &before.assertions, &after.assertions)?);
        Ok(replacements)
    }

    fn change_output(&self, list: &ListAt<'_>, at: usize, before: &Output, after: &Output) -> Replacements {
        let item = self.item(list, at)?;
        let legacy = item.get("Key").and(item.get("Value"));
        let (inner, name) = legacy.map_or((item, "name"), |value| (value, "Key"));
        let mut replacements = Vec::new();
        if before.name != after.name {
            replacements.extend(self.set_text(item, name, &after.name.value)?);
        }
        if before.selector != after.selector {
            replacements.extend(self.set_selector(inner, "selector", &after.selector)?);
        }
        if before.value != after.value {
            replacements.extend(self.set_text(inner, "value", &after.value.value)?);
        }
        Ok(replacements)
    }

    /// Returns an item that is written in its list, and not elsewhere.
    fn item<'n>(&self, list: &ListAt<'n>, at: usize) -> Result<&'n Node, &'static str> {
        self.items(list, at..at + 1)?.first().copied().ok_or(NO_ITEM)
    }

    fn items<'n>(&self, list: &ListAt<'n>, range: Range<usize>) -> Result<Vec<&'n Node>, &'static str> {
        let block = self.block(list);
        let is_flow = || list.entry().is_some_and(|entry| self.flow(&entry.value).is_some());
        if block.is_none() && !is_flow() {
            return Err(NO_ITEM);
        }
        let is_here = |at: usize, item: &Node| match &block {
            Some(block) => block.item(at).is_some_and(|range| range.contains(&item.span.start)),
            None => true,
        };
        range.map(|at| list.item(at).filter(|item| is_here(at, item)).ok_or(NO_ITEM)).collect()
    }

    /// Replaces those texts of a list that differ, and inserts or removes where there are more or fewer.
    fn change_texts(&self, list: &ListAt<'_>, before: &[Text], after: &[Text]) -> Replacements {
        let head = before.iter().zip(after).take_while(|(before, after)| before == after).count();
        let (rest, new) = (&before[head..], &after[head..]);
        let tail = rest.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
        let (rest, new) = (rest.len() - tail, &new[..new.len() - tail]);
        let mut replacements = Vec::new();
        let kept = rest.min(new.len());
        let context = list.entry().map_or(Context::Block, |entry| self.context_in(&entry.value));
        if kept > 0 {
            for (item, text) in self.items(list, head..head + kept)?.into_iter().zip(new) {
                replacements.push(self.scalar(context, item, text)?);
            }
        }
        if rest > kept {
            replacements.extend(self.remove(list, head + kept..head + rest)?);
        }
        if new.len() > kept {
            let new: Vec<NewItem<'_>> = new[kept..].iter().map(|text| NewItem::Text(&text.value)).collect();
            replacements.extend(self.insert(list, head + kept, &new)?);
        }
        Ok(replacements)
    }

    /// Replaces a scalar item of a list.
    fn scalar(&self, context: Context, item: &Node, text: &Text) -> Result<Replacement, &'static str> {
        let Shape::Scalar(scalar) = &item.shape else { return Err(NO_VALUE) };
        if scalar.style != Style::Block {
            let text = context.scalar_like(&text.value, scalar.style);
            return Ok(Replacement { range: item.span.clone(), text });
        }
        // The block begins with its header, behind the dash of its line or of the one above.
        let header = self.source.get(..item.span.start).and_then(|before| before.rfind(['|', '>']));
        self.block_scalar(header.ok_or(NO_VALUE)?, &text.value)
    }

    fn set_selector(&self, item: &Node, key: &'static str, selector: &Text) -> Replacements {
        let written = [key, "selectorParsed"]
            .iter()
            .find_map(|key| entry(item, key).filter(|entry| !entry.value.is_null()));
        match written {
            Some(Entry { value, .. }) if matches!(value.shape, Shape::Map(_)) => {
                self.set_text(value, "query", &selector.value)
            }
            Some(_) | None => self.set_text(item, key, &selector.value),
        }
    }

    /// Gives a key of a mapping another text; a new key becomes the first.
    fn set_text(&self, map: &Node, key: &'static str, text: &str) -> Replacements {
        let Shape::Map(entries) = &map.shape else { return Err(NO_ITEM) };
        if let Some(entry) = entry(map, key) {
            return self.set_value(self.context_in(map), entry, text);
        }
        let field = Field::Text(key, text);
        if let Some(flow) = self.flow(map) {
            return Ok(flow.insert_text(0, &flow::field_text(&field, flow.context())));
        }
        let first = entries.iter().filter(|entry| entry.key_span.start >= map.span.start);
        let first = first.min_by_key(|entry| entry.key_span.start).ok_or(NO_ITEM)?;
        let at = first.key_span.start;
        let (column, ending) = (self.lines().column(at), self.lines().ending(at));
        let indents = Indents { content: USUAL_INDENT, nested: self.nested };
        let text = block::field_lines(&field, column, indents, ending);
        Ok(vec![Replacement::insert(at, format!("{text}{}", " ".repeat(column)))])
    }

    fn set_value(&self, context: Context, entry: &Entry, text: &str) -> Replacements {
        let colon = self.colon(entry).ok_or(NO_VALUE)?;
        let value = &entry.value;
        match &value.shape {
            Shape::Null if value.span.start <= colon || value.span.is_empty() => {
                self.fill(entry, &context.scalar(text))
            }
            Shape::Scalar(scalar) if scalar.style == Style::Block => {
                let rest = self.source.get(colon + 1..).unwrap_or_default();
                let header = colon + 1 + (rest.len() - rest.trim_start().len());
                self.block_scalar(header, text).map(|replacement| vec![replacement])
            }
            Shape::Null | Shape::Scalar(_) if value.span.start > colon => {
                let style = match &value.shape {
                    Shape::Scalar(scalar) => scalar.style,
                    Shape::Null | Shape::List(_) | Shape::Map(_) => Style::Plain,
                };
                let text = context.scalar_like(text, style);
                Ok(vec![Replacement { range: value.span.clone(), text }])
            }
            Shape::Null | Shape::Scalar(_) | Shape::List(_) | Shape::Map(_) => Err(NO_VALUE),
        }
    }

    /// Replaces a literal or folded block, whose header is here. A comment behind the header stays.
    fn block_scalar(&self, header: usize, text: &str) -> Result<Replacement, &'static str> {
        let lines = self.lines();
        let start = lines.start(header);
        let line = self.source.get(header..lines.next(header)).ok_or(NO_VALUE)?;
        let comment = line.find(" #").map_or("", |at| line[at..].trim_end());
        // The key or the dash that the block belongs to: its content is indented deeper.
        let prefix = self.source.get(start..header).unwrap_or_default();
        let dashes = prefix.len() - prefix.trim_start_matches([' ', '-']).len();
        let column = if dashes == prefix.len() { prefix.rfind('-').unwrap_or(0) } else { dashes };
        let mut end = lines.next(start);
        let mut at = end;
        while at < self.source.len() && (is_blank(lines.line(at)) || indentation(lines.line(at)) > column) {
            let next = lines.next(at);
            if !is_blank(lines.line(at)) {
                end = next;
            }
            at = next;
        }
        let kept = self.source.get(header..end).unwrap_or_default();
        let kept = kept.trim_end_matches(['\r', '\n']);
        let text = format!("{}{comment}", Context::Block.scalar(text));
        Ok(Replacement { range: header..header + kept.len(), text })
    }

    /// Writes the value of a key that has none.
    fn fill(&self, entry: &Entry, text: &str) -> Replacements {
        let colon = self.colon(entry).ok_or(NO_VALUE)?;
        let value = &entry.value.span;
        if value.start > colon && value.end > value.start {
            return Ok(vec![Replacement { range: value.clone(), text: text.to_owned() }]);
        }
        Ok(vec![Replacement::insert(colon + 1, format!(" {text}"))])
    }

    fn remove_entries(&self, map: &Node, keys: &[&str]) -> Replacements {
        let Shape::Map(entries) = &map.shape else { return Err(NO_ITEM) };
        let gone: Vec<usize> =
            (0..entries.len()).filter(|at| keys.contains(&entries[*at].key.as_str())).collect();
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(flow) = self.flow(map) {
            return Ok(flow.remove(&gone));
        }
        Ok(gone.into_iter().map(|at| block::remove_entry(self.source, &entries[at])).collect())
    }

    /// Returns the colon behind a key.
    fn colon(&self, entry: &Entry) -> Option<usize> {
        let rest = self.source.get(entry.key_span.end..)?;
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        rest[blanks..].starts_with(':').then_some(entry.key_span.end + blanks)
    }

    /// Returns how scalars are written in a list or mapping.
    fn context_in(&self, node: &Node) -> Context {
        if Flow::is_flow(self.source, node) { Context::flow(self.format) } else { Context::Block }
    }
}
