//! Ids that a server generated, written into the definition files: the next command updates the same resource.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use qualitytrace_core::definition::{self, Format, Kind, Stored};
use qualitytrace_core::lang::Severity;
use serde_json::Value;

use super::{File, regular};
use crate::terminal;

/// Writes an id into a document of a file, and returns the new text of the file. `known` is its text when the document
/// was sent to the server: edits that were saved since stay.
///
/// Returns `None` when there is no place for the id: the file is a pipe, the document was replaced by another one, or it
/// has an id by now.
pub(crate) fn write_back(
    path: &Path,
    format: Format,
    known: &str,
    index: usize,
    id: &str,
) -> io::Result<Option<String>> {
    if !path.is_file() {
        return Ok(None);
    }
    let current = regular::read_text(path)?;
    let written = with_id(known, &current, format, index, id);
    if let Some(written) = &written {
        replace(path, written)?;
    }
    Ok(written)
}

/// The message about an id that has no place in its file.
pub(crate) fn without_place(path: &Path, id: &str) -> String {
    let path = path.display();
    format!(
        "{path}: the server stores it as `{id}`; write `id: {id}` under `spec`, or each run stores it again\n"
    )
}

/// Adds an id to a document of the current text, if it is still the document of the known text.
fn with_id(known: &str, current: &str, format: Format, index: usize, id: &str) -> Option<String> {
    let is_same = || {
        let before = heading(known, format, index);
        before.is_some() && before == heading(current, format, index)
    };
    let is_meant = current == known || is_same();
    let is_free = !definition::has_id(current, format, index);
    if is_meant && is_free { definition::with_id(current, format, index, id) } else { None }
}

/// The kind and name of a document; `None` if the text has errors.
fn heading(source: &str, format: Format, index: usize) -> Option<(Kind, Value)> {
    let reading = definition::read(source, format);
    if reading.diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return None;
    }
    let resource = &reading.documents.get(index)?.resource;
    let spec = definition::to_spec_json(resource, &Stored::default());
    Some((resource.kind(), spec["name"].clone()))
}

/// Replaces the text of a file by a rename: a concurrent reader sees the old text or the new one, also after a crash.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A link stays one.
    let path = path.canonicalize()?;
    // A read-only file is left as it is, although its folder may allow the rename.
    let known = OpenOptions::new().write(true).open(&path)?.metadata()?;
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let renamed = fs::write(&unfinished, text)
        .and_then(|()| chown(&unfinished, Some(known.uid()), Some(known.gid())))
        .and_then(|()| fs::set_permissions(&unfinished, known.permissions()))
        .and_then(|()| fs::rename(&unfinished, &path));
    // A file in a folder of others, or one that a container mounts by itself, can only be written in place.
    renamed.or_else(|_| {
        let _ = fs::remove_file(&unfinished);
        fs::write(&path, text)
    })
}

/// Writes ids into files while tests of them run at the same time.
#[derive(Debug, Default)]
pub(crate) struct IdWriter {
    /// The texts of files that have got an id.
    texts: Mutex<HashMap<PathBuf, String>>,
}

impl IdWriter {
    /// Writes the id into a document that has none, and says so. The run goes on if that fails.
    pub(crate) fn write(&self, file: &File, document: usize, id: &str) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = texts.entry(file.path.clone()).or_insert_with(|| file.original().to_owned());
        let path = file.path.display();
        match write_back(&file.path, file.format, text, document, id) {
            Ok(Some(written)) => {
                terminal::err(&format!(
                    "{path}: the server stores it as `{id}`, which is written into the file\n"
                ));
                *text = written;
            }
            Ok(None) => terminal::err(&without_place(&file.path, id)),
            Err(error) => terminal::err(&format!(
                "{path}: the server stores it as `{id}`, which cannot be written into the file: {error}; each run \
                 stores it again\n"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "type: Test\nspec:\n  name: A\n  trigger: {type: http, httpRequest: {url: 'http://a'}}\n---\n\
                       type: Test\nspec:\n  name: B\n  trigger: {type: http, httpRequest: {url: 'http://b'}}\n";

    fn check(current: &str, expected: Option<&str>) {
        assert_eq!(with_id(TWO, current, Format::Yaml, 1, "x").as_deref(), expected, "{current}");
    }

    #[test]
    fn an_id_comes_into_the_text_as_it_is_now() {
        let with_id = |text: &str| text.replace("  name: B", "  id: x\n  name: B");
        check(TWO, Some(&with_id(TWO)));
        let edited = TWO.replace("http://b", "http://c");
        check(&edited, Some(&with_id(&edited)));
        let half_done = TWO.replace("name: A", "id: a\n  name: A");
        check(&half_done, Some(&with_id(&half_done)));
    }

    #[test]
    fn a_document_that_is_another_one_by_now_gets_no_id() {
        check(&TWO.replace("name: B", "name: C"), None);
        check(&TWO.replace("name: B", "id: own\n  name: B"), None);
        check(TWO.split("---").next().unwrap(), None);
        check(&format!("type: Test\nspec: {{name: New}}\n---\n{TWO}"), None);
        check(&TWO.replace("spec:\n  name: A", "spec: ]\n  name: A"), None);
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_through_its_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("t.yaml"), folder.path().join("link.yaml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
