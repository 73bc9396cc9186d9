//! Backup, restore and check of a database. Each opens its own connection, beside a server.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::any::AnyConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};

use super::audit::Change;
use super::check::Check;
use super::dump::{self, Counts, DumpError, Header, Reader};
use super::{
    Backend, Error, FILE_SETTINGS, Lock, Store, address, connect, migrations, with_mode, without_password,
};
use crate::base::clock;
use crate::base::private_files;

/// How long to watch for a heartbeat of a server on a shared database: it comes every second.
const SIGN_OF_LIFE: Duration = Duration::from_millis(2_500);
/// The tables that must be empty for a restore without `--force`.
const CONTENTS: [&str; 4] = ["resources", "runs", "suite_runs", "chunks"];
/// Settings while a file is filled: no other process has it open, and it is synced as a whole.
const FILLING: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;";

/// The name of the check of a backup.
const ROWS: &str = "rows";

/// Errors of backup, restore and verification.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] Error),
    /// The backup cannot be read or written.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// The database is so damaged that it cannot be opened.
    #[error(transparent)]
    Damaged(Error),
    /// An in-memory database does not last.
    #[error("a database in memory ends with its server: name another one with --database-url or --data-dir")]
    Memory,
    /// The file does not exist.
    #[error("there is no database {}; name another one with --database-url or --data-dir", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The database has no tables of Qualitytrace.
    #[error("the database {url} is not one of qualitytrace: it has no tables of ours")]
    NotOurs {
        /// The URL without its password.
        url: String,
    },
    /// The database has tables or columns that this program does not know, and would leave out.
    #[error(
        "the database {url} was written by a newer version of qualitytrace; make the backup with that version"
    )]
    Newer {
        /// The URL without its password.
        url: String,
    },
    /// The database is not empty.
    #[error("the database {url} is not empty; --force replaces what is in it")]
    NotEmpty {
        /// The URL without its password.
        url: String,
    },
    /// The database cannot be read, so its content is unknown.
    #[error(
        "the database {url} cannot be read ({why}); --force puts the backup in its place and keeps it aside"
    )]
    Unreadable {
        /// The URL without its password.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// Servers work on the database.
    #[error("servers work on the database {url}; stop them first")]
    InUse {
        /// The URL without its password.
        url: String,
    },
    /// The file of the database cannot be replaced.
    #[error("failed to {operation} {}", path.display())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

impl From<sqlx::Error> for MaintenanceError {
    fn from(error: sqlx::Error) -> Self {
        DumpError::from(error).into()
    }
}

/// The result of a restore.
#[derive(Debug)]
pub struct Restored {
    /// Rows of each table.
    pub rows: Counts,
    /// The file that was there before, if it was kept aside.
    pub aside: Option<PathBuf>,
}

/// Writes a consistent snapshot of the database into a new file; servers may go on meanwhile. Rows with damaged
/// content are kept as they are, and reported.
pub fn backup<'a>(
    url: &'a str,
    path: &'a Path,
    progress: &'a mut (dyn FnMut(u64) + Send),
) -> BoxFuture<'a, Result<(Counts, Check), MaintenanceError>> {
    Box::pin(write_backup(url, path, progress))
}

