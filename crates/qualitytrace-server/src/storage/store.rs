//! The store: traces, tests, runs and their events, in SQLite or PostgreSQL.
//!
//! One SQL text serves `sqlite::memory:`, `sqlite://FILE` and `postgres://...`. Every write is one statement or one
//! transaction that begins with a write, so SQLite never has to upgrade a read lock.

mod address;
mod audit;
mod availability;
mod check;
mod checkpoints;
mod chunks;
mod condition;
mod connect;
mod definitions;
mod documents;
mod dump;
mod events;
mod facets;
mod file_identity;
mod group;
mod history;
mod lists;
mod lock;
mod maintenance;
mod migrations;
mod notifications;
mod queue;
mod removal;
mod retention;
mod runs;
mod scope;
mod sealed;
mod sealing;
mod series;
mod servers;
mod sizes;
mod suites;
mod tables;
mod trace_queries;
mod upsert;
mod verify;
mod withheld;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyQueryResult};
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AnyPool, AssertSqlSafe, Connection as _, Executor};
use tokio::time::timeout;

use crate::storage::vault::{self, KeySource, Vault};

pub(crate) use address::{parameters_without_password, without_password};
pub use audit::Change;
pub use check::Check;
use checkpoints::Checkpoints;
pub use chunks::{Durability, NewChunk, Packed, Signal, StoredChunk};
pub use definitions::{StoredDefinition, StoredResource, StoredTest};
pub use dump::{Counts, DumpError, Header};
pub use events::StoredEvent;
pub use facets::{Facet, TagCount};
use group::Writers;
pub use history::{ListedRun, PastRun, RunFilter, RunPosition, RunResult};
pub use lists::{ListPage, Listing, Order};
use lock::Lock;
pub use maintenance::{MaintenanceError, Restored, backup, check_backup, restore};
pub use notifications::{Listener, Notification, Received, TraceHex};
pub use queue::{Claimed, Inserted, JudgedOrphan, Orphan, RunCommand, RunEnd};
pub use retention::RunsOf;
pub use runs::{NewRun, RunSummary, StepOf, StoredRun};
pub use scope::{beside, scoped, unscoped};
pub use series::{Flakiness, OrphanSeries};
pub use servers::Peer;
pub use sizes::{TraceSize, Unread};
pub use suites::{NewSuiteRun, StepRuns, StoredSuiteRun};
pub use upsert::{CURRENT, Expected, Mode, NewDefinition, Put};
pub(crate) use upsert::{NO_ID, is_id};
pub use verify::verify;

/// How a SQLite URL names an unnamed in-memory database.
const MEMORY: &str = ":memory:";
/// Connections for readers of a SQLite file.
const SQLITE_READERS: u32 = 4;
/// Connections to PostgreSQL.
const POSTGRES_CONNECTIONS: u32 = 16;
/// How long a statement waits for a connection before it fails.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long what a server does all the time (heartbeats, claims, storing spans) waits for an answer of PostgreSQL. A
/// network that drops packets would let it wait for hours.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// How long PostgreSQL keeps the locks of a connection that does nothing within a transaction: its server is cut off,
/// and others wait for these locks. How long a connection may take to prove itself when it is given back.
const POSTGRES_IDLE: Duration = Duration::from_secs(10);

/// How long connections to PostgreSQL may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    read: AnyPool,
    /// SQLite has one writer at a time: giving it one connection makes writers queue instead of fail.
    write: AnyPool,
    /// Writers whose commits are shared.
    writers: Writers,
    /// The PostgreSQL URL, when other servers may work on the same tables.
    shared: Option<Arc<str>>,
    /// Seals and opens secrets.
    vault: Vault,
    /// Whether the database has a mark of the key that seals its secrets.
    is_key_marked: Arc<AtomicBool>,
    inserts: chunks::Inserts,
    /// SQLite files only.
    checkpoints: Option<Arc<Checkpoints>>,
    /// An unused connection. An in-memory database lasts as long as one connection is open, and the pool may drop
    /// the others when a caller cancels its statement.
    keeper: Option<AnyPool>,
    /// SQLite files only.
    lock: Option<Arc<Lock>>,
    /// The folder of the SQLite file.
    folder: Option<Arc<Path>>,
    probe: Arc<condition::Probe>,
    /// Secrets of triggers without a run.
    withheld: Arc<withheld::SentSecrets>,
}

