//! Opening a database: asked once before anything rests on it, and explained in one sentence when it is of no use.

use std::io::ErrorKind;
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use sqlx::any::AnyConnectOptions;
use sqlx::migrate::MigrateError;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AnyConnection, Connection, Executor};

use super::ACQUIRE_TIMEOUT;
use super::away::is_away;
use crate::private;

/// How long to wait before the database is asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// Makes the file of a SQLite URL for its owner alone; what SQLite puts beside it becomes the same. One that is there
/// stays as it is, and what cannot be made is explained when it is opened.
pub(super) fn make_file(url: &str) {
    if let Ok(options) = SqliteConnectOptions::from_str(url) {
        let _ = private::file(options.get_filename());
    }
}

/// Connects once, with these statements, and brings the tables up to date. A pool would try again and again, and forget
/// why. Answers with what is wrong and what to do.
pub(super) async fn prepare(options: &AnyConnectOptions, statements: &'static str) -> Result<(), String> {
    let mut connection = connect(options).await.map_err(|error| why(&error))?;
    if !statements.is_empty() {
        connection.execute(statements).await.map_err(|error| why(&error))?;
    }
    migrate(&mut connection, None).await?;
    connection.close().await.map_err(|error| why(&error))
}

/// Brings tables up to this migration; to the last one when none is named.
pub(super) async fn migrate(connection: &mut AnyConnection, to: Option<i64>) -> Result<(), String> {
    let migrated = sqlx::migrate!().run_direct(to, connection, false).await;
    migrated.map_err(|error| why_not_migrated(&error))
}

/// The last migration that this program knows.
pub(super) fn latest_migration() -> i64 {
    sqlx::migrate!().iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Connects. A database that is started together with the server may not be there yet.
pub(super) async fn connect(options: &AnyConnectOptions) -> Result<AnyConnection, sqlx::Error> {
    let start = Instant::now();
    let mut is_told = false;
    loop {
        let connected = tokio::time::timeout(ACQUIRE_TIMEOUT, AnyConnection::connect_with(options)).await;
        match connected.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
            Err(error) if is_away(&error) && start.elapsed() < ACQUIRE_TIMEOUT => {
                if !is_told {
                    let seconds = ACQUIRE_TIMEOUT.as_secs();
                    tracing::warn!("the database does not answer ({}); trying for {seconds} s", why(&error));
                }
                is_told = true;
                tokio::time::sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// What is wrong and what to do.
pub(super) fn why(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
            "nobody listens there; start PostgreSQL, or correct the address".to_owned()
        }
        sqlx::Error::Io(error) => format!("{error}; check the address, and that PostgreSQL runs there"),
        sqlx::Error::PoolTimedOut => {
            let seconds = ACQUIRE_TIMEOUT.as_secs();
            format!("it does not answer within {seconds} s; check the address, and that it is not overloaded")
        }
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            format!("{}; {}", error.message(), next_step(&code))
        }
        other => format!("{other}; correct the address"),
    }
}

/// What to do about what a database says: PostgreSQL by five letters, SQLite by a number.
fn next_step(code: &str) -> &'static str {
    match code {
        "3D000" => "create it with `createdb NAME`, or correct the name",
        "28P01" | "28000" => "correct the user and the password",
        "42501" => "let its user create tables",
        "53300" => "raise max_connections of PostgreSQL, or stop what takes them",
        "57P01" | "57P02" | "57P03" => "PostgreSQL is starting or stopping, so try again",
        _ if code.len() == 5 => "look into the log of PostgreSQL",
        // The lower byte says what it is, the upper ones details.
        _ => match code.parse().map_or(0, |code: u32| code & 0xff) {
            5 | 6 => "stop the program that works on it",
            8 => "let the server's user write the file and its folder",
            10 => "check the disk",
            11 => super::condition::DAMAGED,
            13 => "make room on the disk",
            14 => "check that its folder is there, and that the server's user may write to it",
            26 => "name another file, or put back a backup with `qualitytrace restore --force`",
            _ => "name another file",
        },
    }
}

fn why_not_migrated(error: &MigrateError) -> String {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => why(error),
        MigrateError::VersionMissing(_) | MigrateError::VersionTooNew(..) => {
            "it was written by a newer version of qualitytrace; start that version, or name another database"
                .to_owned()
        }
        MigrateError::VersionMismatch(_) | MigrateError::Dirty(_) => {
            "its tables are not as qualitytrace made them; put back a backup, or name another database"
                .to_owned()
        }
        other => format!("{other}; name another database"),
    }
}
