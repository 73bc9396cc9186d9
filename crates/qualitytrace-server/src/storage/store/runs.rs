//! Runs of tests: rows, states, summaries and learned histories.

use qualitytrace_core::definition::Kind;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed, rows_written};

/// A run to be stored.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The test.
    pub test: String,
    /// The version of the test that is run, even if the test changes meanwhile.
    pub test_version: u64,
    /// The trace that the trigger will cause.
    pub trace: TraceId,
    /// The initial state.
    pub state: &'static str,
    /// When it was requested.
    pub created: Timestamp,
    /// Variables given to this run, as a JSON object.
    pub variables: String,
    /// The rest of the request, as JSON.
    pub request: String,
    /// The server that executes it; empty while it is queued.
    pub owner: String,
    /// The client that requested it: a token or an address; empty for the server itself.
    pub client: String,
    /// The suite run that it is a step of.
    pub step_of: Option<StepOf>,
    /// Its first event, as JSON.
    pub event: String,
}

/// The suite run that starts a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOf {
    /// The suite.
    pub suite: String,
    /// The number of its run.
    pub number: u64,
    /// The server that starts its steps.
    pub owner: String,
}

/// A stored run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRun {
    /// The test.
    pub test: String,
    /// The number within the test, from 1.
    pub number: u64,
    /// The version of the test that is run.
    pub test_version: u64,
    /// The trace that the trigger causes.
    pub trace: TraceId,
    /// The current state.
    pub state: String,
    /// When it was requested.
    pub created: Timestamp,
    /// Variables given to this run, as a JSON object.
    pub variables: String,
    /// The rest of the request, as JSON.
    pub request: String,
}

/// A summary of the runs of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSummary {
    /// The number of runs.
    pub runs: u64,
    /// When the last one was requested.
    pub last: Option<Timestamp>,
    /// Passed assertions of the last run.
    pub passed: u64,
    /// Failed assertions of the last run.
    pub failed: u64,
}

/// A table of runs, and its column with the id of the test or suite.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    /// The kind of resource that is run.
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    pub(super) id: &'static str,
    /// The table of their events.
    pub(super) events: &'static str,
    /// The table with the last number and the count of stored runs.
    pub(super) numbers: &'static str,
}

/// The runs of tests.
pub(super) const RUNS: Table =
    Table { kind: Kind::Test, name: "runs", id: "test_id", events: "run_events", numbers: "run_numbers" };

/// The runs of suites.
pub(super) const SUITE_RUNS: Table = Table {
    kind: Kind::TestSuite,
    name: "suite_runs",
    id: "suite_id",
    events: "suite_run_events",
    numbers: "suite_run_numbers",
};

impl Table {
    /// The condition for the row of a run of this owner, with the places of these three parameters. Every write of a
    /// server to one of its runs has it: a server that was given up, or whose run was deleted, changes no row.
    pub(super) fn owned(&self, [of, number, owner]: [usize; 3]) -> String {
        format!("{} = ${of} AND number = ${number} AND owner = ${owner}", self.id)
    }
}

/// The statement that moves a run of this owner from one state to another. It changes no row when the run is not in
/// the first state, or belongs to another owner.
pub(super) fn move_state<'q>(
    table: Table,
    (of, number): (&'q str, u64),
    owner: &'q str,
    (from, to): (&'q str, &'q str),
) -> Query<'q, sqlx::Any, AnyArguments> {
    let text =
        format!("UPDATE {} SET state = $1 WHERE {} AND state = $5", table.name, table.owned([2, 3, 4]));
    sqlx::query(AssertSqlSafe(text)).bind(to).bind(of).bind(signed(number)).bind(owner).bind(from)
}

/// Gives a new run its number, and counts it. The number of a run is not given again, even when its test or suite is
/// deleted and created again.
pub(super) async fn next_number(
    connection: &mut AnyConnection,
    Table { kind, id, numbers, .. }: Table,
    of: &str,
) -> Result<i64, sqlx::Error> {
    let text = format!(
        "INSERT INTO {numbers} ({id}, number, stored)
         VALUES ($1, 1 + COALESCE((SELECT number FROM retired_numbers WHERE kind = '{}' AND id = $1), 0), 1)
         ON CONFLICT ({id}) DO UPDATE SET number = {numbers}.number + 1, stored = {numbers}.stored + 1
         RETURNING number",
        kind.as_str()
    );
    sqlx::query_scalar(AssertSqlSafe(text)).bind(of).fetch_one(connection).await
}

