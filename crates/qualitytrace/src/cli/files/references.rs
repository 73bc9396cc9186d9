//! File references in a definition: the content of a file is sent to the server in place of its name.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use qualitytrace_core::definition::trigger::FileUse;
use qualitytrace_core::definition::{
    self, Data, Document, Format, Profile, Reading, Resource, Step, Stored, Test, TestSuite, Text,
};
use qualitytrace_core::lang::{Diagnostic, Severity};

use super::{File, format_of, regular};

/// The text of a document with the files that it names inlined.
pub(crate) fn inlined(file: &File, document: &Document) -> anyhow::Result<String> {
    let mut changes = Vec::new();
    for named in named(&file.path, &document.resource) {
        let content = read(&named).map_err(|cause| anyhow!("{}: {cause}", file.path.display()))?;
        let change = (named.span, content);
        // Two aliases of one text are at the same position.
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    Ok(rewritten(file, document, changes))
}

/// The text of a suite with the ids of its tests in place of their files, and with the table that it names by file.
///
/// `ids` maps the paths that [`step_path`] returns.
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
    for step in suite.all_steps() {
        let Some(id) = step_path(&file.path, step).and_then(|path| ids.get(&path)) else { continue };
        change(&step.test, id);
        // Other steps refer to it by the name of its file, which is replaced.
        let names = suite.steps.iter().filter_map(|other| other.depends_on.as_ref()).flatten();
        for name in names.filter(|name| step.name.is_none() && name.value == step.title()) {
            change(name, id);
        }
    }
    if let Some((table, path)) = table(&file.path, suite) {
        let text = text_of(&path).map_err(|cause| anyhow!("{}: {cause}", file.path.display()))?;
        change(table, &text);
    }
    Ok(rewritten(file, document, changes))
}

/// The files that a document names, apart from steps of a suite.
pub(crate) fn paths(file: &File, document: &Document) -> Vec<PathBuf> {
    let table = match &document.resource {
        Resource::TestSuite(suite) => table(&file.path, suite).map(|(_, path)| path),
        _ => None,
    };
    named(&file.path, &document.resource).into_iter().map(|named| named.path).chain(table).collect()
}

/// The files that the steps of a file's suites name.
pub(crate) fn step_paths(file: &File) -> Vec<PathBuf> {
    steps(file).filter_map(|step| step_path(&file.path, step)).collect()
}

/// The file that a step names, relative to the suite's; `None` when the step names an id.
pub(crate) fn step_path(suite: &Path, step: &Step) -> Option<PathBuf> {
    step.is_path().then(|| beside(suite, &step.test.value))
}

/// The file with the polling profile that a test names.
pub(crate) fn profile_path(definition: &Path, test: &Test) -> Option<PathBuf> {
    let name = test.polling_profile.as_ref().and_then(Profile::path)?;
    Some(beside(definition, &name.value))
}

/// The table that a suite names by its file, as it is written and as a path.
fn table<'s>(definition: &Path, suite: &'s TestSuite) -> Option<(&'s Text, PathBuf)> {
    let name = suite.data.as_ref().and_then(Data::file)?;
    Some((name, beside(definition, &name.value)))
}

/// The steps of a file's suites.
fn steps(file: &File) -> impl Iterator<Item = &Step> {
    let suites = file.reading.documents.iter().filter_map(|document| match &document.resource {
        Resource::TestSuite(suite) => Some(suite),
        _ => None,
    });
    suites.flat_map(TestSuite::all_steps)
}

/// Resolves a path relative to the definition.
fn beside(definition: &Path, written: &str) -> PathBuf {
    definition.parent().unwrap_or(Path::new("")).join(written).components().collect()
}

fn text_of(path: &Path) -> Result<String, String> {
    regular::read_text(path).map_err(|error| format!("the file `{}` cannot be read: {error}", path.display()))
}

/// The code of diagnostics from [`missing`].
pub(crate) const NO_FILE: &str = "no-file";

/// Reports the files that the documents of a file name and that cannot be inlined.
pub(crate) fn missing(path: &Path, reading: &Reading) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for Document { resource, .. } in &reading.documents {
        if let Resource::TestSuite(suite) = resource {
            found.extend(wrong_table(path, suite));
        }
        let named = named(path, resource).into_iter();
        found.extend(named.filter_map(|named| Some(no_file(named.span.clone(), read(&named).err()?))));
    }
    found
}

