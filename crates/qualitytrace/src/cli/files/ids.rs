//! Ids that a server generated, written into the definition files: the next command updates the same resource.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use qualitytrace_core::definition::{self, Format};

use super::File;
use crate::terminal;

/// Adds an id to a document of the text, unless it has one.
pub(crate) fn with_id(source: &str, format: Format, index: usize, id: &str) -> String {
    if definition::has_id(source, format, index) {
        return source.to_owned();
    }
    definition::with_id(source, format, index, id).unwrap_or_else(|| source.to_owned())
}

/// Writes a text that has got an id into its file.
pub(crate) fn write_back(path: &Path, source: &str, written: &str) -> anyhow::Result<()> {
    if written == source {
        return Ok(());
    }
    std::fs::write(path, written)
        .with_context(|| format!("{} is applied, but its new id cannot be written into it", path.display()))
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
        let written = with_id(text, file.format, document, id);
        let path = file.path.display();
        if written == *text {
            terminal::err(&format!(
                "{path}: the server stores it as `{id}`; write `id: {id}` under `spec`, or each run stores it again\n"
            ));
            return;
        }
        match std::fs::write(&file.path, &written) {
            Ok(()) => {
                terminal::err(&format!(
                    "{path}: the server stores it as `{id}`, which is written into the file\n"
                ));
                *text = written;
            }
            Err(error) => terminal::err(&format!(
                "{path}: the server stores it as `{id}`, which cannot be written into the file: {error}; each run \
                 stores it again\n"
            )),
        }
    }
}