/// Stores how many assertions of a run passed and failed.
pub(super) async fn count<'e>(
    executor: impl sqlx::Executor<'e, Database = sqlx::Any>,
    Table { name, id, .. }: Table,
    (of, number): (&str, u64),
    (passed, failed): (u64, u64),
) -> Result<(), sqlx::Error> {
    let text = format!("UPDATE {name} SET passed = $1, failed = $2 WHERE {id} = $3 AND number = $4");
    let query = sqlx::query(AssertSqlSafe(text)).bind(signed(passed)).bind(signed(failed));
    query.bind(of).bind(signed(number)).execute(executor).await?;
    Ok(())
}

impl Store {
    /// Lists runs of a test, newest first, and counts them all.
    pub async fn runs(&self, test: &str, take: u64, skip: u64) -> Result<(u64, Vec<StoredRun>), Error> {
        let failed = failed("list runs");
        let count = self.run_count(RUNS, test).await.map_err(&failed)?;
        let rows = sqlx::query(
            "SELECT test_id, number, test_version, trace_id, state, created, variables, request FROM runs
             WHERE test_id = $1 ORDER BY number DESC LIMIT $2 OFFSET $3",
        )
        .bind(test)
        .bind(signed(take))
        .bind(signed(skip))
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        let runs = rows.iter().map(stored).collect::<Result<_, _>>().map_err(&failed)?;
        Ok((count, runs))
    }

    /// Counts the runs of a test or suite.
    pub(super) async fn run_count(&self, table: Table, of: &str) -> Result<u64, sqlx::Error> {
        let Table { id, numbers, .. } = table;
        let text = format!("SELECT stored FROM {numbers} WHERE {id} = $1");
        let count: Option<i64> =
            sqlx::query_scalar(AssertSqlSafe(text)).bind(of).fetch_optional(&self.read).await?;
        Ok(count.map_or(0, unsigned))
    }

    /// Summarizes the runs of some tests, in the order of the tests.
    pub async fn run_summaries(&self, tests: &[&str]) -> Result<Vec<RunSummary>, Error> {
        self.summaries(RUNS, tests).await.map_err(failed("sum up runs"))
    }

    /// Summarizes the runs of tests or suites, in the order of their ids.
    pub(super) async fn summaries(&self, table: Table, ids: &[&str]) -> Result<Vec<RunSummary>, sqlx::Error> {
        let mut summaries = vec![RunSummary::default(); ids.len()];
        if ids.is_empty() {
            return Ok(summaries);
        }
        let Table { name, id, numbers, .. } = table;
        let marks: Vec<String> = (1..=ids.len()).map(|at| format!("${at}")).collect();
        // Only names of ours and numbered placeholders become part of this SQL.
        let text = format!(
            "SELECT n.{id} AS id, n.stored AS runs, r.created, r.passed, r.failed FROM {numbers} n
             JOIN {name} r ON r.{id} = n.{id} AND r.number = (SELECT MAX(l.number) FROM {name} l WHERE l.{id} = n.{id})
             WHERE n.{id} IN ({})",
            marks.join(", ")
        );
        let mut query = sqlx::query(AssertSqlSafe(text));
        for id in ids {
            query = query.bind(*id);
        }
        for row in query.fetch_all(&self.read).await? {
            let found: String = row.try_get("id")?;
            let number = |column: &str| row.try_get::<i64, _>(column).map(unsigned);
            let summary = RunSummary {
                runs: number("runs")?,
                last: Some(Timestamp::from_nanos(number("created")?)),
                passed: number("passed")?,
                failed: number("failed")?,
            };
            if let Some(at) = ids.iter().position(|wanted| **wanted == found) {
                summaries[at] = summary;
            }
        }
        Ok(summaries)
    }

    /// Points a run of this owner at another trace.
    pub async fn set_trace(&self, test: &str, number: u64, owner: &str, trace: TraceId) -> Result<(), Error> {
        let text = format!("UPDATE runs SET trace_id = $1 WHERE {}", RUNS.owned([2, 3, 4]));
        sqlx::query(AssertSqlSafe(text))
            .bind(trace.to_bytes().to_vec())
            .bind(test)
            .bind(signed(number))
            .bind(owner)
            .execute(&self.write)
            .await
            .map_err(failed("name the trace of a run"))?;
        Ok(())
    }

    /// Loads a run.
    pub async fn run(&self, test: &str, number: u64) -> Result<Option<StoredRun>, Error> {
        let row = sqlx::query(
            "SELECT test_id, number, test_version, trace_id, state, created, variables, request FROM runs
             WHERE test_id = $1 AND number = $2",
        )
        .bind(test)
        .bind(signed(number))
        .fetch_optional(&self.read)
        .await
        .map_err(failed("load a run"))?;
        row.map(|row| stored(&row)).transpose().map_err(failed("load a run"))
    }

