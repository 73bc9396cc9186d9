//! What did not pass in the last run of a folder, kept in the user's cache.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use crate::report::{Outcome, TestReport};

/// The names of the tests and suites that did not pass in the last run; `None` when all passed, or none is known.
pub(crate) fn failed() -> Option<HashSet<String>> {
    let text = crate::cli::files::regular::read_text(&file()?).ok()?;
    let names: HashSet<String> = serde_json::from_str(&text).ok()?;
    Some(names).filter(|names| !names.is_empty())
}

/// Keeps what did not pass. A cache that cannot be written does no harm.
pub(crate) fn keep(reports: &[TestReport]) {
    let Some(file) = file() else { return };
    let failed = reports.iter().filter(|report| report.outcome != Outcome::Passed);
    let names: HashSet<&str> = failed.map(|report| report.suite.as_deref().unwrap_or(&report.name)).collect();
    if let Some(folder) = file.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let _ = std::fs::write(&file, serde_json::json!(names).to_string());
}

/// The file about the current folder.
fn file() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    let mut hash = DefaultHasher::new();
    std::env::current_dir().ok()?.hash(&mut hash);
    Some(cache.join("qualitytrace/last-run").join(format!("{:016x}.json", hash.finish())))
}
