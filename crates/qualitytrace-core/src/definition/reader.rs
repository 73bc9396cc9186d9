//! Reads fields from the shared tree, and collects diagnostics.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;

use qualitytrace_config::tree::{Entry, Node, Shape};

use super::Format;
use super::text::{Origin, Text};
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// The file being read and the diagnostics so far.
pub(super) struct Reader<'s> {
    pub(super) source: &'s str,
    pub(super) format: Format,
    diagnostics: RefCell<Vec<Diagnostic>>,
    /// Maximum number of diagnostics kept.
    most: usize,
    /// The number of diagnostics that were dropped.
    left_out: Cell<usize>,
}

/// Maximum number of diagnostics kept for a file; more would not be read.
const MAX_DIAGNOSTICS: usize = 1_000;

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s str, format: Format) -> Self {
        let (diagnostics, left_out) = (RefCell::default(), Cell::default());
        Self { source, format, diagnostics, most: MAX_DIAGNOSTICS, left_out }
    }

    /// A reader for a resource that was checked when it was stored: its diagnostics are not needed.
    pub(super) fn of_stored(source: &'s str, format: Format) -> Self {
        Self { most: 0, ..Self::new(source, format) }
    }

    /// Returns the diagnostics, in the order of the file.
    pub(super) fn finish(self) -> Vec<Diagnostic> {
        let mut diagnostics = self.diagnostics.into_inner();
        if self.left_out.get() > 0 {
            let message = format!("{} more things are wrong with this file", self.left_out.get());
            let end = self.source.len();
            diagnostics.push(Diagnostic::warning("too-many", end..end, message));
        }
        diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        diagnostics
    }

    pub(super) fn error(&self, code: &'static str, span: Range<usize>, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    /// Counts the errors found so far.
    pub(super) fn errors(&self) -> usize {
        self.diagnostics.borrow().iter().filter(|found| found.is_error()).count()
    }

    /// Whether no more diagnostics are kept.
    fn is_full(&self) -> bool {
        self.diagnostics.borrow().len() >= self.most
    }

    pub(super) fn report(&self, diagnostic: Diagnostic) {
        let mut kept = self.diagnostics.borrow_mut();
        // The first error is always kept: it decides whether the file can be used.
        if kept.len() < self.most || (diagnostic.is_error() && !kept.iter().any(Diagnostic::is_error)) {
            kept.push(diagnostic);
        } else {
            self.left_out.set(self.left_out.get() + 1);
        }
    }

    /// Returns the bytes of the character at `at`, for an error that has only a position.
    pub(super) fn letter_at(&self, at: usize) -> Range<usize> {
        let mut start = at.min(self.source.len());
        while !self.source.is_char_boundary(start) {
            start -= 1;
        }
        let length = self.source[start..].chars().next().map_or(0, char::len_utf8);
        start..start + length
    }

    /// Reads a text. YAML allows unquoted numbers and booleans as texts; JSON does not.
    pub(super) fn text(&self, node: &Node, what: &str) -> Option<Text> {
        match &node.shape {
            Shape::Scalar(scalar) if scalar.is_text || self.format == Format::Yaml => Some(Text {
                value: scalar.text.clone(),
                origin: Some(Origin::trace(self.source, node.span.clone(), &scalar.text, scalar.style)),
            }),
            Shape::Null => {
                Some(Text { value: String::new(), origin: Some(Origin::unknown(node.span.clone())) })
            }
            Shape::Scalar(_) | Shape::List(_) | Shape::Map(_) => {
                self.mismatch(node, what, "a text");
                None
            }
        }
    }

    pub(super) fn flag(&self, node: &Node, what: &str) -> Option<bool> {
        if let Shape::Scalar(scalar) = &node.shape
            && let Some(flag) = scalar.as_bool()
        {
            return Some(flag);
        }
        self.mismatch(node, what, "`true` or `false`");
        None
    }

    pub(super) fn int(&self, node: &Node, what: &str) -> Option<i64> {
        if let Shape::Scalar(scalar) = &node.shape
            && let Some(number) = scalar.as_int()
        {
            return Some(number);
        }
        match &node.shape {
            Shape::Scalar(scalar) if scalar.is_large_int() => {
                let message =
                    format!("{what} takes a whole number of 64 bits, and {} is larger", scalar.text);
                self.error("wrong-type", node.span.clone(), message);
            }
            _ => self.mismatch(node, what, "a whole number"),
        }
        None
    }

    pub(super) fn items<'n>(&self, node: &'n Node, what: &str) -> &'n [Node] {
        if let Shape::List(items) = &node.shape {
            return items;
        }
        self.mismatch(node, what, "a list");
        &[]
    }

    /// Reads a mapping from texts to texts, in the order of the file.
    pub(super) fn pairs(&self, node: &Node, what: &str) -> Vec<(String, Text)> {
        let Shape::Map(entries) = &node.shape else {
            self.mismatch(node, what, "a mapping");
            return Vec::new();
        };
        self.duplicates(entries, what);
        entries
            .iter()
            .filter_map(|entry| {
                let value = self.text(&entry.value, &format!("`{}`", entry.key))?;
                Some((entry.key.clone(), value))
            })
            .collect()
    }

    /// Returns the fields of a mapping; reports an error and returns `None` when it is not one.
    pub(super) fn fields<'n>(&self, node: &'n Node, what: &'static str) -> Option<Fields<'n, '_>>
    where
        's: 'n,
    {
        let entries: &[Entry] = match &node.shape {
            Shape::Map(entries) => entries,
            Shape::Null => &[],
            Shape::Scalar(_) | Shape::List(_) => {
                self.mismatch(node, what, "a mapping");
                return None;
            }
        };
        self.duplicates(entries, what);
        Some(Fields { reader: self, what, entries, span: node.span.clone(), known: Vec::new() })
    }

    fn duplicates(&self, entries: &[Entry], what: &str) {
        let mut known = HashSet::new();
        for entry in entries {
            if !known.insert(entry.key.as_str()) {
                let message = format!("`{}` is given twice in {what}", entry.key);
                self.report(
                    Diagnostic::error("duplicate-key", entry.key_span.clone(), message)
                        .helped("keep one of the two"),
                );
            }
        }
    }

    fn mismatch(&self, node: &Node, what: &str, wanted: &str) {
        self.error(
            "wrong-type",
            node.span.clone(),
            format!("{what} takes {wanted}, but this is {}", node.describe()),
        );
    }
}

