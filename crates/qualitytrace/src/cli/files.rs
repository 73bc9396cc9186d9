//! Definition files: search, reading and diagnostics.

pub(super) mod environment;
pub(super) mod ids;
mod patterns;
pub(super) mod references;
pub(super) mod regular;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use qualitytrace_config::Position;
use qualitytrace_core::definition::{self, Document, Format, Kind, Reading, Resource};
use qualitytrace_core::lang::{self, Diagnostic, Severity};

use self::environment::Expansion;
use crate::terminal;

/// The error for definition files that are missing or hold nothing that can be used; it has an exit code of its own.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DefinitionFilesError(pub(crate) String);

/// The name of a project file, without its extension.
const PROJECT: &str = "qualitytrace";
/// The path that stands for standard input, and the name of its text in messages.
const STDIN: &str = "-";
pub(crate) const STDIN_NAME: &str = "standard input";
/// The code of diagnostics from [`find_twins`].
const TWIN: &str = "duplicate-id";

/// A definition file that was read.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// Its text, with variables of the environment in place.
    pub(crate) source: String,
    pub(crate) format: Format,
    pub(crate) reading: Reading,
    /// What was replaced in the text; `None` when it was read as it is.
    expansion: Option<Expansion>,
}

impl File {
    /// Reads one file. Mistakes in its text are diagnostics, not errors.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let source =
            regular::read_text(path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self::parse(path, source))
    }

    /// Reads one file and replaces `${NAME}` in it by `value`.
    pub(crate) fn read_expanded(path: &Path, value: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let source =
            regular::read_text(path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self::expanded(path, source, value))
    }

    /// Reads a text as the content of a file and replaces `${NAME}` in it by `value`.
    pub(crate) fn expanded(path: &Path, source: String, value: impl Fn(&str) -> Option<String>) -> Self {
        let (text, expansion) = environment::expanded(source, value);
        let mut file = Self::parse(path, text);
        for found in &mut file.reading.diagnostics {
            if let Some(name) = expansion.unset_at(&found.span) {
                found.help = Some(format!(
                    "set the environment variable {name}, or write `${{var:{name}}}` for a variable of the run"
                ));
            }
        }
        file.expansion = Some(expansion);
        file
    }

    /// Turns errors about variables of the environment that are not set into warnings.
    pub(crate) fn excuse_unset_variables(&mut self) {
        let Some(expansion) = &self.expansion else { return };
        for found in &mut self.reading.diagnostics {
            if expansion.unset_at(&found.span).is_some() {
                found.severity = Severity::Warning;
            }
        }
    }

    /// Its text as it is on the disk.
    pub(crate) fn original(&self) -> &str {
        self.expansion.as_ref().map_or(&self.source, Expansion::original)
    }

    /// Reads a text as the content of a file.
    pub(crate) fn parse(path: &Path, source: String) -> Self {
        let format = format_of(path);
        let mut reading = definition::read(&source, format);
        let checked = reading.documents.iter().flat_map(|document| definition::check(&document.resource));
        reading.diagnostics.extend(checked.collect::<Vec<_>>());
        reading.diagnostics.extend(references::missing(path, &reading));
        Self { path: path.to_owned(), source, format, reading, expansion: None }
    }

    /// Renders its diagnostics; empty when there are none.
    pub(crate) fn complaints(&self) -> String {
        let diagnostics: &[Diagnostic] = &self.reading.diagnostics;
        if diagnostics.is_empty() {
            return String::new();
        }
        let name = self.path.display().to_string();
        // Secrets are redacted: logs of CI systems have many readers. Values of the environment are not shown at all.
        let source = definition::secrets::redacted(self.original(), self.format);
        let shown = lang::render(&name, &source, &self.placed(), terminal::style::coloured());
        format!("{}\n\n", terminal::filter::adopted(shown.trim_end()))
    }

    /// Its diagnostics, at their places in the text as it is on the disk.
    pub(crate) fn placed(&self) -> Vec<Diagnostic> {
        let diagnostics = self.reading.diagnostics.iter();
        diagnostics
            .map(|found| Diagnostic { span: self.original_range(&found.span), ..found.clone() })
            .collect()
    }

    /// The ids of the tests in it.
    pub(crate) fn test_ids(&self) -> impl Iterator<Item = &str> {
        let tests = self.reading.documents.iter().map(|document| &document.resource);
        tests.filter(|resource| matches!(resource, Resource::Test(_))).filter_map(Resource::id)
    }

    /// Formats a position as path, line and column.
    pub(crate) fn place(&self, at: usize) -> String {
        let at = self.original_range(&(at..at)).start;
        format!("{}:{}", self.path.display(), Position::of(self.original(), at))
    }

    /// The line of a position, counted from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        let at = self.original_range(&(at..at)).start;
        1 + self.original().as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
    }

    /// The range of the text as it is on the disk that became this one.
    pub(crate) fn original_range(&self, range: &Range<usize>) -> Range<usize> {
        self.expansion.as_ref().map_or_else(|| range.clone(), |expansion| expansion.original_range(range))
    }

    /// Whether it has no errors.
    pub(crate) fn is_usable(&self) -> bool {
        self.reading.diagnostics.iter().all(|found| found.severity != Severity::Error)
    }
}

