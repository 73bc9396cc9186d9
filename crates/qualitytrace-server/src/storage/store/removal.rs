//! Deletion of resources and runs with everything that belongs to them.
//!
//! Removals are serialized: each begins by locking the same row. Of two concurrent removals of the last runs of one
//! trace, each would otherwise leave the trace to the other; and two that share many rows could deadlock.

use std::collections::BTreeMap;
use std::time::Duration;

use qualitytrace_core::definition::Kind;
use sqlx::{Any, AssertSqlSafe, Row, Transaction};

use super::chunks::signed;
use super::runs::{RUNS, SUITE_RUNS, Table};
use super::upsert::NEVER_RUN;
use super::{Error, Store, failed};
use crate::base::clock;

/// How long the run number of a deleted test or suite is kept; far longer than its last run can be in progress.
const NUMBERS_KEPT: Duration = Duration::from_hours(7 * 24);
/// Traces that one statement removes.
const TRACES_AT_ONCE: usize = 500;

/// Which runs of a suite: one, or all of them.
#[derive(Debug, Clone, Copy)]
enum SuiteRuns {
    One(u64),
    All,
}

impl Store {
    /// Deletes a resource and everything that belongs to it. `false` when it does not exist.
    pub async fn delete(&self, kind: Kind, id: &str) -> Result<bool, Error> {
        let failed = failed("delete a definition");
        let mut transaction = self.begin_removal().await.map_err(&failed)?;
        // A new run locks this row first, so none is added from here on.
        let found = sqlx::query("UPDATE resources SET version = version WHERE kind = $1 AND id = $2")
            .bind(kind.as_str())
            .bind(id)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        if found.rows_affected() == 0 {
            return Ok(false);
        }
        let traces = match kind {
            Kind::Test => sqlx::query_scalar("DELETE FROM runs WHERE test_id = $1 RETURNING trace_id")
                .bind(id)
                .fetch_all(&mut *transaction)
                .await
                .map_err(&failed)?,
            Kind::TestSuite => {
                self.delete_step_runs(&mut transaction, id, SuiteRuns::All).await.map_err(&failed)?
            }
            _ => Vec::new(),
        };
        retire_number(&mut transaction, kind, id).await.map_err(&failed)?;
        // Versions, runs, events and histories are deleted by cascade.
        sqlx::query("DELETE FROM resources WHERE kind = $1 AND id = $2")
            .bind(kind.as_str())
            .bind(id)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        delete_traces(&mut transaction, &traces).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        Ok(true)
    }

    /// Deletes a run, its events and its trace. `false` when it does not exist.
    pub async fn delete_run(&self, test: &str, number: u64) -> Result<bool, Error> {
        let failed = failed("delete a run");
        let mut transaction = self.begin_removal().await.map_err(&failed)?;
        let trace: Option<Vec<u8>> =
            sqlx::query_scalar("DELETE FROM runs WHERE test_id = $1 AND number = $2 RETURNING trace_id")
                .bind(test)
                .bind(signed(number))
                .fetch_optional(&mut *transaction)
                .await
                .map_err(&failed)?;
        let Some(trace) = trace else {
            return Ok(false);
        };
        count_off(&mut transaction, RUNS, test, 1).await.map_err(&failed)?;
        delete_traces(&mut transaction, &[trace]).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        Ok(true)
    }

    /// Deletes a suite run with the runs that it started, their events and their traces. `false` when it does not
    /// exist.
    pub async fn delete_suite_run(&self, suite: &str, number: u64) -> Result<bool, Error> {
        let failed = failed("delete a run of a suite");
        let mut transaction = self.begin_removal().await.map_err(&failed)?;
        let traces =
            self.delete_step_runs(&mut transaction, suite, SuiteRuns::One(number)).await.map_err(&failed)?;
        let done = sqlx::query("DELETE FROM suite_runs WHERE suite_id = $1 AND number = $2")
            .bind(suite)
            .bind(signed(number))
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        count_off(&mut transaction, SUITE_RUNS, suite, 1).await.map_err(&failed)?;
        delete_traces(&mut transaction, &traces).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        Ok(true)
    }

