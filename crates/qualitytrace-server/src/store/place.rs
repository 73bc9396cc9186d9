//! Whether the file of a database is still where it was opened: SQLite goes on writing into one that is gone.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;

/// A file, and which one it was.
#[derive(Debug, Clone)]
pub(super) struct Place {
    path: Arc<Path>,
    identity: (u64, u64),
}

impl Place {
    /// The file of this URL as it is now; `None` when it cannot be looked at.
    pub(super) fn of(url: &str) -> Option<Self> {
        let path: PathBuf = SqliteConnectOptions::from_str(url).ok()?.get_filename().to_owned();
        Some(Self { identity: identity(&path)?, path: path.into() })
    }

    /// Whether it is still there.
    pub(super) fn is_there(&self) -> bool {
        identity(&self.path) == Some(self.identity)
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}
