//! WAL checkpoints of a SQLite file, run in the background instead of by the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sqlx::AnyPool;

/// Bytes of chunks between two checkpoints. SQLite itself runs one in the writer when the WAL is several times as
/// long (`wal_autocheckpoint`), which bounds the WAL.
const EVERY_BYTES: u64 = 16 * 1024 * 1024;

/// Counts the bytes written since the last checkpoint.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    written: AtomicU64,
    is_running: AtomicBool,
}

impl Checkpoints {
    /// Called after every commit of chunks; starts a checkpoint when it is due.
    pub(super) fn after_writing(self: &Arc<Self>, bytes: u64, pool: &AnyPool) {
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if written < EVERY_BYTES || self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        self.written.store(0, Ordering::Relaxed);
        let (checkpoints, pool) = (Arc::clone(self), pool.clone());
        tokio::spawn(async move {
            // After a failure the WAL stays as it is and is readable; the next checkpoint tries again.
            let _ = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&pool).await;
            checkpoints.is_running.store(false, Ordering::Release);
        });
    }
}