/// The fields of one mapping: each known key is read by name, and all others are reported.
pub(super) struct Fields<'n, 'r> {
    pub(super) reader: &'r Reader<'r>,
    what: &'static str,
    entries: &'n [Entry],
    /// The place of the mapping.
    pub(super) span: Range<usize>,
    known: Vec<&'static str>,
}

impl<'n> Fields<'n, '_> {
    /// Returns the value of a key; `None` when it is absent or null.
    pub(super) fn get(&mut self, key: &'static str) -> Option<&'n Node> {
        self.entry(key).map(|entry| &entry.value).filter(|node| !node.is_null())
    }

    /// Returns a key with its value; `None` when it is absent.
    pub(super) fn entry(&mut self, key: &'static str) -> Option<&'n Entry> {
        self.known.push(key);
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Whether the key is present, with any value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Accepts keys that responses of the API have and that mean nothing in a file.
    pub(super) fn ignore(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// Warns of a key that users may expect to work and that has no effect here.
    pub(super) fn unused(&mut self, key: &'static str, message: &str, help: &str) {
        if let Some(entry) = self.entry(key) {
            let warning = Diagnostic::warning("unused-key", entry.key_span.clone(), message);
            self.reader.report(warning.helped(help));
        }
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<Text> {
        let node = self.get(key)?;
        self.reader.text(node, &format!("`{key}`"))
    }

    pub(super) fn string(&mut self, key: &'static str) -> Option<String> {
        self.text(key).map(|text| text.value)
    }

    /// Reads the required `name`; `missing` is the message when there is none.
    pub(super) fn required_name(&mut self, missing: &str) -> String {
        let span = self.span.clone();
        match self.get("name") {
            // A value of the wrong type was reported already.
            Some(node) => match self.reader.text(node, "`name`") {
                Some(name) if !name.is_empty() => return name.value,
                Some(_) => self.reader.error("no-name", node.span.clone(), missing),
                None => {}
            },
            None => self.reader.error("no-name", span, missing),
        }
        String::new()
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let node = self.get(key)?;
        self.reader.flag(node, &format!("`{key}`"))
    }

    pub(super) fn int(&mut self, key: &'static str) -> Option<i64> {
        let node = self.get(key)?;
        self.reader.int(node, &format!("`{key}`"))
    }

    pub(super) fn items(&mut self, key: &'static str) -> &'n [Node] {
        self.get(key).map(|node| self.reader.items(node, &format!("`{key}`"))).unwrap_or_default()
    }

    pub(super) fn texts(&mut self, key: &'static str) -> Vec<Text> {
        let reader = self.reader;
        let what = format!("an item of `{key}`");
        self.items(key).iter().filter_map(|item| reader.text(item, &what)).collect()
    }

    /// Reads a list of words; empty ones are left out.
    pub(super) fn words(&mut self, key: &'static str) -> Vec<String> {
        self.texts(key).into_iter().map(|word| word.value).filter(|word| !word.is_empty()).collect()
    }

    /// Reads a mapping from texts to texts, in the order of the file.
    pub(super) fn pairs(&mut self, key: &'static str) -> Vec<(String, Text)> {
        self.get(key).map(|node| self.reader.pairs(node, &format!("`{key}`"))).unwrap_or_default()
    }

    /// Reads a count from 0 to `most`.
    pub(super) fn count(&mut self, key: &'static str, most: u32) -> Option<u32> {
        let node = self.get(key)?;
        let number = self.reader.int(node, &format!("`{key}`"))?;
        let count = u32::try_from(number).ok().filter(|count| *count <= most);
        if count.is_none() {
            let message = format!("`{key}` takes a number from 0 to {most}, not {number}");
            self.reader.error("wrong-count", node.span.clone(), message);
        }
        count
    }

    /// Reports the keys that were not read.
    pub(super) fn finish(&self) {
        for entry in self.entries {
            if self.known.contains(&entry.key.as_str()) {
                continue;
            }
            let message = format!("`{}` is not a key of {}", entry.key, self.what);
            let mut diagnostic = Diagnostic::warning("unknown-key", entry.key_span.clone(), message);
            // A suggestion costs more than all the rest, and is not computed for a diagnostic that is dropped.
            if !self.reader.is_full()
                && let Some(key) = nearest(&entry.key, self.known.iter().copied())
            {
                diagnostic = diagnostic.helped(format!("did you mean `{key}`?"));
            }
            self.reader.report(diagnostic);
        }
    }
}