    /// Keeps secrets of a run in progress: a JSON object with sealed values. Its outputs replace them.
    pub async fn put_secrets(
        &self,
        test: &str,
        number: u64,
        owner: &str,
        secrets: &str,
    ) -> Result<(), Error> {
        let text = format!("UPDATE runs SET secrets = $1 WHERE {}", RUNS.owned([2, 3, 4]));
        sqlx::query(AssertSqlSafe(text))
            .bind(secrets)
            .bind(test)
            .bind(signed(number))
            .bind(owner)
            .execute(&self.write)
            .await
            .map_err(failed("keep the secrets of a run"))?;
        Ok(())
    }

    /// Loads the secrets of a run, and its secret outputs once it has ended: a JSON object with sealed values; empty for
    /// none.
    pub async fn secrets_of(&self, test: &str, number: u64) -> Result<String, Error> {
        let kept = sqlx::query_scalar("SELECT secrets FROM runs WHERE test_id = $1 AND number = $2")
            .bind(test)
            .bind(signed(number))
            .fetch_optional(&self.read)
            .await
            .map_err(failed("load the outputs of a run"))?;
        Ok(kept.unwrap_or_default())
    }

    /// Loads what earlier runs learned about the shape of this test's trace, as JSON.
    pub async fn history(&self, test: &str) -> Result<Option<String>, Error> {
        sqlx::query_scalar("SELECT body FROM histories WHERE test_id = $1")
            .bind(test)
            .fetch_optional(&self.read)
            .await
            .map_err(failed("load the history of tests"))
    }

    /// Loads what earlier runs learned about every test, as JSON.
    pub async fn histories(&self) -> Result<Vec<(String, String)>, Error> {
        let failed = failed("load the history of tests");
        let rows = sqlx::query("SELECT test_id, body FROM histories ORDER BY test_id")
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        let pair = |row: &AnyRow| Ok((row.try_get("test_id")?, row.try_get("body")?));
        rows.iter().map(pair).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Stores what a run learned. `false` when it changed meanwhile.
    pub async fn replace_history(
        &self,
        test: &str,
        before: Option<&str>,
        after: &str,
    ) -> Result<bool, Error> {
        let query = match before {
            Some(before) => sqlx::query("UPDATE histories SET body = $2 WHERE test_id = $1 AND body = $3")
                .bind(test)
                .bind(after)
                .bind(before),
            None => sqlx::query(
                "INSERT INTO histories (test_id, body)
                 SELECT $1, $2 WHERE EXISTS (SELECT 1 FROM resources WHERE kind = 'Test' AND id = $1)
                 ON CONFLICT (test_id) DO NOTHING",
            )
            .bind(test)
            .bind(after),
        };
        let done = query.execute(&self.write).await;
        Ok(rows_written(done).map_err(failed("store what a run taught"))? == 1)
    }

    /// Stores what a run learned about the shape of this test's trace.
    pub async fn put_history(&self, test: &str, body: &str) -> Result<(), Error> {
        let failed = failed("store what a run taught");
        let mut write = self.writers.statement().await.map_err(&failed)?;
        let done = sqlx::query(
            "INSERT INTO histories (test_id, body)
             SELECT $1, $2 WHERE EXISTS (SELECT 1 FROM resources WHERE kind = 'Test' AND id = $1)
             ON CONFLICT (test_id) DO UPDATE SET body = excluded.body",
        )
        .bind(test)
        .bind(body)
        .execute(&mut *write)
        .await;
        rows_written(done).map_err(&failed)?;
        write.commit().await.map_err(&failed)
    }
}

pub(super) fn stored(row: &AnyRow) -> Result<StoredRun, sqlx::Error> {
    let trace: Vec<u8> = row.try_get("trace_id")?;
    let trace = qualitytrace_core::id::TraceId::from_slice(&trace)
        .ok_or_else(|| sqlx::Error::Decode("a stored trace id has not sixteen bytes".into()))?;
    Ok(StoredRun {
        test: row.try_get("test_id")?,
        number: unsigned(row.try_get("number")?),
        test_version: unsigned(row.try_get("test_version")?),
        trace,
        state: row.try_get("state")?,
        created: Timestamp::from_nanos(unsigned(row.try_get("created")?)),
        variables: row.try_get("variables")?,
        request: row.try_get("request")?,
    })
}
