//! What can be written at a place, in the words of the protocol.

use qualitytrace_core::assist::{self, Completion, CompletionKind, Context, definition};
use qualitytrace_core::budget::Budget;
use qualitytrace_core::trace::Trace;
use tower_lsp_server::ls_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, TextEdit,
};

use super::positions::Positions;

/// Returns what can be written at a byte of a file.
pub(super) fn items(
    text: &str,
    at: usize,
    trace: Option<&Trace>,
    variables: &[String],
) -> Vec<CompletionItem> {
    let positions = Positions::of(text);
    let context = Context { trace, variables, budget: &Budget::default() };
    let found = definition::complete(text, at, &context);
    found.into_iter().enumerate().map(|(rank, found)| item(&positions, rank, found)).collect()
}

fn item(positions: &Positions<'_>, rank: usize, found: Completion) -> CompletionItem {
    let edit = TextEdit { range: positions.range(&found.replaces), new_text: found.insert.clone() };
    let documentation = meaning(&found).map(Documentation::String);
    let detail = Some(found.detail).filter(|detail| !detail.is_empty() && found.kind != CompletionKind::Key);
    CompletionItem {
        label: found.label,
        kind: Some(kind(found.kind)),
        detail,
        documentation,
        // Editors sort by name otherwise.
        sort_text: Some(format!("{rank:04}")),
        filter_text: Some(found.insert),
        text_edit: Some(CompletionTextEdit::Edit(edit)),
        ..CompletionItem::default()
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
        CompletionKind::Key => CompletionItemKind::PROPERTY,
        CompletionKind::Choice => CompletionItemKind::ENUM_MEMBER,
    }
}

/// What a key or an attribute means.
fn meaning(found: &Completion) -> Option<String> {
    match found.kind {
        CompletionKind::Key => Some(found.detail.clone()).filter(|text| !text.is_empty()),
        CompletionKind::Attribute => {
            let name = found.insert.strip_prefix("attr:").unwrap_or(&found.insert).trim_matches(['"', '\'']);
            assist::meaning(name).map(ToOwned::to_owned)
        }
        CompletionKind::Keyword
        | CompletionKind::Value
        | CompletionKind::Function
        | CompletionKind::Filter
        | CompletionKind::Comparator
        | CompletionKind::Variable
        | CompletionKind::PseudoClass
        | CompletionKind::Combinator
        | CompletionKind::Choice => None,
    }
}