/// Reports the files that steps of a suite name and that cannot be read. Known ones are not checked.
pub(crate) fn missing_steps(file: &File, is_known: impl Fn(&Path) -> bool) -> Vec<Diagnostic> {
    let unread = |step: &Step| {
        let path = step_path(&file.path, step).filter(|path| !is_known(path))?;
        Some(no_file(place(&step.test), text_of(&path).err()?))
    };
    steps(file).filter_map(unread).collect()
}

/// Diagnostics about the table that a suite names by its file.
fn wrong_table(path: &Path, suite: &TestSuite) -> Vec<Diagnostic> {
    let Some((data, file)) = suite.data.as_ref().and_then(|data| Some((data, data.file()?))) else {
        return Vec::new();
    };
    match text_of(&beside(path, &file.value)) {
        Ok(text) => data.check_csv(&text, &place(file)),
        Err(cause) => vec![no_file(place(file), cause)],
    }
}

fn place(text: &Text) -> Range<usize> {
    text.origin.as_ref().map_or(0..0, |origin| origin.span.clone())
}

fn no_file(place: Range<usize>, cause: String) -> Diagnostic {
    Diagnostic::error(NO_FILE, place, cause).helped("a path is relative to the file that names it")
}

/// A reference to a file.
struct Named {
    path: PathBuf,
    what: FilePurpose,
    /// The position of the reference.
    span: Range<usize>,
}

/// How a file is used.
enum FilePurpose {
    /// Its text or bytes.
    Content(FileUse),
    /// The polling profile that it defines.
    Profile,
}

fn named(definition: &Path, resource: &Resource) -> Vec<Named> {
    let mut found = Vec::new();
    let Resource::Test(Test { trigger, polling_profile, .. }) = resource else { return found };
    if let Some(name) = polling_profile.as_ref().and_then(Profile::path)
        && let Some(origin) = &name.origin
    {
        let path = beside(definition, &name.value);
        found.push(Named { path, what: FilePurpose::Profile, span: origin.span.clone() });
    }
    let Some(trigger) = trigger else { return found };
    let Ok(()) = trigger.clone().each_file(|file_use, text| {
        if let (Some(written), Some(origin)) = (file_use.path(text), &text.origin) {
            let path = beside(definition, written);
            if file_use.must_exist(written) || path.is_file() {
                found.push(Named { path, what: FilePurpose::Content(file_use), span: origin.span.clone() });
            }
        }
        Ok::<(), Infallible>(())
    });
    found
}

/// The text that replaces a file's name, valid in JSON and YAML; the error says why there is none.
fn read(named: &Named) -> Result<String, String> {
    let path = named.path.display().to_string();
    let bytes =
        regular::read(&named.path).map_err(|error| format!("the file `{path}` cannot be read: {error}"))?;
    match &named.what {
        FilePurpose::Content(file_use) => {
            let content = file_use.content(&path, bytes);
            content.map(|text| quoted(&text)).ok_or_else(|| format!("the file `{path}` is not text"))
        }
        FilePurpose::Profile => {
            let text = String::from_utf8(bytes).map_err(|_| format!("the file `{path}` is not text"))?;
            profile(&text, format_of(&named.path)).map_err(|cause| format!("the file `{path}` {cause}"))
        }
    }
}

/// The polling profile that a file defines, in the form of a test's field.
fn profile(text: &str, format: Format) -> Result<String, String> {
    let Reading { documents, diagnostics, .. } = definition::read(text, format);
    if let Some(wrong) = diagnostics.iter().find(|found| found.severity == Severity::Error) {
        let key = definition::location(text, format, &wrong.span).key;
        return Err(format!("is wrong at `{key}`: {}", wrong.message));
    }
    match documents.into_iter().map(|document| document.resource).next() {
        Some(Resource::PollingProfile(own)) => {
            let test = Test { polling_profile: Some(Profile::Own(Box::new(own))), ..Test::default() };
            let spec = definition::to_spec_json(&Resource::Test(test), &Stored::default());
            Ok(spec["pollingProfile"].to_string())
        }
        _ => Err("defines no polling profile; its first document is `type: PollingProfile`".to_owned()),
    }
}

/// The text of a document with some ranges replaced. A single document includes the text around it.
pub(crate) fn rewritten(
    file: &File,
    document: &Document,
    mut changes: Vec<(Range<usize>, String)>,
) -> String {
    changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let is_alone = file.reading.documents.len() == 1;
    let span = if is_alone {
        0..file.source.len()
    } else {
        definition::surroundings(&file.source, file.format, &document.span)
    };
    let mut text = file.source[span.clone()].to_owned();
    for (place, new) in changes {
        text.replace_range(place.start - span.start..place.end - span.start, &new);
    }
    text
}

/// A text in double quotes, valid in JSON and YAML.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
