//! Definition files by a pattern, as shells expand it: `*` within a name, `**` across folders.

use std::path::{Path, PathBuf};

use anyhow::Context;
use glob::{MatchOptions, Pattern};

use super::has_known_extension;

/// How deep a pattern with `**` is searched.
const DEEPEST: usize = 64;
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Whether a text is a pattern.
pub(super) fn is_one(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Finds the files that match a pattern, and those in folders that match it, in order. Links to folders are not
/// followed, and hidden names are only found by a pattern that has one.
pub(super) fn search(pattern: &str, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let wanted = Pattern::new(pattern)
        .with_context(|| format!("`{pattern}` is no pattern; write one like 'tests/**/*.yaml'"))?;
    // The folder before the first part that is a pattern.
    let first = pattern.find(is_special).unwrap_or(pattern.len());
    let base = pattern[..first].rfind('/').map_or("", |slash| &pattern[..=slash]);
    let rest = &pattern[base.len()..];
    let depth = if rest.contains("**") { DEEPEST } else { rest.matches('/').count() };
    let finds_hidden = rest.starts_with('.') || rest.contains("/.");
    walk(base, depth, &Search { wanted, finds_hidden }, found)
}

fn is_special(letter: char) -> bool {
    is_one(letter.encode_utf8(&mut [0; 4]))
}

struct Search {
    wanted: Pattern,
    finds_hidden: bool,
}

/// Searches a folder, whose name ends in a slash or is empty.
fn walk(folder: &str, depth: usize, search: &Search, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let shown = if folder.is_empty() { "." } else { folder };
    if !Path::new(shown).is_dir() {
        return Ok(());
    }
    let entries = std::fs::read_dir(shown).with_context(|| format!("failed to list {shown}"))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("failed to list {shown}"))?;
        // A pattern is UTF-8, so it matches no other name.
        if let Ok(name) = entry.file_name().into_string() {
            names.push((name, entry.file_type().is_ok_and(|kind| kind.is_dir())));
        }
    }
    names.sort();
    for (name, is_folder) in names {
        if name.starts_with('.') && !search.finds_hidden {
            continue;
        }
        let path = format!("{folder}{name}");
        let is_match = search.wanted.matches_with(&path, OPTIONS);
        if is_folder && is_match {
            super::search(Path::new(&path), found)?;
        } else if is_folder && depth > 0 {
            walk(&format!("{path}/"), depth - 1, search, found)?;
        } else if !is_folder
            && is_match
            && has_known_extension(Path::new(&path))
            && Path::new(&path).is_file()
        {
            found.push(path.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_finds_what_a_shell_would() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap().to_owned();
        for file in ["a.yaml", "b.json", "c.txt", ".hidden.yaml", "x/d.yml", "x/y/e.yaml", ".git/f.yaml"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
        let check = |pattern: &str, expected: &[&str]| {
            let mut found = Vec::new();
            search(&format!("{root}/{pattern}"), &mut found).unwrap();
            let found: Vec<&str> =
                found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
            assert_eq!(found, expected, "{pattern}");
        };
        check("*", &["a.yaml", "b.json", "x/d.yml", "x/y/e.yaml"]);
        check("*.yaml", &["a.yaml"]);
        check("**/*.yaml", &["a.yaml", "x/y/e.yaml"]);
        check("x/**/*.y*ml", &["x/d.yml", "x/y/e.yaml"]);
        check("?.[jy]*", &["a.yaml", "b.json"]);
        check(".h*.yaml", &[".hidden.yaml"]);
        check("nowhere/*.yaml", &[]);
        assert!(search("a**b", &mut Vec::new()).is_err());
    }
}
