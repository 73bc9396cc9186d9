//! Texts of a definition that name a file instead: its content goes to the server in their place.

use std::path::Path;

use anyhow::Context;
use qualitytrace_core::definition::{Document, Resource, Text, Trigger, trigger};

use super::files::File;

/// Longest text that can be the name of a file.
const LONGEST_NAME: usize = 1024;

/// A document of a file, with the files that it names put into it.
pub(crate) fn inlined(file: &File, document: &Document) -> anyhow::Result<String> {
    let mut changes = Vec::new();
    for text in candidates(&document.resource) {
        let Some(origin) = &text.origin else { continue };
        if let Some(content) = content(&file.path, &text.value)? {
            changes.push((origin.span.clone(), quoted(&content)));
        }
    }
    Ok(rewritten(file, document, changes))
}

/// The text of a document with some of its places written anew. What stands around the only one belongs to it.
pub(crate) fn rewritten(
    file: &File,
    document: &Document,
    mut changes: Vec<(std::ops::Range<usize>, String)>,
) -> String {
    changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let is_alone = file.reading.documents.len() == 1;
    let span = if is_alone { 0..file.source.len() } else { document.span.clone() };
    let mut text = file.source[span.clone()].to_owned();
    for (place, new) in changes {
        text.replace_range(place.start - span.start..place.end - span.start, &new);
    }
    text
}

/// A text in double quotes, which JSON and YAML read alike.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn candidates(resource: &Resource) -> Vec<&Text> {
    let Resource::Test(test) = resource else { return Vec::new() };
    match &test.trigger {
        Some(Trigger::Grpc(grpc)) => vec![&grpc.protobuf_file],
        Some(Trigger::Http(http)) => match &http.body {
            trigger::Body::Text(text) => vec![text],
            _ => Vec::new(),
        },
        Some(Trigger::Graphql(graphql)) => vec![&graphql.query, &graphql.schema],
        Some(Trigger::PlaywrightEngine(script)) => vec![&script.script],
        _ => Vec::new(),
    }
}

/// What the file that `text` names holds. A text that begins like a relative path must name one.
fn content(definition: &Path, text: &str) -> anyhow::Result<Option<String>> {
    let must = text.starts_with("./") || text.starts_with("../");
    if text.is_empty() || text.contains('\n') || text.starts_with("//") || text.len() > LONGEST_NAME {
        return Ok(None);
    }
    let path = definition.parent().unwrap_or(Path::new("")).join(text);
    if !must && !path.is_file() {
        return Ok(None);
    }
    let read = std::fs::read_to_string(&path);
    read.map(Some).with_context(|| {
        format!("{} names the file {}, which cannot be read", definition.display(), path.display())
    })
}
