//! A day of runs in fast motion: the clocks of the server go forward by an hour, 24 times.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use qualitytrace_testing::{DEADLINE, eventually};
use sqlx::{AssertSqlSafe, Connection as _, Row as _};

use super::shifted_time::ShiftedTime;
use crate::late_spans_load::client::{Client, Started};
use crate::late_spans_load::system::{Deliveries, Leaf, System};

/// Runs in an hour.
const RUNS: u64 = 40;
/// Hours for which runs are kept, with their traces.
const KEPT: u64 = 3;
/// The hour after which nothing grows any more.
const STEADY: u64 = 8;
const MANNER: Deliveries = Deliveries { delay: Duration::from_millis(20), leaf: Leaf::Comes };

/// The rows of each table, and the pages of them all.
async fn rows(database: &str) -> BTreeMap<String, i64> {
    let mut connection = sqlx::SqliteConnection::connect(database).await.unwrap();
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    let tables = sqlx::query(tables).fetch_all(&mut connection).await.unwrap();
    // The log of the database has pages that are not in its file yet.
    let pages = sqlx::query_scalar(
        "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count",
    );
    let mut rows =
        BTreeMap::from([("pages in use".to_owned(), pages.fetch_one(&mut connection).await.unwrap())]);
    for table in tables.iter().map(|row| row.get::<String, _>(0)) {
        let count = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
        rows.insert(table, sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap());
    }
    rows
}

#[tokio::test]
async fn a_day_of_runs_leaves_no_more_than_some_hours_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut time = ShiftedTime::new(folder.path());
    let database = format!("sqlite://{}", folder.path().join("day.db").display());
    let retention = format!("{KEPT}h");
    let arguments =
        ["--runs.retention", &retention, "--limits.retention", "1h", "--audit.retention", &retention];
    let mut server = time.serve(&database, &arguments).await;
    let system = System::start(vec![server.url("")], MANNER).await;
    let client = Client::new(server.url(""));
    client.put_settle("100ms").await;
    client.put_test("t", &system.url).await;
    let (mut steady, mut log) = (None, String::new());
    for hour in 1..=24 {
        let client = Client::new(server.url(""));
        let started: Vec<Started> = join_all((0..RUNS).map(|_| client.start("t", false, false))).await;
        join_all(started.iter().map(|run| client.events(run))).await;
        for run in &started {
            assert_eq!(system.known(&run.trace).requests, 1, "run {}", run.number);
        }
        eventually(DEADLINE, "all spans are delivered", async || {
            started.iter().all(|run| system.known(&run.trace).under_way == 0)
        })
        .await;
        time.pass(Duration::from_hours(1));
        let most = i64::try_from(KEPT * RUNS).unwrap();
        eventually(DEADLINE, format!("old runs are removed in hour {hour}"), async || {
            // A request wakes the server, which then sees what is due. Connections of the last hour are closed.
            Client::new(server.url("")).shown("t", started[0].number).await;
            let runs = rows(&database).await["runs"];
            if runs <= most { Ok(()) } else { Err(runs) }
        })
        .await;
        log += &server.log_so_far();
        let memory = server.memory_mib("VmRSS:");
        if hour == STEADY {
            steady = Some((rows(&database).await, memory));
        }
    }
    let (rows_then, memory_then) = steady.unwrap();
    let rows_now = rows(&database).await;
    for (table, now) in &rows_now {
        let then = rows_then[table];
        assert!(*now <= then + then / 2 + 20, "{table} had {then} rows after {STEADY} hours, and has {now}");
    }
    let memory_now = server.memory_mib("VmRSS:");
    assert!(memory_now <= memory_then + 32, "the server took {memory_then} MiB, and takes {memory_now}");
    assert!(!log.contains(" ERROR "), "{log}");
}