/// Finds every definition file that the arguments name: files, folders that are searched for `.yaml`, `.yml` and
/// `.json`, and patterns. What is found in a folder or by a pattern and is no definition, like the body of a request, is
/// left out with a message.
pub(crate) fn find(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_file() {
            found.push(path.clone());
            continue;
        }
        let mut candidates = Vec::new();
        let empty = if path.is_dir() {
            search(path, &mut candidates)?;
            format!("{} holds no definition in a .yaml, .yml or .json file", path.display())
        } else if let Some(pattern) = path.to_str().filter(|text| patterns::is_one(text)) {
            patterns::search(pattern, &mut candidates)?;
            format!("no definition in a .yaml, .yml or .json file matches {pattern}")
        } else if path.exists() {
            // A pipe that a shell made is read; others are refused there.
            found.push(path.clone());
            continue;
        } else {
            format!("there is no file {}", path.display())
        };
        let before = found.len();
        for candidate in candidates {
            if is_definition(&candidate)? {
                found.push(candidate);
            } else if candidate.file_stem().is_none_or(|stem| stem != PROJECT) {
                let note = match format_of(&candidate) {
                    Format::Yaml => "has neither `type` nor `spec` and is left out",
                    Format::Json => "has no `type` and `spec` and is left out",
                };
                terminal::err(&format!("{} {note}\n", candidate.display()));
            }
        }
        if found.len() == before {
            return Err(DefinitionFilesError(empty).into());
        }
    }
    // A file may be named directly and through its folder.
    let mut known = HashSet::new();
    found.retain(|path| known.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    Ok(found)
}

/// Finds every definition file that the arguments name, without messages; a path that cannot be read is left out.
pub(crate) fn find_quietly(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        let mut candidates = Vec::new();
        if path.is_dir() {
            let _ = search(path, &mut candidates);
            candidates.retain(|candidate| is_definition(candidate).unwrap_or(false));
        } else if let Some(pattern) = path.to_str().filter(|text| !path.exists() && patterns::is_one(text)) {
            let _ = patterns::search(pattern, &mut candidates);
            candidates.retain(|candidate| is_definition(candidate).unwrap_or(false));
        } else {
            candidates.push(path.clone());
        }
        found.append(&mut candidates);
    }
    found
}

/// Reads every definition file that the arguments name, with the variables of `value` in place.
pub(crate) fn read_all(
    paths: &[PathBuf],
    value: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<File>> {
    find(paths)?.iter().map(|path| File::read_expanded(path, &value)).collect()
}

/// Whether a path stands for standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new(STDIN)
}

/// Reads the text of standard input.
pub(crate) fn read_stdin() -> anyhow::Result<String> {
    std::io::read_to_string(std::io::stdin()).context("failed to read standard input")
}

/// A variable of the environment of this process.
pub(crate) fn of_process(name: &str) -> Option<String> {
    std::env::var(name).ok()
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

/// A path without `.` and without folders that it leaves again, as programs expect that map it to a repository.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
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
    let source = regular::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(definition::is_meant(&String::from_utf8_lossy(&source), format_of(path)))
}

pub(crate) fn format_of(path: &Path) -> Format {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if is_json { Format::Json } else { Format::Yaml }
}

/// Finds the files below a folder that may be definitions, in order.
fn search(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    search_new(folder, &mut HashSet::new(), found)
}

/// Searches a folder that is not `known` yet: links may lead back to one.
fn search_new(folder: &Path, known: &mut HashSet<PathBuf>, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !known.insert(folder.canonicalize().unwrap_or_else(|_| folder.to_owned())) {
        return Ok(());
    }
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            search_new(&path, known, found)?;
        } else if path.is_file() && has_known_extension(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn has_known_extension(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}