/// Errors of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL names no supported database.
    #[error(
        "`{url}` is not a database URL: use sqlite::memory:, sqlite://FILE or postgres://USER:PASSWORD@HOST/NAME"
    )]
    Url {
        /// The URL as given, without its password.
        url: String,
    },
    /// Another server works on the database.
    #[error(
        "another server works on the database {url}; stop it, choose another place with --data-dir or --database-url, or \
         let both share a PostgreSQL"
    )]
    InUse {
        /// The URL.
        url: String,
    },
    /// The database does not answer, refuses the connection, or is not usable.
    #[error("the database {url} cannot be opened: {why}")]
    Open {
        /// The URL without its password.
        url: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// The disk is full.
    #[error("the disk of {} has {free} bytes left: make room on it", folder.display())]
    NoRoom {
        /// The folder of the database.
        folder: PathBuf,
        /// Bytes left.
        free: u64,
    },
    /// A statement failed.
    #[error("failed to {operation}")]
    Query {
        /// The operation that the statement was part of.
        operation: &'static str,
        /// The error of the driver.
        #[source]
        source: sqlx::Error,
    },
    /// A secret cannot be sealed or opened.
    #[error(transparent)]
    Secret(#[from] vault::Error),
    /// A stored document cannot be read: it was written by another version, or changed by hand.
    #[error("failed to read a stored {what}")]
    Document {
        /// The kind of document.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

impl Store {
    /// Opens the database and migrates its tables. Secrets are sealed with a key that lasts as long as the process.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::open_sealed(url, KeySource::Memory).await
    }

    /// Parses a URL and returns its kind of database, or what is wrong with it. Opens nothing.
    pub(crate) fn check(url: &str) -> Result<Backend, Error> {
        let shown = || without_password(url);
        let backend = Backend::of(url).ok_or_else(|| Error::Url { url: shown() })?;
        let parsed = match backend {
            Backend::Memory | Backend::File => SqliteConnectOptions::from_str(url).map(drop),
            Backend::Postgres => PgConnectOptions::from_str(&address::for_driver(url)).map(drop),
        };
        parsed.map_err(|error| Error::Open { url: shown(), why: connect::why(&error) })?;
        Ok(backend)
    }

    /// The folder of a database file; `None` where there is no file, or it is in the current folder.
    pub(crate) fn folder(url: &str) -> Option<PathBuf> {
        let file =
            SqliteConnectOptions::from_str(url).ok().filter(|_| Backend::of(url) == Some(Backend::File))?;
        file.get_filename().parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned)
    }

    /// Opens the database; its secrets are sealed with the key from this place.
    pub async fn open_sealed(url: &str, key: KeySource) -> Result<Self, Error> {
        Self::open_with(url, Vault::open(key)?).await
    }

    /// Opens the database with a vault that may know previous keys.
    pub fn open_with(url: &str, vault: Vault) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(async {
            let store = Self::connect(url, vault).await?;
            store.check_key().await?;
            store.fill_facets().await?;
            Ok(store)
        })
    }

    /// Opens the database without checking that the key is the one of this database: to drop what no key opens.
    pub fn open_unchecked(url: &str, vault: Vault) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::connect(url, vault))
    }

    async fn connect(url: &str, vault: Vault) -> Result<Self, Error> {
        let backend = Self::check(url)?;
        sqlx::any::install_default_drivers();
        let shown = without_password(url);
        let unusable = |why| Error::Open { url: shown.clone(), why };
        let open = |error| unusable(connect::why(&error));
        let inserts = chunks::Inserts::new(matches!(backend, Backend::Postgres));
        let checkpoints = matches!(backend, Backend::File).then(Arc::default);
        let (mut keeper, mut lock) = (None, None);
        let (read, write, shared) = match backend {
            Backend::Memory => {
                let options = AnyConnectOptions::from_str(&named_memory(url)).map_err(open)?;
                keeper = Some(pool(1).connect_with(options.clone()).await.map_err(open)?);
                connect::prepare(&options, "").await.map_err(unusable)?;
                let pool = sqlite_pool(1, None).connect_with(options).await.map_err(open)?;
                (pool.clone(), pool, None)
            }
            Backend::File => {
                lock = Lock::take(url).await.map_err(|_| Error::InUse { url: shown.clone() })?.map(Arc::new);
                connect::make_file(url);
                let options = |mode| AnyConnectOptions::from_str(&with_mode(url, mode));
                connect::prepare(&options("rwc").map_err(open)?, FILE_SETTINGS).await.map_err(unusable)?;
                condition::check_pages(url).await.map_err(unusable)?;
                // A file that was removed must not come back empty.
                let (options, place) = (options("rw").map_err(open)?, file_identity::FileIdentity::of(url));
                let write = file_pool(1, WRITER_CACHE, place.clone())
                    .connect_with(options.clone())
                    .await
                    .map_err(open)?;
                let read = file_pool(SQLITE_READERS, READER_CACHE, place).connect_lazy_with(options);
                (read, write, None)
            }
            Backend::Postgres => {
                let url = address::for_driver(url);
                let options = AnyConnectOptions::from_str(&url).map_err(open)?;
                connect::prepare(&options, "").await.map_err(unusable)?;
                let pool = postgres_pool().connect_with(options).await.map_err(open)?;
                (pool.clone(), pool, Some(url.into()))
            }
        };
        let folder = match backend {
            Backend::File => Some(Self::folder(url).unwrap_or_else(|| ".".into()).into()),
            Backend::Memory | Backend::Postgres => None,
        };
        let writers = match backend {
            Backend::File => Writers::grouped(write.clone()),
            Backend::Memory | Backend::Postgres => Writers::Separate(write.clone()),
        };
        Ok(Self {
            read,
            write,
            writers,
            shared,
            vault,
            is_key_marked: Arc::default(),
            inserts,
            checkpoints,
            keeper,
            lock,
            folder,
            probe: Arc::default(),
            withheld: Arc::default(),
        })
    }

    /// Gives statements up when PostgreSQL does not answer in time. Whether they were done is unknown then. A SQLite file
    /// is waited for: its disk would not answer faster another time.
    async fn answered<T>(
        &self,
        statements: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        if !self.is_shared() {
            return statements.await;
        }
        let outcome = timeout(ANSWER_TIMEOUT, statements).await;
        outcome.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
    }

    /// Whether other servers may work on the same tables.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Waits until running statements end, then closes every connection. A PostgreSQL that does not answer is not
    /// waited for: it notices by itself that the connections are gone.
    pub async fn close(&self) {
        let close = async {
            self.read.close().await;
            self.write.close().await;
        };
        if self.is_shared() {
            let _ = timeout(CLOSE_TIMEOUT, close).await;
        } else {
            close.await;
        }
        if let Some(keeper) = &self.keeper {
            keeper.close().await;
        }
        if let Some(lock) = &self.lock {
            lock.release();
        }
    }
}

