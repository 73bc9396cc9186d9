//! What can be written at a place: keys of the schema, and words of the language with what recent traces hold.

use std::ops::Range;

use qualitytrace_core::assist::{self, CompletionKind, Context};
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Place, file_schema};
use qualitytrace_core::trace::Trace;
use serde_json::Value;
use tower_lsp_server::ls_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, TextEdit,
};

use super::cursor::{Cursor, Step, Writing};
use super::positions::Positions;

/// Returns what can be written at a byte of a file.
pub(super) fn items(
    text: &str,
    at: usize,
    trace: Option<&Trace>,
    variables: &[String],
) -> Vec<CompletionItem> {
    let cursor = Cursor::of(text, at);
    let positions = Positions::of(text);
    let schema = file_schema(None);
    match &cursor.what {
        Writing::Key(word) => place(&schema, &cursor)
            .keys()
            .into_iter()
            .enumerate()
            .map(|(rank, key)| {
                let new = if key.is_nested { format!("{}:", key.name) } else { format!("{}: ", key.name) };
                let replaced = word.start..key_end(text, word.end);
                CompletionItem {
                    documentation: key.description.map(|text| Documentation::String(text.to_owned())),
                    ..item(&positions, rank, key.name, CompletionItemKind::PROPERTY, &replaced, new)
                }
            })
            .collect(),
        Writing::Value { bytes, quote } => match cursor.form() {
            Some(form) if at >= bytes.start => {
                let context = Context { trace, variables, budget: &Budget::default() };
                let written = text.get(bytes.clone()).unwrap_or_default();
                assist::complete(written, at - bytes.start, form, &context)
                    .into_iter()
                    .enumerate()
                    .map(|(rank, found)| {
                        let new = escaped(&found.insert, *quote);
                        let replaced = bytes.start + found.replaces.start..bytes.start + found.replaces.end;
                        CompletionItem {
                            detail: Some(found.detail).filter(|detail| !detail.is_empty()),
                            documentation: meaning(found.kind, &found.insert),
                            ..item(&positions, rank, &found.label, kind(found.kind), &replaced, new)
                        }
                    })
                    .collect()
            }
            _ => place(&schema, &cursor)
                .values()
                .into_iter()
                .enumerate()
                .map(|(rank, value)| {
                    item(&positions, rank, value, CompletionItemKind::ENUM_MEMBER, bytes, value.to_owned())
                })
                .collect(),
        },
    }
}

/// The place of the schema that the path leads to.
pub(super) fn place<'s>(schema: &'s Value, cursor: &Cursor) -> Place<'s> {
    let mut place = Place::top(schema);
    for (depth, step) in cursor.path.iter().enumerate() {
        place = match (step, cursor.kind) {
            (Step::Key(key), Some(kind)) if depth == 0 && key == "spec" => Place::spec(schema, kind),
            (Step::Key(key), _) => place.key(key),
            (Step::Item, _) => place.item(),
        };
    }
    place
}

/// The end of a key that is being replaced, its colon included.
fn key_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let word = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    match rest[word..].strip_prefix(':') {
        Some(after) if after.starts_with(' ') => at + word + 2,
        Some(_) => at + word + 1,
        None => at + word,
    }
}

fn item(
    positions: &Positions<'_>,
    rank: usize,
    label: &str,
    kind: CompletionItemKind,
    replaced: &Range<usize>,
    new: String,
) -> CompletionItem {
    let edit = TextEdit { range: positions.range(replaced), new_text: new.clone() };
    CompletionItem {
        label: label.to_owned(),
        kind: Some(kind),
        // Editors sort by name otherwise.
        sort_text: Some(format!("{rank:04}")),
        filter_text: Some(new),
        text_edit: Some(CompletionTextEdit::Edit(edit)),
        ..CompletionItem::default()
    }
}

/// A text inside the quotes of a YAML scalar.
pub(super) fn escaped(text: &str, quote: Option<char>) -> String {
    match quote {
        Some('\'') => text.replace('\'', "''"),
        Some(_) => text.replace('\\', "\\\\").replace('"', "\\\""),
        None => text.to_owned(),
    }
}

fn kind(kind: CompletionKind) -> CompletionItemKind {
    match kind {
        CompletionKind::Keyword | CompletionKind::Combinator | CompletionKind::PseudoClass => {
            CompletionItemKind::KEYWORD
        }
        CompletionKind::Attribute => CompletionItemKind::FIELD,
        CompletionKind::Value => CompletionItemKind::VALUE,
        CompletionKind::Function | CompletionKind::Filter => CompletionItemKind::FUNCTION,
        CompletionKind::Comparator => CompletionItemKind::OPERATOR,
        CompletionKind::Variable => CompletionItemKind::VARIABLE,
    }
}

fn meaning(kind: CompletionKind, insert: &str) -> Option<Documentation> {
    if kind != CompletionKind::Attribute {
        return None;
    }
    let name = insert.strip_prefix("attr:").unwrap_or(insert).trim_matches(['"', '\'']);
    assist::meaning(name).map(|text| Documentation::String(text.to_owned()))
}
