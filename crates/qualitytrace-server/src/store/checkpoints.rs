//! Moving what a SQLite file has in its log to where it belongs, beside the writer instead of in its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sqlx::AnyPool;

/// Bytes of chunks after which the log is emptied. The writer does it by itself when the log is several times as long
/// all the same (`wal_autocheckpoint`), which bounds the log.
const EVERY_BYTES: u64 = 16 * 1024 * 1024;

/// How much was written since the last time.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    written: AtomicU64,
    is_running: AtomicBool,
}

impl Checkpoints {
    /// To be told after every commit of chunks.
    pub(super) fn after_writing(self: &Arc<Self>, bytes: u64, pool: &AnyPool) {
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if written < EVERY_BYTES || self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        self.written.store(0, Ordering::Relaxed);
        let (checkpoints, pool) = (Arc::clone(self), pool.clone());
        tokio::spawn(async move {
            // Whatever stops it stops it for now only: the log stays as it is and is readable.
            let _ = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&pool).await;
            checkpoints.is_running.store(false, Ordering::Release);
        });
    }
}
