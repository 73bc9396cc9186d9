//! What has had its time, and what there is in all.

use std::collections::BTreeMap;

use qualitytrace_core::run::State;
use qualitytrace_core::time::Timestamp;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed};

/// The tables that hold what users and senders brought.
const TABLES: [&str; 7] =
    ["chunks", "resources", "definitions", "runs", "run_numbers", "run_events", "histories"];

impl Store {
    /// Some of the runs that are over and were asked for before a point in time, oldest first.
    pub async fn runs_before(&self, before: Timestamp, limit: u64) -> Result<Vec<(String, u64)>, Error> {
        let failed = failed("look for old runs");
        let text = format!(
            "SELECT test_id, number FROM runs WHERE created < $1 AND state IN ({}) ORDER BY created LIMIT $2",
            final_states()
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(signed(before.as_nanos()))
            .bind(signed(limit))
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        rows.iter().map(run).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Some of the runs that are over and older than the latest `most` of their test.
    pub async fn surplus_runs(&self, most: u64, limit: u64) -> Result<Vec<(String, u64)>, Error> {
        let failed = failed("look for surplus runs");
        let text = format!(
            "SELECT r.test_id, r.number FROM run_numbers n
             JOIN runs r ON r.test_id = n.test_id AND r.number <= n.number - $1
             WHERE r.state IN ({}) LIMIT $2",
            final_states()
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(signed(most))
            .bind(signed(limit))
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        rows.iter().map(run).collect::<Result<_, _>>().map_err(&failed)
    }

    /// How many rows each table has.
    pub async fn row_counts(&self) -> Result<BTreeMap<&'static str, u64>, Error> {
        let mut counts = BTreeMap::new();
        for table in TABLES {
            let text = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
            let count: i64 =
                sqlx::query_scalar(text).fetch_one(&self.read).await.map_err(failed("count rows"))?;
            counts.insert(table, unsigned(count));
        }
        Ok(counts)
    }
}

/// The words of the states in which a run is over; nothing that a user wrote.
fn final_states() -> String {
    let states = State::ALL.into_iter().filter(|state| state.is_final());
    states.map(|state| format!("'{}'", state.as_str())).collect::<Vec<_>>().join(", ")
}

fn run(row: &AnyRow) -> Result<(String, u64), sqlx::Error> {
    Ok((row.try_get("test_id")?, unsigned(row.try_get("number")?)))
}
