//! Health checks of a database: whether it can be written to, and whether its pages are intact.

use std::path::Path;
use std::str::FromStr as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use super::tables::TABLES;
use super::{Error, Store};

/// How long a successful write probe is cached.
const PROBE_LIFETIME: Duration = Duration::from_secs(1);
/// A disk with fewer free bytes than this counts as full: a write that still fits leaves nothing for the next.
const LEAST_ROOM: u64 = 4 << 20;
/// The document that a probe writes.
const PROBE: &str = "write-probe";
/// The time limit of the page check at startup.
const CHECK_TIME: Duration = Duration::from_secs(1);
/// SQLite instructions between two checks of the clock.
const CHECK_STEP: i32 = 1_000;

/// When a probe last succeeded.
#[derive(Debug, Default)]
pub(super) struct Probe(Mutex<Option<Instant>>);

impl Store {
    /// Checks that the store is writable by writing a document, at most once a second.
    pub async fn check_writable(&self) -> Result<(), Error> {
        let last = *self.probe.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &self.folder
            && let Some(free) = free_bytes(folder)
            && free < LEAST_ROOM
        {
            return Err(Error::NoRoom { folder: folder.to_path_buf(), free });
        }
        if last.is_some_and(|last| last.elapsed() < PROBE_LIFETIME) {
            return Ok(());
        }
        let written = self.put_document(PROBE, &format!("{}", rand::random::<u32>())).await;
        let mut last = self.probe.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = written.is_ok().then(Instant::now);
        written
    }
}

/// The free bytes on the disk of this folder; `None` when unknown.
fn free_bytes(folder: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(folder).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Checks the pages of a SQLite file until [`CHECK_TIME`] is over: users' tables first, chunks last. The error
/// says what is damaged.
pub(super) async fn check_pages(url: &str) -> Result<(), String> {
    let Ok(options) = SqliteConnectOptions::from_str(url) else { return Ok(()) };
    // A failure to open the file is reported when the pool is opened.
    let Ok(mut connection) = options.create_if_missing(false).connect().await else { return Ok(()) };
    let start = Instant::now();
    if let Ok(mut handle) = connection.lock_handle().await {
        handle.set_progress_handler(CHECK_STEP, move || start.elapsed() < CHECK_TIME);
    }
    let found = check_tables(&mut connection).await;
    let _ = connection.close().await;
    let seconds = CHECK_TIME.as_secs();
    match found {
        Ok(Some(damage)) => Err(format!("{damage}; {DAMAGED}")),
        Err(_) if start.elapsed() >= CHECK_TIME => {
            tracing::info!(
                "the database is large: its pages were checked for {seconds} s only; `qualitytrace verify` checks all of them"
            );
            Ok(())
        }
        Err(sqlx::Error::Database(error)) if error.code().is_some_and(|code| is_damage(&code)) => {
            Err(format!("{}; {DAMAGED}", error.message()))
        }
        // Other errors are reported when the pool is opened.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// The next step for a damaged file.
pub(super) const DAMAGED: &str = "it is damaged: check the disk, see with `qualitytrace verify` how far it goes, and put \
                                  back a backup with `qualitytrace restore --force`";

/// SQLite's primary result code is the lower byte.
fn is_damage(code: &str) -> bool {
    code.parse().is_ok_and(|code: u32| code & 0xff == 11)
}

async fn check_tables(connection: &mut SqliteConnection) -> Result<Option<String>, sqlx::Error> {
    for table in TABLES {
        // Only table names become part of this SQL.
        let text = AssertSqlSafe(format!("PRAGMA quick_check('{}')", table.name));
        let said: Vec<String> = sqlx::query_scalar(text).fetch_all(&mut *connection).await?;
        if let Some(damage) = said.into_iter().find(|said| said != "ok") {
            return Ok(Some(format!("table {}: {}", table.name, damage.replace('\n', " "))));
        }
    }
    Ok(None)
}