/// Whether the database ends with the process.
pub(crate) fn is_in_memory(url: &str) -> bool {
    matches!(Backend::of(url), Some(Backend::Memory))
}

/// The kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    File,
    Postgres,
}

impl Backend {
    fn of(url: &str) -> Option<Self> {
        match url.split_once(':')? {
            ("sqlite", rest) if rest.trim_start_matches('/') == MEMORY || rest.contains("mode=memory") => {
                Some(Self::Memory)
            }
            ("sqlite", rest) if !rest.trim_start_matches('/').is_empty() => Some(Self::File),
            ("postgres" | "postgresql", _) => Some(Self::Postgres),
            _ => None,
        }
    }
}

fn pool(connections: u32) -> AnyPoolOptions {
    AnyPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
}

/// A pool of connections to PostgreSQL, of which a network may forget some without a word.
fn postgres_pool() -> AnyPoolOptions {
    pool(POSTGRES_CONNECTIONS)
        .after_connect(|connection, _| {
            let text = format!("SET idle_in_transaction_session_timeout = {}", POSTGRES_IDLE.as_millis());
            Box::pin(async move { connection.execute(AssertSqlSafe(text)).await.map(drop) })
        })
        // A statement that was given up may still be under way. The pool itself would wait for its end without limit.
        .after_release(|connection, _| {
            let ping = timeout(POSTGRES_IDLE, connection.ping());
            Box::pin(async move { ping.await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map(|()| true) })
        })
}

