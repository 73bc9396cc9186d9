//! Definition files: search, reading and diagnostics.

pub(super) mod references;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use qualitytrace_config::Position;
use qualitytrace_core::definition::{self, Document, Format, Kind, Reading, Resource};
use qualitytrace_core::lang::{self, Diagnostic, Severity};

use crate::terminal;

/// The code of diagnostics from [`find_twins`].
const TWIN: &str = "duplicate-id";

/// A definition file that was read.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) source: String,
    pub(crate) format: Format,
    pub(crate) reading: Reading,
}

impl File {
    /// Reads one file. Mistakes in its text are diagnostics, not errors.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let source =
            std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self::parse(path, source))
    }

    /// Reads a text as the content of a file.
    pub(crate) fn parse(path: &Path, source: String) -> Self {
        let format = format_of(path);
        let mut reading = definition::read(&source, format);
        let checked = reading.documents.iter().flat_map(|document| definition::check(&document.resource));
        reading.diagnostics.extend(checked.collect::<Vec<_>>());
        reading.diagnostics.extend(references::missing(path, &reading));
        Self { path: path.to_owned(), source, format, reading }
    }

    /// Renders its diagnostics; empty when there are none.
    pub(crate) fn complaints(&self) -> String {
        let diagnostics: &[Diagnostic] = &self.reading.diagnostics;
        if diagnostics.is_empty() {
            return String::new();
        }
        let name = self.path.display().to_string();
        // Secrets are redacted: logs of CI systems have many readers.
        let source = definition::secrets::redacted(&self.source, self.format);
        let shown = lang::render(&name, &source, diagnostics, terminal::style::coloured());
        format!("{}\n\n", shown.trim_end())
    }

    /// The ids of the tests in it.
    pub(crate) fn test_ids(&self) -> impl Iterator<Item = &str> {
        let tests = self.reading.documents.iter().map(|document| &document.resource);
        tests.filter(|resource| matches!(resource, Resource::Test(_))).filter_map(Resource::id)
    }

    /// Formats a position as path, line and column.
    pub(crate) fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path.display(), Position::of(&self.source, at))
    }

    /// Whether it has no errors.
    pub(crate) fn is_usable(&self) -> bool {
        self.reading.diagnostics.iter().all(|found| found.severity != Severity::Error)
    }
}

/// Finds every definition file that the arguments name; folders are searched for `.yaml`, `.yml` and `.json`. Files in
/// a folder that are no definitions, like the body of a request, are left out with a message.
pub(crate) fn find(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            let mut candidates = Vec::new();
            search(path, &mut candidates)?;
            for candidate in candidates {
                if is_definition(&candidate)? {
                    found.push(candidate);
                } else {
                    let note = "has neither `type` nor `spec` and is left out";
                    terminal::err(&format!("{} {note}\n", candidate.display()));
                }
            }
            if found.len() == before {
                bail!("{} holds no definition in a .yaml, .yml or .json file", path.display());
            }
        } else if path.exists() {
            found.push(path.clone());
        } else {
            bail!("there is no file {}", path.display());
        }
    }
    // A file may be named directly and through its folder.
    let mut known = HashSet::new();
    found.retain(|path| known.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    Ok(found)
}

/// Reads every definition file that the arguments name.
pub(crate) fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<File>> {
    find(paths)?.iter().map(|path| File::read(path)).collect()
}

/// Reports ids that more than one definition of a kind has: each would overwrite the other.
pub(crate) fn find_twins(files: &mut [File]) {
    let mut known: HashMap<(Kind, String), (usize, Range<usize>)> = HashMap::new();
    let mut found = Vec::new();
    for (at, file) in files.iter().enumerate() {
        for Document { resource, span } in &file.reading.documents {
            let Some(id) = resource.id() else { continue };
            match known.entry((resource.kind(), id.to_owned())) {
                Entry::Vacant(free) => drop(free.insert((at, span.clone()))),
                Entry::Occupied(taken) => {
                    let (other, first) = taken.get();
                    let other = &files[*other];
                    let first = definition::id_place(&other.source, other.format, first).start;
                    let message = format!("the id `{id}` is already given at {}", other.place(first));
                    let place = definition::id_place(&file.source, file.format, span);
                    let twin =
                        Diagnostic::error(TWIN, place, message).helped("give one of the two another `id`");
                    found.push((at, twin));
                }
            }
        }
    }
    for (at, twin) in found {
        files[at].reading.diagnostics.push(twin);
    }
}

/// Fails if a file cannot be written there, as far as that can be checked beforehand.
pub(crate) fn require_writable(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("this is a folder; name a file in it");
    }
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    };
    if !folder.is_dir() {
        bail!("there is no folder {}; make it first", folder.display());
    }
    // A device or a pipe is written to as it is.
    let target = if path.exists() { path } else { folder };
    rustix::fs::access(target, rustix::fs::Access::WRITE_OK)
        .with_context(|| format!("{} cannot be written", target.display()))
}

fn is_definition(path: &Path) -> anyhow::Result<bool> {
    let source = std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(definition::is_meant(&String::from_utf8_lossy(&source), format_of(path)))
}

pub(super) fn format_of(path: &Path) -> Format {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if is_json { Format::Json } else { Format::Yaml }
}

fn search(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            search(&path, found)?;
        } else if path.is_file()
            && path
                .extension()
                .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
        {
            found.push(path);
        }
    }
    Ok(())
}
