//! Texts of a definition that name a file instead: its content goes to the server in their place.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use qualitytrace_core::definition::trigger::FileUse;
use qualitytrace_core::definition::{Data, Document, Resource, Step, TestSuite, Text};

use super::files::File;

/// A document of a file, with the files that it names put into it.
pub(crate) fn inlined(file: &File, document: &Document) -> anyhow::Result<String> {
    let mut changes = Vec::new();
    if let Resource::Test(test) = &document.resource
        && let Some(mut trigger) = test.trigger.clone()
    {
        trigger.each_file(|file_use, text| {
            if let (Some(origin), Some(content)) = (&text.origin, content(&file.path, file_use, text)?) {
                changes.push((origin.span.clone(), quoted(&content)));
            }
            Ok::<_, anyhow::Error>(())
        })?;
    }
    Ok(rewritten(file, document, changes))
}

/// A suite with the ids of its tests in place of their files, and with the table that it names by file.
///
/// `ids` has them by the path that [`step_path`] gives.
pub(crate) fn suite(
    file: &File,
    document: &Document,
    suite: &TestSuite,
    ids: &HashMap<PathBuf, String>,
) -> anyhow::Result<String> {
    let mut changes = Vec::new();
    let mut change = |text: &Text, new: &str| {
        if let Some(origin) = &text.origin {
            changes.push((origin.span.clone(), quoted(new)));
        }
    };
    for step in suite.setup.iter().chain(&suite.steps).chain(&suite.teardown) {
        let Some(id) = step_path(&file.path, step).and_then(|path| ids.get(&path)) else { continue };
        change(&step.test, id);
        // Other steps know it by the name of its file, which is gone now.
        let names = suite.steps.iter().filter_map(|other| other.depends_on.as_ref()).flatten();
        for name in names.filter(|name| step.name.is_none() && name.value == step.title()) {
            change(name, id);
        }
    }
    if let Some(table) = suite.data.as_ref().and_then(Data::file) {
        let path = file.path.parent().unwrap_or(Path::new("")).join(&table.value);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("{} names the table {}, which cannot be read", file.path.display(), path.display())
        })?;
        change(table, &text);
    }
    Ok(rewritten(file, document, changes))
}

/// The file that a step names, relative to the suite's; `None` when the step is an id.
pub(crate) fn step_path(suite: &Path, step: &Step) -> Option<PathBuf> {
    step.is_path().then(|| suite.parent().unwrap_or(Path::new("")).join(&step.test.value))
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

/// What the file that `text` names holds; `None` when it names none.
fn content(definition: &Path, file_use: FileUse, text: &Text) -> anyhow::Result<Option<String>> {
    let Some(named) = file_use.path(text) else { return Ok(None) };
    let path = definition.parent().unwrap_or(Path::new("")).join(named);
    if !file_use.must_exist(named) && !path.is_file() {
        return Ok(None);
    }
    let bytes = std::fs::read(&path).with_context(|| {
        format!("{} names the file {}, which cannot be read", definition.display(), path.display())
    })?;
    let content = file_use.content(bytes);
    content.map(Some).with_context(|| format!("{} is not text", path.display()))
}
