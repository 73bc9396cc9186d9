//! The identity of a database file: detects that it was moved or deleted, since SQLite goes on writing into a
//! deleted file.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;

/// A path, and the device and inode of the file that it named when it was opened.
#[derive(Debug, Clone)]
pub(super) struct FileIdentity {
    path: Arc<Path>,
    identity: (u64, u64),
}

impl FileIdentity {
    /// The identity of the file of this URL now; `None` when its metadata cannot be read.
    pub(super) fn of(url: &str) -> Option<Self> {
        let path: PathBuf = SqliteConnectOptions::from_str(url).ok()?.get_filename().to_owned();
        Some(Self { identity: identity(&path)?, path: path.into() })
    }

    /// Whether the path still names the same file.
    pub(super) fn is_there(&self) -> bool {
        identity(&self.path) == Some(self.identity)
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}
