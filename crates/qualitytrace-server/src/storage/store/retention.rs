//! Retention: runs that are too old or too many, and row counts.

use std::collections::BTreeMap;

use qualitytrace_core::run::State;
use qualitytrace_core::time::Timestamp;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::chunks::{signed, unsigned};
use super::runs::{RUNS, SUITE_RUNS, Table};
use super::{Error, Store, failed};

/// The tables with data of users and exporters.
const TABLES: [&str; 12] = [
    "chunks",
    "resources",
    "definitions",
    "runs",
    "run_numbers",
    "run_events",
    "histories",
    "series",
    "suite_runs",
    "suite_run_numbers",
    "suite_run_events",
    "suite_run_steps",
];

/// Which kind of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOf {
    /// Runs of tests.
    Tests,
    /// Runs of suites.
    Suites,
}

impl RunsOf {
    const fn table(self) -> Table {
        match self {
            Self::Tests => RUNS,
            Self::Suites => SUITE_RUNS,
        }
    }
}

impl Store {
    /// Lists some of the runs that have ended and were requested before a point in time, oldest first.
    pub async fn runs_before(
        &self,
        of: RunsOf,
        before: Timestamp,
        limit: u64,
    ) -> Result<Vec<(String, u64)>, Error> {
        let failed = failed("look for old runs");
        let Table { name, id, .. } = of.table();
        let text = format!(
            "SELECT {id}, number FROM {name} WHERE created < $1 AND state NOT IN ({}) ORDER BY created LIMIT $2",
            unfinished_states()
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(signed(before.as_nanos()))
            .bind(signed(limit))
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        rows.iter().map(run).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Lists some of the runs that have ended and are older than the latest `most` of their test or suite.
    pub async fn surplus_runs(&self, of: RunsOf, most: u64, limit: u64) -> Result<Vec<(String, u64)>, Error> {
        let failed = failed("look for surplus runs");
        let Table { name, id, numbers, .. } = of.table();
        // SQLite reads the tables of a CROSS JOIN in the written order.
        let text = format!(
            "SELECT r.{id}, r.number FROM {numbers} n CROSS JOIN {name} r
             WHERE n.number > $1 AND r.{id} = n.{id} AND r.number <= n.number - $1 AND r.state NOT IN ({}) LIMIT $2",
            unfinished_states()
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(signed(most))
            .bind(signed(limit))
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        rows.iter().map(run).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Returns the latest time of what is stored: of deliveries, runs and changes. `None` if there is nothing.
    pub async fn last_written(&self) -> Result<Option<Timestamp>, Error> {
        let failed = failed("look for the latest time");
        let mut latest = 0;
        // Each is one step in an index.
        for text in [
            "SELECT COALESCE(MAX(arrived), 0) FROM chunks",
            "SELECT COALESCE(MAX(created), 0) FROM runs",
            "SELECT COALESCE(MAX(at), 0) FROM audit",
        ] {
            let found: i64 = sqlx::query_scalar(text).fetch_one(&self.read).await.map_err(&failed)?;
            latest = latest.max(unsigned(found));
        }
        Ok((latest > 0).then(|| Timestamp::from_nanos(latest)))
    }

    /// Counts the rows of each table.
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

/// The states of runs in progress, as an SQL list; no user input. Asking for the final states instead is not
/// selective: the database would scan most of the table.
fn unfinished_states() -> String {
    let states = State::ALL.into_iter().filter(|state| !state.is_final());
    states.map(|state| format!("'{}'", state.as_str())).collect::<Vec<_>>().join(", ")
}

fn run(row: &AnyRow) -> Result<(String, u64), sqlx::Error> {
    Ok((row.try_get(0)?, unsigned(row.try_get(1)?)))
}
