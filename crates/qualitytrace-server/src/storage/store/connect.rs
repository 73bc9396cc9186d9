//! Connecting to a database and migrating it; failures are explained in one sentence with the next step.

use std::io::ErrorKind;
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use sqlx::any::AnyConnectOptions;
use sqlx::migrate::MigrateError;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AnyConnection, Connection, Executor};

use super::availability::is_unavailable;
use super::{ACQUIRE_TIMEOUT, migrations};
use crate::base::private_files;

/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(200);

/// Creates the file of a SQLite URL, readable by its owner only; SQLite gives the files beside it the same mode. An
/// existing file is left as it is, and a failure is reported when the file is opened.
pub(super) fn make_file(url: &str) {
    if let Ok(options) = SqliteConnectOptions::from_str(url) {
        let _ = private_files::file(options.get_filename());
    }
}

/// Connects once, runs these statements and migrates the tables. A pool would retry and lose the cause. The error
/// says what is wrong and what to do.
pub(super) async fn prepare(options: &AnyConnectOptions, statements: &'static str) -> Result<(), String> {
    let mut connection = connect(options).await.map_err(|error| why(&error))?;
    if !statements.is_empty() {
        connection.execute(statements).await.map_err(|error| why(&error))?;
    }
    migrate(&mut connection, None).await?;
    connection.close().await.map_err(|error| why(&error))
}

/// Migrates the tables to this version, or to the latest.
pub(super) async fn migrate(connection: &mut AnyConnection, to: Option<i64>) -> Result<(), String> {
    let migrated = migrations::migrator().run_direct(to, connection, false).await;
    migrated.map_err(|error| why_not_migrated(&error))
}

/// Connects, with retries: a database that starts together with the server may not be up yet.
pub(super) async fn connect(options: &AnyConnectOptions) -> Result<AnyConnection, sqlx::Error> {
    let start = Instant::now();
    let mut is_told = false;
    loop {
        let connected = tokio::time::timeout(ACQUIRE_TIMEOUT, AnyConnection::connect_with(options)).await;
        match connected.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
            Err(error) if is_unavailable(&error) && start.elapsed() < ACQUIRE_TIMEOUT => {
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

/// Explains an error: what is wrong and what to do.
pub(super) fn why(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
            "nothing listens there; start PostgreSQL, or correct the address".to_owned()
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

/// The next step for an error code: five characters from PostgreSQL, a number from SQLite.
fn next_step(code: &str) -> &'static str {
    match code {
        "3D000" => "create it with `createdb NAME`, or correct the name",
        "28P01" | "28000" => "correct the user and the password",
        "42501" => "let its user create tables",
        "53300" => "raise max_connections of PostgreSQL, or stop what takes them",
        "57P01" | "57P02" | "57P03" => "PostgreSQL is starting or stopping, so try again",
        _ if code.len() == 5 => "look into the log of PostgreSQL",
        // The lower byte is the primary result code, the upper ones are details.
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
