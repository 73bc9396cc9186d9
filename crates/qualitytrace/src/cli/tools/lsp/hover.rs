//! What an attribute or a key under the cursor means, and which values recent traces have.

use qualitytrace_core::assist;
use qualitytrace_core::assist::definition::{Cursor, Step, Writing, place};
use qualitytrace_core::explain;
use qualitytrace_core::trace::Trace;
use tower_lsp_server::ls_types::{Hover, HoverContents, MarkupContent, MarkupKind};

use super::positions::Positions;
use super::recent;
use crate::cli::files::File;

/// Returns what is known of the place.
pub(super) fn hover(file: &File, text: &str, at: usize, trace: Option<&Trace>) -> Option<Hover> {
    let cursor = Cursor::of(text, at);
    let positions = Positions::of(text);
    let word = word(text, at);
    let name = text.get(word.clone()).unwrap_or_default();
    let mut parts = Vec::new();
    if cursor.form().is_some() && matches!(cursor.what, Writing::Value { .. }) {
        parts.extend(attribute(name, trace));
    } else {
        parts.extend(key(&cursor, name));
    }
    let wrong = file.placed().into_iter().find(|found| found.span.contains(&at));
    if let Some(known) = wrong.and_then(|found| explain::explain(found.code)) {
        parts.push(format!("`{}`: {}", known.code, known.text));
    }
    if parts.is_empty() {
        return None;
    }
    let contents = MarkupContent { kind: MarkupKind::Markdown, value: parts.join("\n\n") };
    Some(Hover { contents: HoverContents::Markup(contents), range: Some(positions.range(&word)) })
}

fn attribute(name: &str, trace: Option<&Trace>) -> Option<String> {
    let meaning = assist::meaning(name).map(ToOwned::to_owned);
    let values = trace.map(|trace| recent::values(trace, name)).unwrap_or_default();
    if meaning.is_none() && values.is_empty() {
        return None;
    }
    let mut parts = vec![format!("**{name}**")];
    parts.extend(meaning);
    if !values.is_empty() {
        let lines: Vec<String> = values
            .into_iter()
            .map(|(value, spans)| format!("- `{}` ({spans})", value.replace(['`', '\n', '\r'], " ")))
            .collect();
        parts.push(format!("In the latest traces:\n{}", lines.join("\n")));
    }
    Some(parts.join("\n\n"))
}

/// What the schema says of a key.
fn key(cursor: &Cursor, name: &str) -> Option<String> {
    let holder = match (&cursor.what, cursor.path.split_last()) {
        (Writing::Value { .. }, Some((Step::Key(_), path))) => {
            Cursor { path: path.to_vec(), ..cursor.clone() }
        }
        _ => cursor.clone(),
    };
    let keys = place(&holder).keys();
    let known = keys.iter().find(|key| key.name == name)?;
    Some(format!("**{name}**\n\n{}", known.description?))
}

/// The word around a byte: letters, digits, dots, dashes and underscores.
fn word(text: &str, at: usize) -> std::ops::Range<usize> {
    let at = text.floor_char_boundary(at.min(text.len()));
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    let start = text[..at]
        .rfind(|c| !is_word(c))
        .map_or(0, |before| before + text[before..].chars().next().map_or(0, char::len_utf8));
    let end = text[at..].find(|c| !is_word(c)).map_or(text.len(), |end| at + end);
    start..end
}
