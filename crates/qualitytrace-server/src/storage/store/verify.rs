//! Verification of a database: pages, tables, references, texts, traces, and secrets that no key opens. Read-only.

use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Row as _};

use super::check::{Check, chunk_fault, event_fault};
use super::maintenance::{MaintenanceError, migration, snapshot};
use super::sealed::{COLUMNS, Column, secrets_of};
use super::tables::TABLES;
use super::{Backend, Store, migrations};
use crate::storage::vault::Vault;

/// Rows between two progress reports.
const PROGRESS_ROWS: u64 = 1_000;

/// Foreign keys to verify: table, id, and the query for its parent row.
#[rustfmt::skip]
const REFERENCES: &[(&str, &str, &str)] = &[
    ("definitions", "kind || '/' || id", "SELECT 1 FROM resources p WHERE p.kind = t.kind AND p.id = t.id"),
    ("facets", "kind || '/' || id", "SELECT 1 FROM resources p WHERE p.kind = t.kind AND p.id = t.id"),
    ("runs", "test_id", "SELECT 1 FROM resources p WHERE p.kind = t.kind AND p.id = t.test_id"),
    ("run_numbers", "test_id", "SELECT 1 FROM resources p WHERE p.kind = t.kind AND p.id = t.test_id"),
    ("run_events", "test_id", "SELECT 1 FROM runs p WHERE p.test_id = t.test_id AND p.number = t.number"),
    ("histories", "test_id", "SELECT 1 FROM resources p WHERE p.kind = t.kind AND p.id = t.test_id"),
    ("series", "test_id", "SELECT 1 FROM runs p WHERE p.test_id = t.test_id AND p.number = t.first"),
    ("suite_runs", "suite_id", "SELECT 1 FROM resources p WHERE p.kind = t.kind AND p.id = t.suite_id"),
    ("suite_run_numbers", "suite_id", "SELECT 1 FROM resources p WHERE p.kind = t.kind AND p.id = t.suite_id"),
    ("suite_run_events", "suite_id", "SELECT 1 FROM suite_runs p WHERE p.suite_id = t.suite_id AND p.number = t.number"),
    ("suite_run_steps", "suite_id", "SELECT 1 FROM suite_runs p WHERE p.suite_id = t.suite_id AND p.number = t.number"),
    ("suite_run_steps", "test_id", "SELECT 1 FROM runs p WHERE p.test_id = t.test_id AND p.number = t.run"),
];

/// Runs all checks on one snapshot, and reports each one when it is done.
pub fn verify<'a>(
    url: &'a str,
    vault: &'a Vault,
    progress: &'a mut (dyn FnMut(&str, u64) + Send),
    done: &'a mut (dyn FnMut(Check) + Send),
) -> BoxFuture<'a, Result<(), MaintenanceError>> {
    Box::pin(run_checks(url, vault, progress, done))
}

async fn run_checks(
    url: &str,
    vault: &Vault,
    progress: &mut (dyn FnMut(&str, u64) + Send),
    done: &mut (dyn FnMut(Check) + Send),
) -> Result<(), MaintenanceError> {
    let mut snapshot = snapshot(url).await?;
    let mut tables = Check::new("tables");
    let (found, known) = (migration(&mut snapshot, url).await?, migrations::latest());
    tables.looked_at = TABLES.len() as u64;
    match found.cmp(&known) {
        std::cmp::Ordering::Less => tables.find(format!(
            "they are of version {found}, this program has {known}: the next start of the server brings them up to date"
        )),
        std::cmp::Ordering::Greater => tables.find(format!(
            "they are of version {found}, which is newer than this program ({known}); use a newer one"
        )),
        std::cmp::Ordering::Equal => {}
    }
    let is_current = found == known;
    done(tables);
    if Store::check(url)? == Backend::File {
        done(pages(&mut snapshot).await);
    }
    if is_current {
        done(references(&mut snapshot).await);
        done(texts(&mut snapshot, progress).await);
        done(traces(&mut snapshot, progress).await);
        done(secrets(&mut snapshot, vault, progress).await);
    }
    // The snapshot is read-only, so a failure to close it does not matter.
    let _ = snapshot.close().await;
    Ok(())
}

async fn pages(connection: &mut AnyConnection) -> Check {
    let mut check = Check::new("pages");
    let pages: Result<i64, _> = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut *connection).await;
    check.looked_at = pages.map_or(0, super::chunks::unsigned);
    match sqlx::query_scalar::<_, String>("PRAGMA integrity_check").fetch_all(&mut *connection).await {
        Ok(said) => said.into_iter().filter(|said| said != "ok").for_each(|said| check.find(said)),
        Err(error) => check.find(error.to_string()),
    }
    check
}