/// The URL of an in-memory database that several connections of this process can open. An unnamed one gets a unique
/// name.
fn named_memory(url: &str) -> String {
    if url.ends_with(MEMORY) {
        return format!("sqlite:file:qualitytrace-{:032x}?mode=memory", rand::random::<u128>());
    }
    url.to_owned()
}

/// A pool of SQLite connections. They cannot be cut, so they are not pinged: that would double the trips to their
/// thread.
fn sqlite_pool(connections: u32, place: Option<file_identity::FileIdentity>) -> AnyPoolOptions {
    // SQLite itself ends a transaction when the disk is full. The driver takes it for open, would begin the next
    // one inside it, and commit nothing from then on.
    pool(connections).test_before_acquire(false).before_acquire(move |connection, _| {
        let is_usable = !connection.is_in_transaction()
            && place.as_ref().is_none_or(file_identity::FileIdentity::is_there);
        Box::pin(async move { Ok(is_usable) })
    })
}

/// Every commit is synced to the disk before it counts (`synchronous = FULL`), so that neither the death of the
/// process nor a power cut undoes it; chunks may be exempt ([`Durability`]). Of most chunks only one would fit into
/// a page of the usual 4 KiB.
const FILE_SETTINGS: &str = "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
     PRAGMA busy_timeout = 10000; PRAGMA wal_autocheckpoint = 12000; PRAGMA temp_store = MEMORY; \
     PRAGMA journal_size_limit = 16777216;";

/// The pages that the writer keeps in memory (32 MiB): what it changes before a commit should fit.
const WRITER_CACHE: &str = "PRAGMA cache_size = -32768";
/// The pages that each reader keeps in memory (8 MiB); the system's cache of the file has the others.
const READER_CACHE: &str = "PRAGMA cache_size = -8192";

fn file_pool(
    connections: u32,
    cache: &'static str,
    place: Option<file_identity::FileIdentity>,
) -> AnyPoolOptions {
    sqlite_pool(connections, place).after_connect(move |connection, _| {
        Box::pin(async move {
            connection.execute(FILE_SETTINGS).await?;
            connection.execute(cache).await?;
            Ok(())
        })
    })
}

/// The URL with the `mode` option (whether a missing file is created), unless it has one.
fn with_mode(url: &str, mode: &str) -> String {
    if url.contains("mode=") {
        return url.to_owned();
    }
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}mode={mode}")
}

/// Wraps a driver error with the name of the operation.
fn failed(operation: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Query { operation, source }
}

/// The number of rows written: 0 when the parent row was removed at the same time.
fn rows_written(done: Result<AnyQueryResult, sqlx::Error>) -> Result<u64, sqlx::Error> {
    match done {
        Ok(done) => Ok(done.rows_affected()),
        Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_url_is_refused_with_the_known_forms() {
        let error = Store::open("mysql://root:x@h/db").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "`mysql://root@h/db` is not a database URL: use sqlite::memory:, sqlite://FILE or \
             postgres://USER:PASSWORD@HOST/NAME"
        );
    }
}
