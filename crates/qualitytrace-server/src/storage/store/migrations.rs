//! The migrations of the tables, part of the program.
//!
//! `sqlx::migrate!` would do the same, but its macros compile both database drivers once more for the build host.

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Embeds files of the folder `migrations` by their names without extension.
macro_rules! embedded {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../migrations/", $name, ".sql")))),+]
    };
}

/// The name and the SQL text of each migration. What was released is never changed: databases keep its checksum.
const MIGRATIONS: [(&str, &str); 8] = embedded![
    "0001_traces_tests_runs",
    "0002_removals_and_counts",
    "0003_secret_outputs",
    "0004_never_run",
    "0005_clients_and_audit",
    "0006_outcomes_of_runs",
    "0007_retired_numbers",
    "0008_filters_of_lists",
];

/// All migrations, in order.
pub(super) fn migrator() -> Migrator {
    Migrator::with_migrations(MIGRATIONS.into_iter().filter_map(migration).collect())
}

/// The latest migration that this program knows.
pub(super) fn latest() -> i64 {
    migrator().iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Reads version and description off the name, as sqlx does: `0004_never_run` is version 4, `never run`.
fn migration((name, sql): (&'static str, &'static str)) -> Option<Migration> {
    let (version, description) = name.split_once('_')?;
    let (version, description) = (version.parse().ok()?, description.replace('_', " ").into());
    Some(Migration::new(version, description, MigrationType::Simple, SqlStr::from_static(sql), false))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use sqlx::{Connection as _, Executor as _};

    use super::*;

    #[test]
    fn every_file_is_embedded_and_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let files: BTreeSet<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let embedded: BTreeSet<String> = MIGRATIONS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(embedded, files);
        let versions: Vec<i64> = migrator().iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=latest()).collect::<Vec<_>>());
        assert_eq!(versions.len(), files.len());
    }

    /// The outcomes and durations of runs that were stored before these were columns.
    #[tokio::test]
    async fn earlier_runs_get_the_outcome_that_their_events_tell() {
        let mut connection = sqlx::SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let at = MIGRATIONS.iter().position(|(name, _)| *name == "0006_outcomes_of_runs").unwrap();
        for (_, sql) in &MIGRATIONS[..at] {
            connection.execute(*sql).await.unwrap();
        }
        let tenant = "x\u{1f}t";
        let resource = "INSERT INTO resources VALUES ('Test', $1, 'x', 1, 1, '', '', x'', x'', 1, '{}')";
        connection.execute(sqlx::query(resource).bind(tenant)).await.unwrap();
        let judged =
            |outcome: &str| format!(r#"{{"what":"judged","verdict":{{"outcome":"{outcome}","specs":[]}}}}"#);
        let late = r#"{"what":"late","spans":1,"before":"inconclusive","verdict":{"outcome":"failed"}}"#;
        let runs = [
            ("FINISHED", 0, vec![judged("passed")], "passed", 90),
            ("FINISHED", 2, vec![judged("failed")], "failed", 90),
            ("FINISHED", 1, vec![judged("inconclusive")], "inconclusive", 90),
            ("FINISHED", 1, vec![judged("inconclusive"), late.to_owned()], "failed", 90),
            ("STOPPED", 0, vec![r#"{"what":"stopped"}"#.to_owned()], "stopped", 90),
            ("TRACE_FAILED", 0, vec![r#"{"what":"noTrace","message":""}"#.to_owned()], "broken", 90),
            ("EXECUTING", 0, vec![r#"{"what":"resolving"}"#.to_owned()], "", -1),
        ];
        for (number, (state, failed, events, ..)) in (1_i64..).zip(&runs) {
            let run = "INSERT INTO runs (test_id, number, test_version, trace_id, state, created, variables, request, \
                       failed, turn, owner) VALUES ($1, $2, 1, x'', $3, 10, '{}', '{}', $4, 1, '')";
            let run = sqlx::query(run).bind(tenant).bind(number).bind(*state).bind(*failed);
            connection.execute(run).await.unwrap();
            for (seq, body) in (1_i64..).zip(events) {
                let event = "INSERT INTO run_events VALUES ($1, $2, $3, $4, $5)";
                let event = sqlx::query(event).bind(tenant).bind(number).bind(seq).bind(99 + seq).bind(body);
                connection.execute(event).await.unwrap();
            }
        }
        connection.execute(MIGRATIONS[at].1).await.unwrap();
        let rows: Vec<(String, String, i64)> =
            sqlx::query_as("SELECT tenant, outcome, duration FROM runs ORDER BY number")
                .fetch_all(&mut connection)
                .await
                .unwrap();
        let expected = runs.map(|(.., outcome, duration)| ("x".to_owned(), outcome.to_owned(), duration));
        assert_eq!(rows, expected);
    }
}