async fn references(connection: &mut AnyConnection) -> Check {
    let mut check = Check::new("references");
    for (table, name, parent) in REFERENCES {
        let text = format!("SELECT {name} FROM {table} t WHERE NOT EXISTS ({parent}) LIMIT 1000");
        let found: Result<Vec<String>, _> =
            sqlx::query_scalar(AssertSqlSafe(text)).fetch_all(&mut *connection).await;
        check.looked_at += 1;
        match found {
            Ok(found) => found
                .into_iter()
                .for_each(|id| check.find(format!("a row of {table} belongs to `{id}`, which is not there"))),
            Err(error) => check.find(format!("{table}: {error}")),
        }
    }
    check
}

/// Checks that every event is JSON and that the tables of events can be read to the end.
async fn texts(connection: &mut AnyConnection, progress: &mut (dyn FnMut(&str, u64) + Send)) -> Check {
    let mut check = Check::new("events");
    for (table, id) in [("run_events", "test_id"), ("suite_run_events", "suite_id")] {
        let text = format!("SELECT {id}, number, body FROM {table}");
        let mut rows = sqlx::query(AssertSqlSafe(text)).fetch(&mut *connection);
        loop {
            let row = match rows.try_next().await {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) => {
                    check.find(format!("{table}: {error}"));
                    break;
                }
            };
            check.looked_at += 1;
            if check.looked_at.is_multiple_of(PROGRESS_ROWS) {
                progress(check.name, check.looked_at);
            }
            let (id, number) = (row.try_get::<String, _>(0), row.try_get::<i64, _>(1));
            let body: Result<String, _> = row.try_get(2);
            let (id, number) = (id.unwrap_or_default(), number.unwrap_or_default());
            if let Some(fault) = event_fault(&id, number, &body.unwrap_or_default()) {
                check.find(fault);
            }
        }
    }
    check
}

async fn traces(connection: &mut AnyConnection, progress: &mut (dyn FnMut(&str, u64) + Send)) -> Check {
    let mut check = Check::new("traces");
    let mut bytes = 0_i64;
    {
        let mut rows = sqlx::query("SELECT trace_id, size, data FROM chunks").fetch(&mut *connection);
        loop {
            let row = match rows.try_next().await {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) => {
                    check.find(error.to_string());
                    break;
                }
            };
            check.looked_at += 1;
            if check.looked_at.is_multiple_of(PROGRESS_ROWS) {
                progress(check.name, check.looked_at);
            }
            bytes += row.try_get::<i64, _>(1).unwrap_or_default();
            let data: Vec<u8> = row.try_get(2).unwrap_or_default();
            let id: Vec<u8> = row.try_get(0).unwrap_or_default();
            if let Some(fault) = chunk_fault(&id, &data) {
                check.find(fault);
            }
        }
    }
    let total: Result<i64, _> = sqlx::query_scalar("SELECT value FROM totals WHERE name = 'retained_bytes'")
        .fetch_one(&mut *connection)
        .await;
    match total {
        Ok(total) if total == bytes => {}
        Ok(total) => check.find(format!("their size is {bytes} bytes, and {total} are noted")),
        Err(error) => check.find(error.to_string()),
    }
    check
}

async fn secrets(
    connection: &mut AnyConnection,
    vault: &Vault,
    progress: &mut (dyn FnMut(&str, u64) + Send),
) -> Check {
    let mut check = Check::new("secrets");
    for column in COLUMNS {
        let mut rows = sqlx::query(AssertSqlSafe(column.select_all())).fetch(&mut *connection);
        loop {
            let cell =
                match rows.try_next().await.and_then(|row| row.map(|row| Column::cell(&row)).transpose()) {
                    Ok(Some(cell)) => cell,
                    Ok(None) => break,
                    Err(error) => {
                        check.find(error.to_string());
                        break;
                    }
                };
            check.looked_at += 1;
            if check.looked_at.is_multiple_of(PROGRESS_ROWS) {
                progress(check.name, check.looked_at);
            }
            let place = column.place(&cell);
            let sealed = secrets_of(column, &cell);
            if sealed.into_iter().any(|sealed| vault.unseal(&place, sealed).is_err()) {
                check.find(format!(
                    "{} was encrypted with another key; name that key, or drop what it encrypts with `qualitytrace secrets forget`",
                    column.name_of(&cell)
                ));
            }
        }
    }
    check
}
