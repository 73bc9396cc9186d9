//! The text files of the project, as input of the rules.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use crate::workspace;

/// Folders that tools make or that hold no text of ours.
const SKIPPED: [&str; 8] =
    [".git", ".peers", ".venv", "target", "corpus", "artifacts", "node_modules", "dist"];

/// One file: its path relative to the workspace, with `/` between the parts.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    pub(super) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    /// Whether people write it in a programming language: Rust, or the page's TypeScript.
    pub(super) fn is_code(&self) -> bool {
        let is_script = [".ts", ".tsx"].iter().any(|ending| self.path.ends_with(ending));
        self.is_rust() || (is_script && !self.path.contains(".gen."))
    }

    /// The lines with their numbers, without comment lines.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// Every text file of the project, sorted by path.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) files: Vec<Source>,
}

impl Tree {
    pub(super) fn read() -> Result<Self> {
        let root = workspace::root();
        let mut files = Vec::new();
        read_folder(&root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    pub(super) fn get(&self, path: &str) -> Option<&Source> {
        self.files.iter().find(|file| file.path == path)
    }
}

fn read_folder(dir: &Path, path: &str, files: &mut Vec<Source>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        let kind = entry.file_type()?;
        // A module may have the name of such a folder.
        let is_skipped = SKIPPED.contains(&name.as_str()) && !path.contains("/src/");
        if kind.is_dir() && !is_skipped {
            read_folder(&entry.path(), &path, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).with_context(|| format!("failed to read {path}"))?;
            // A file that is not UTF-8 is an image or recorded bytes: no rule applies to those.
            files.extend(String::from_utf8(bytes).ok().map(|text| Source { path, text }));
        }
    }
    Ok(())
}

#[cfg(test)]
impl Tree {
    /// A tree of these paths and texts.
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let source =
            |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
        Self { files: files.iter().map(source).collect() }
    }
}
