//! The lock file of a SQLite database: one server at a time, because a second one would take the runs of the first
//! for orphans.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;

use crate::base::private_files;

/// Held while the database is open. The system releases it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock(File);

/// Another process holds the lock.
#[derive(Debug)]
pub(super) struct LockTakenError;

/// How long to wait for a server that is shutting down.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts: file locks have no notification.
const PAUSE: Duration = Duration::from_millis(20);

impl Lock {
    /// Takes the lock beside the file of this URL, and waits for a server that is shutting down. `None` where there can
    /// be no lock file, which opening the database will explain.
    pub(super) async fn take(url: &str) -> Result<Option<Self>, LockTakenError> {
        let start = Instant::now();
        loop {
            match Self::try_take(url) {
                Err(LockTakenError) if start.elapsed() < LOCK_TIMEOUT => tokio::time::sleep(PAUSE).await,
                outcome => return outcome,
            }
        }
    }

    fn try_take(url: &str) -> Result<Option<Self>, LockTakenError> {
        let Ok(options) = SqliteConnectOptions::from_str(url) else { return Ok(None) };
        let mut path = options.get_filename().as_os_str().to_owned();
        path.push("-lock");
        let path = PathBuf::from(path);
        // Fails when the file exists, which is fine.
        let _ = private_files::file(&path);
        let file = File::options().append(true).open(path);
        let Ok(file) = file else { return Ok(None) };
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Err(LockTakenError),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(%error, "the database cannot be locked: see that no other server works on it");
                Ok(None)
            }
        }
    }

    /// Releases the lock for the next server.
    pub(super) fn release(&self) {
        // The end of the process does the same.
        let _ = self.0.unlock();
    }
}
