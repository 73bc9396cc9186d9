//! The file of `--learned`: what runs taught, from one `qualitytrace run` to the next.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use qualitytrace_core::wait::Learned;

use crate::cli::files::regular;

/// Reads the file; a missing one is empty.
pub(crate) fn read(path: &Path) -> anyhow::Result<Learned> {
    let text = match regular::read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Learned::default()),
        Err(error) => return Err(error).with_context(|| failed("read", path)),
    };
    Learned::from_json(&text).with_context(|| format!("{}; delete it to start again", failed("read", path)))
}

/// Merges what was learned of these tests into the file. Entries that other processes wrote meanwhile stay.
pub(crate) fn write(path: &Path, mut learned: Learned, tests: &BTreeSet<String>) -> anyhow::Result<()> {
    let mut all = read(path)?;
    let before = all.to_json();
    // A test without an id gets a new one in every run, so its history could never be used.
    learned.tests.retain(|id, _| tests.contains(id));
    all.tests.extend(learned.tests);
    learned.services.take_over(all.services);
    all.services = learned.services;
    let after = all.to_json();
    if before == after {
        return Ok(());
    }
    // A rename, so that a concurrent reader sees the old file or the new one.
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&unfinished, after)
        .and_then(|()| std::fs::rename(&unfinished, path))
        .with_context(|| failed("write", path))
}

fn failed(what: &str, path: &Path) -> String {
    format!("failed to {what} the learned data in {}", path.display())
}

#[cfg(test)]
mod tests {
    use qualitytrace_core::wait::History;

    use super::*;

    fn learned(tests: &[&str]) -> Learned {
        let tests = tests.iter().map(|id| ((*id).to_owned(), History::default())).collect();
        Learned { tests, ..Learned::default() }
    }

    #[test]
    fn what_others_wrote_stays_and_made_up_ids_do_not_come_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.json");
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        write(&path, learned(&["a", "made up"]), &ids(&["a"])).unwrap();
        write(&path, learned(&["b"]), &ids(&["b"])).unwrap();
        assert_eq!(read(&path).unwrap().tests.into_keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_damaged_file_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.json");
        std::fs::write(&path, "{").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.ends_with("learned.json; delete it to start again"), "{error}");
    }
}