async fn write_backup(
    url: &str,
    path: &Path,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<(Counts, Check), MaintenanceError> {
    let mut snapshot = snapshot(url).await?;
    let migration = migration(&mut snapshot, url).await?;
    if migration > migrations::latest() {
        return Err(MaintenanceError::Newer { url: without_password(url) });
    }
    let header = Header {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        migration,
        created: clock::now().as_nanos() / 1_000_000_000,
    };
    let mut check = Check::new(ROWS);
    let written = dump::write(&mut snapshot, &header, path, &mut check, progress).await?;
    snapshot.close().await?;
    Ok((written.complete()?, check))
}

/// Reads a backup to the end. Returns its header and what is wrong with its rows.
pub fn check_backup(
    path: &Path,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<(Header, Check), MaintenanceError> {
    let mut reader = Reader::open(path)?;
    let mut check = Check::new(ROWS);
    let mut table = (String::new(), Vec::new());
    loop {
        match reader.next() {
            Ok(Some(dump::Item::Table(name, columns))) => table = (name, columns),
            Ok(Some(dump::Item::Row(row))) => {
                check.row(&table.0, &table.1, &row);
                progress(check.looked_at);
            }
            Ok(None) => break,
            // The rest cannot be read.
            Err(error @ DumpError::Damaged { .. }) => {
                check.find(error.to_string());
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((reader.header, check))
}

/// Restores a backup into a database that no server works on and that is empty, or may be replaced.
pub fn restore<'a>(
    url: &'a str,
    path: &'a Path,
    force: bool,
    progress: &'a mut (dyn FnMut(u64) + Send),
) -> BoxFuture<'a, Result<Restored, MaintenanceError>> {
    Box::pin(read_backup(url, path, force, progress))
}

async fn read_backup(
    url: &str,
    path: &Path,
    force: bool,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Restored, MaintenanceError> {
    let mut reader = Reader::open(path)?;
    if reader.header.migration > migrations::latest() {
        let version = reader.header.version.clone();
        return Err(DumpError::Newer { path: path.to_owned(), version }.into());
    }
    match Store::check(url)? {
        Backend::Memory => Err(MaintenanceError::Memory),
        Backend::File => restore_file(url, &mut reader, force, progress).await,
        Backend::Postgres => restore_postgres(url, &mut reader, force, progress).await,
    }
}

/// Writes the restore into the restored audit log, for which no key is needed.
async fn audit(connection: &mut AnyConnection, reader: &Reader) -> Result<(), sqlx::Error> {
    Change::own("restore", "database", &reader.path.display().to_string()).insert(&mut *connection).await
}

/// Runs in one transaction: an interrupted restore changes nothing.
async fn restore_postgres(
    url: &str,
    reader: &mut Reader,
    force: bool,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Restored, MaintenanceError> {
    let shown = without_password(url);
    let driver_url = address::for_driver(url);
    sqlx::any::install_default_drivers();
    let options = AnyConnectOptions::from_str(&driver_url).map_err(|error| unusable(url, &error))?;
    let mut connection = connect::connect(&options).await.map_err(|error| unusable(url, &error))?;
    let known: Option<i64> = migration(&mut connection, url).await.ok();
    if known.is_some() {
        if beats(&mut connection).await? {
            return Err(MaintenanceError::InUse { url: shown });
        }
        if !force && !is_empty(&mut connection).await? {
            return Err(MaintenanceError::NotEmpty { url: shown });
        }
    }
    // Existing tables keep their schema: the schema of an older backup would require dropping them.
    let open = |why| Error::Open { url: shown.clone(), why };
    if known.is_none() {
        connect::migrate(&mut connection, Some(reader.header.migration)).await.map_err(open)?;
    } else if known != Some(reader.header.migration) {
        connect::migrate(&mut connection, None).await.map_err(open)?;
    }
    connection.execute("BEGIN").await?;
    // Servers that start meanwhile wait for the commit.
    connection.execute("LOCK TABLE servers IN EXCLUSIVE MODE").await?;
    connection.execute("DELETE FROM servers").await?;
    let rows = dump::read(&mut connection, reader, true, progress).await?;
    connection.execute("COMMIT").await?;
    connect::migrate(&mut connection, None).await.map_err(open)?;
    audit(&mut connection, reader).await?;
    connection.close().await?;
    Ok(Restored { rows, aside: None })
}

/// Fills a new file beside the old one and renames it at the end. The old file is kept aside.
async fn restore_file(
    url: &str,
    reader: &mut Reader,
    force: bool,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Restored, MaintenanceError> {
    let shown = without_password(url);
    let options = SqliteConnectOptions::from_str(url).map_err(|error| unusable(url, &error))?;
    let file = options.get_filename().to_owned();
    let failed = |operation| {
        let path = file.clone();
        move |source| MaintenanceError::File { operation, path, source }
    };
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    if !folder.as_os_str().is_empty() {
        private_files::folder(&folder).map_err(failed("make the folder of"))?;
    }
    let _lock = Lock::take(url).await.map_err(|_| MaintenanceError::InUse { url: shown.clone() })?;
    let is_there = std::fs::metadata(&file).is_ok_and(|file| file.len() > 0);
    if is_there && !force {
        match is_empty_file(url).await {
            Ok(true) => {}
            Ok(false) => return Err(MaintenanceError::NotEmpty { url: shown }),
            Err(error) => return Err(MaintenanceError::Unreadable { url: shown, why: error.to_string() }),
        }
    }
    let draft = Draft(beside(&file, &format!(".{:08x}.restoring", rand::random::<u32>())));
    drop(private_files::file(&draft.0).map_err(failed("create the new file beside"))?);
    sqlx::any::install_default_drivers();
    let draft_url = format!("sqlite://{}?mode=rw", draft.0.display());
    let draft_options = AnyConnectOptions::from_str(&draft_url)?;
    let mut connection = AnyConnection::connect_with(&draft_options).await?;
    let open = |why| Error::Open { url: shown.clone(), why };
    connection.execute("PRAGMA page_size = 8192").await?;
    connection.execute(FILLING).await?;
    connect::migrate(&mut connection, Some(reader.header.migration)).await.map_err(open)?;
    connection.execute("BEGIN").await?;
    let rows = dump::read(&mut connection, reader, false, progress).await?;
    connection.execute("COMMIT").await?;
    connect::migrate(&mut connection, None).await.map_err(open)?;
    audit(&mut connection, reader).await?;
    connection.close().await?;
    let filled = std::fs::File::open(&draft.0).and_then(|file| file.sync_all());
    filled.map_err(failed("sync the new file beside"))?;
    let aside =
        if is_there { Some(put_aside(url, &file).await.map_err(failed("keep aside"))?) } else { None };
    std::fs::rename(&draft.0, &file).map_err(failed("replace"))?;
    private_files::sync_folder(&folder).map_err(failed("sync the folder of"))?;
    Ok(Restored { rows, aside })
}

/// A temporary file, removed on drop.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Hard-links the database file to a second name and moves its WAL with it: a WAL must never meet another file.
async fn put_aside(url: &str, file: &Path) -> std::io::Result<PathBuf> {
    // A cleanly closed file has no WAL. A damaged one may keep it.
    if let Ok(options) = AnyConnectOptions::from_str(&with_mode(url, "rw"))
        && let Ok(mut connection) = AnyConnection::connect_with(&options).await
    {
        let _ = connection.execute(FILE_SETTINGS).await;
        let _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
        let _ = connection.close().await;
    }
    let aside = (1..=u32::MAX)
        .map(|number| beside(file, &format!(".before-restore-{number}")))
        .find(|aside| !aside.exists())
        .unwrap_or_else(|| beside(file, ".before-restore"));
    std::fs::hard_link(file, &aside)?;
    let log = beside(file, "-wal");
    if log.exists() {
        std::fs::rename(&log, beside(&aside, "-wal"))?;
    }
    let _ = std::fs::remove_file(beside(file, "-shm"));
    Ok(aside)
}

async fn is_empty_file(url: &str) -> Result<bool, sqlx::Error> {
    sqlx::any::install_default_drivers();
    let options = AnyConnectOptions::from_str(&with_mode(url, "rw"))?;
    let mut connection = AnyConnection::connect_with(&options).await?;
    let is_empty = is_empty(&mut connection).await;
    connection.close().await?;
    is_empty
}

async fn is_empty(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    for table in CONTENTS {
        let text = AssertSqlSafe(format!("SELECT COUNT(*) FROM (SELECT 1 FROM {table} LIMIT 1) found"));
        let count: i64 = sqlx::query_scalar(text).fetch_one(&mut *connection).await?;
        if count > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a server writes heartbeats.
async fn beats(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let read = "SELECT id, beat FROM servers ORDER BY id";
    let before: Vec<(String, i64)> = sqlx::query_as(read).fetch_all(&mut *connection).await?;
    if before.is_empty() {
        return Ok(false);
    }
    tokio::time::sleep(SIGN_OF_LIFE).await;
    let after: Vec<(String, i64)> = sqlx::query_as(read).fetch_all(&mut *connection).await?;
    Ok(after.iter().any(|server| !before.contains(server)))
}

/// Opens a connection that sees the database as it is at one moment, until it is closed.
pub(super) async fn snapshot(url: &str) -> Result<AnyConnection, MaintenanceError> {
    sqlx::any::install_default_drivers();
    let (url_of_driver, begin) = match Store::check(url)? {
        Backend::Memory => return Err(MaintenanceError::Memory),
        Backend::File => {
            let options = SqliteConnectOptions::from_str(url).map_err(|error| unusable(url, &error))?;
            let path = options.get_filename().to_owned();
            if !path.exists() {
                return Err(MaintenanceError::Missing { path });
            }
            (with_mode(url, "rw"), "BEGIN")
        }
        Backend::Postgres => (address::for_driver(url), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    };
    let options = AnyConnectOptions::from_str(&url_of_driver).map_err(|error| unusable(url, &error))?;
    let mut connection = connect::connect(&options).await.map_err(|error| unusable(url, &error))?;
    if begin == "BEGIN" {
        connection.execute("PRAGMA busy_timeout = 10000").await?;
    }
    connection.execute(begin).await?;
    Ok(connection)
}

/// The latest migration of a database.
pub(super) async fn migration(connection: &mut AnyConnection, url: &str) -> Result<i64, MaintenanceError> {
    let text = "SELECT CAST(COALESCE(MAX(version), 0) AS BIGINT) FROM _sqlx_migrations";
    match sqlx::query_scalar(text).fetch_one(&mut *connection).await {
        Ok(version) => Ok(version),
        Err(sqlx::Error::Database(error)) => {
            let code = error.code().unwrap_or_default();
            // The table does not exist; any other error is damage.
            if matches!(&*code, "42P01" | "1") {
                return Err(MaintenanceError::NotOurs { url: without_password(url) });
            }
            Err(unusable(url, &sqlx::Error::Database(error)))
        }
        Err(error) => Err(error.into()),
    }
}

/// SQLite's primary result codes for a corrupt file and for a file that is not a database.
const DAMAGED: [u32; 2] = [11, 26];

fn unusable(url: &str, error: &sqlx::Error) -> MaintenanceError {
    let open = Error::Open { url: without_password(url), why: connect::why(error) };
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    if code.is_some_and(|code| DAMAGED.contains(&(code & 0xff))) {
        MaintenanceError::Damaged(open)
    } else {
        MaintenanceError::Store(open)
    }
}
