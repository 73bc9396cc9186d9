//! The three kinds of database that every test of the store runs against.

use qualitytrace_server::storage::store::Store;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tempfile::TempDir;

/// A new database for one test.
pub(crate) struct Database {
    pub(crate) url: String,
    /// Deletes the file when the test ends.
    _folder: Option<TempDir>,
}

impl Database {
    pub(crate) fn memory() -> Self {
        Self { url: "sqlite::memory:".to_owned(), _folder: None }
    }

    /// Creates a database that other connections of this process can open as well.
    pub(crate) fn named_memory() -> Self {
        let name = rand::random::<u64>();
        Self { url: format!("sqlite:file:test-{name:016x}?mode=memory"), _folder: None }
    }

    pub(crate) fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { url: format!("sqlite://{}", folder.path().join("test.db").display()), _folder: Some(folder) }
    }

    /// Creates a database on the server named by `QUALITYTRACE_TEST_POSTGRES`; `None` if that is not set.
    pub(crate) async fn postgres() -> Option<Self> {
        let Ok(server) = std::env::var("QUALITYTRACE_TEST_POSTGRES") else {
            assert!(
                std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(),
                "QUALITYTRACE_TEST_POSTGRES is not set"
            );
            println!("skipped: QUALITYTRACE_TEST_POSTGRES is not set");
            return None;
        };
        sqlx::any::install_default_drivers();
        let name = format!("test_{:016x}", rand::random::<u64>());
        let mut connection = sqlx::AnyConnection::connect(&server).await.unwrap();
        connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
        let (base, query) =
            server.split_once('?').map_or((server.as_str(), ""), |(base, query)| (base, query));
        let (base, _) = base.rsplit_once('/').unwrap();
        Some(Self { url: format!("{base}/{name}?{query}").trim_end_matches('?').to_owned(), _folder: None })
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(&self.url).await.unwrap()
    }
}

/// Instantiates each test for each kind of database.
macro_rules! on_every_database {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $test() { super::$test(&crate::databases::Database::memory()).await; })*
        }
        mod file {
            $(#[tokio::test] async fn $test() { super::$test(&crate::databases::Database::file()).await; })*
        }
        mod postgres {
            $(#[tokio::test] async fn $test() {
                if let Some(database) = crate::databases::Database::postgres().await {
                    super::$test(&database).await;
                }
            })*
        }
    };
}
pub(crate) use on_every_database;