    /// Begins a removal; a second one waits until this transaction ends.
    pub(super) async fn begin_removal(&self) -> Result<Transaction<'static, Any>, sqlx::Error> {
        let mut transaction = self.write.begin().await?;
        sqlx::query("UPDATE totals SET value = value + 1 WHERE name = 'removals'")
            .execute(&mut *transaction)
            .await?;
        Ok(transaction)
    }

    /// Deletes the runs that runs of a suite started, and returns their traces.
    async fn delete_step_runs(
        &self,
        transaction: &mut Transaction<'_, Any>,
        suite: &str,
        which: SuiteRuns,
    ) -> Result<Vec<Vec<u8>>, sqlx::Error> {
        let number = match which {
            SuiteRuns::One(number) => signed(number),
            SuiteRuns::All => 0,
        };
        if self.is_shared() {
            // The transaction that adds a step locks the suite run first and then the test. The same order here
            // prevents a deadlock.
            sqlx::query(
                "SELECT number FROM suite_runs WHERE suite_id = $1 AND ($2 = 0 OR number = $2) FOR UPDATE",
            )
            .bind(suite)
            .bind(number)
            .fetch_all(&mut **transaction)
            .await?;
        }
        let rows = sqlx::query(
            "DELETE FROM runs WHERE (test_id, number) IN
             (SELECT test_id, run FROM suite_run_steps WHERE suite_id = $1 AND ($2 = 0 OR number = $2))
             RETURNING test_id, trace_id",
        )
        .bind(suite)
        .bind(number)
        .fetch_all(&mut **transaction)
        .await?;
        let mut by_test: BTreeMap<String, i64> = BTreeMap::new();
        let mut traces = Vec::with_capacity(rows.len());
        for row in rows {
            *by_test.entry(row.try_get("test_id")?).or_default() += 1;
            traces.push(row.try_get("trace_id")?);
        }
        for (test, gone) in by_test {
            count_off(transaction, RUNS, &test, gone).await?;
        }
        Ok(traces)
    }
}

/// Keeps the last run number of what is being deleted, and forgets those of long ago.
async fn retire_number(
    transaction: &mut Transaction<'_, Any>,
    kind: Kind,
    of: &str,
) -> Result<(), sqlx::Error> {
    let Some(Table { id, numbers, .. }) = [RUNS, SUITE_RUNS].into_iter().find(|table| table.kind == kind)
    else {
        return Ok(());
    };
    let now = clock::now();
    let text = format!(
        "INSERT INTO retired_numbers (kind, id, number, deleted)
         SELECT kind, {id}, number, $1 FROM {numbers} WHERE {id} = $2
         ON CONFLICT (kind, id) DO UPDATE SET number = excluded.number, deleted = excluded.deleted"
    );
    let keep = sqlx::query(AssertSqlSafe(text)).bind(signed(now.as_nanos())).bind(of);
    keep.execute(&mut **transaction).await?;
    let long_ago = clock::trusted() - NUMBERS_KEPT;
    sqlx::query("DELETE FROM retired_numbers WHERE deleted < $1")
        .bind(signed(long_ago.as_nanos()))
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

/// Subtracts removed runs from the stored count, and updates the time of the last run.
async fn count_off(
    transaction: &mut Transaction<'_, Any>,
    Table { name, id, numbers, kind, .. }: Table,
    of: &str,
    gone: i64,
) -> Result<(), sqlx::Error> {
    // In the lock order of new runs, to prevent deadlocks.
    let latest = format!("SELECT created FROM {name} WHERE {id} = $1 ORDER BY number DESC LIMIT 1");
    let text = format!(
        "UPDATE resources SET last_run = COALESCE(({latest}), {NEVER_RUN}) WHERE kind = '{}' AND id = $1",
        kind.as_str()
    );
    sqlx::query(AssertSqlSafe(text)).bind(of).execute(&mut **transaction).await?;
    let text = format!("UPDATE {numbers} SET stored = stored - $1 WHERE {id} = $2");
    sqlx::query(AssertSqlSafe(text)).bind(gone).bind(of).execute(&mut **transaction).await?;
    if kind == Kind::Test {
        let ended = "SELECT MAX(number) FROM runs WHERE test_id = $1 AND outcome <> ''";
        let outcome = format!("SELECT outcome FROM runs WHERE test_id = $1 AND number = ({ended})");
        let text = format!(
            "UPDATE run_numbers SET ended = COALESCE(({ended}), 0), outcome = COALESCE(({outcome}), '') WHERE test_id = $1"
        );
        sqlx::query(AssertSqlSafe(text)).bind(of).execute(&mut **transaction).await?;
    }
    Ok(())
}

/// Deletes the chunks of these traces, unless another run refers to them: a rerun judges the trace of an earlier
/// run.
async fn delete_traces(
    transaction: &mut Transaction<'_, Any>,
    traces: &[Vec<u8>],
) -> Result<(), sqlx::Error> {
    let mut gone = 0;
    for traces in traces.chunks(TRACES_AT_ONCE) {
        let marks: Vec<String> = (1..=traces.len()).map(|at| format!("${at}")).collect();
        // Only numbered placeholders become part of this SQL.
        let text = format!(
            "DELETE FROM chunks WHERE trace_id IN ({})
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.trace_id = chunks.trace_id) RETURNING size",
            marks.join(", ")
        );
        let mut query = sqlx::query_scalar(AssertSqlSafe(text));
        for trace in traces {
            query = query.bind(trace);
        }
        let sizes: Vec<i64> = query.fetch_all(&mut **transaction).await?;
        gone += sizes.iter().sum::<i64>();
    }
    if gone > 0 {
        sqlx::query("UPDATE totals SET value = value - $1 WHERE name = 'retained_bytes'")
            .bind(gone)
            .execute(&mut **transaction)
            .await?;
    }
    Ok(())
}
