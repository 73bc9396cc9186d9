//! Suite runs, and the runs of tests that they started.

use std::collections::BTreeMap;

use qualitytrace_core::time::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::chunks::{signed, unsigned};
use super::events::{StoredEvent, event};
use super::runs::{RunSummary, SUITE_RUNS, StoredRun, count, move_state, next_number, stored};
use super::{Error, Store, failed};

/// A suite run to be stored.
#[derive(Debug, Clone)]
pub struct NewSuiteRun {
    /// The suite.
    pub suite: String,
    /// The version of the suite that is run.
    pub version: u64,
    /// The initial state.
    pub state: &'static str,
    /// When it was requested.
    pub created: Timestamp,
    /// Variables given to it, as a JSON object.
    pub variables: String,
    /// The rest of the request, as JSON.
    pub request: String,
    /// The server that starts its steps.
    pub owner: String,
}

/// A stored suite run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSuiteRun {
    /// The suite.
    pub suite: String,
    /// The number within the suite, from 1.
    pub number: u64,
    /// The version of the suite that is run.
    pub version: u64,
    /// The current state.
    pub state: String,
    /// When it was requested.
    pub created: Timestamp,
    /// Variables given to it, as a JSON object.
    pub variables: String,
    /// The rest of the request, as JSON.
    pub request: String,
    /// Assertions of its steps that held.
    pub passed: u64,
    /// Assertions of its steps that did not hold.
    pub failed: u64,
    /// The server that starts its steps.
    pub owner: String,
}

/// The runs that runs of a suite started, each with its events, by number of the suite run.
pub type StepRuns = BTreeMap<u64, Vec<(StoredRun, Vec<StoredEvent>)>>;

/// The states of a suite run in progress.
const UNDER_WAY: &str = "('CREATED', 'EXECUTING')";

const COLUMNS: &str =
    "suite_id, number, suite_version, state, created, variables, request, passed, failed, owner";

impl Store {
    /// Stores a new suite run and returns its number; `None` when the suite was deleted.
    pub async fn insert_suite_run(&self, run: &NewSuiteRun) -> Result<Option<u64>, Error> {
        let failed = failed("store a run of a suite");
        let mut transaction = self.write.begin().await.map_err(&failed)?;
        let known = sqlx::query("UPDATE resources SET last_run = $1 WHERE kind = 'TestSuite' AND id = $2")
            .bind(signed(run.created.as_nanos()))
            .bind(&run.suite)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        if known.rows_affected() == 0 {
            return Ok(None);
        }
        let number = next_number(&mut transaction, SUITE_RUNS, &run.suite).await.map_err(&failed)?;
        sqlx::query(
            "INSERT INTO suite_runs (suite_id, number, suite_version, state, created, variables, request, owner)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(&run.suite)
        .bind(number)
        .bind(signed(run.version))
        .bind(run.state)
        .bind(signed(run.created.as_nanos()))
        .bind(&run.variables)
        .bind(&run.request)
        .bind(&run.owner)
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        Ok(Some(unsigned(number)))
    }

    /// Loads a suite run.
    pub async fn suite_run(&self, suite: &str, number: u64) -> Result<Option<StoredSuiteRun>, Error> {
        let text = format!("SELECT {COLUMNS} FROM suite_runs WHERE suite_id = $1 AND number = $2");
        let row = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(suite)
            .bind(signed(number))
            .fetch_optional(&self.read)
            .await
            .map_err(failed("load a run of a suite"))?;
        row.map(|row| suite_run(&row)).transpose().map_err(failed("load a run of a suite"))
    }

    /// Lists runs of a suite, newest first, and counts them all.
    pub async fn suite_runs(
        &self,
        suite: &str,
        take: u64,
        skip: u64,
    ) -> Result<(u64, Vec<StoredSuiteRun>), Error> {
        let failed = failed("list runs of a suite");
        let count = self.run_count(SUITE_RUNS, suite).await.map_err(&failed)?;
        let text = format!(
            "SELECT {COLUMNS} FROM suite_runs WHERE suite_id = $1 ORDER BY number DESC LIMIT $2 OFFSET $3"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(suite)
            .bind(signed(take))
            .bind(signed(skip))
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        let runs = rows.iter().map(suite_run).collect::<Result<_, _>>().map_err(&failed)?;
        Ok((count, runs))
    }

    /// Lists suite runs in progress whose server is gone.
    pub async fn orphan_suite_runs(&self) -> Result<Vec<StoredSuiteRun>, Error> {
        let text = format!(
            "SELECT {COLUMNS} FROM suite_runs
             WHERE state IN {UNDER_WAY} AND owner NOT IN (SELECT id FROM servers) ORDER BY created"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(text))
            .fetch_all(&self.read)
            .await
            .map_err(failed("look for suites without a server"))?;
        rows.iter()
            .map(suite_run)
            .collect::<Result<_, _>>()
            .map_err(failed("look for suites without a server"))
    }

    /// Moves a suite run of this owner from one state to another. `false` when it was not in `from`, or belongs to
    /// another owner now.
    pub async fn change_suite_state(
        &self,
        suite: &str,
        number: u64,
        owner: &str,
        from: &str,
        to: &str,
    ) -> Result<bool, Error> {
        let done = move_state(SUITE_RUNS, (suite, number), owner, (from, to)).execute(&self.write).await;
        Ok(done.map_err(failed("change the state of a suite's run"))?.rows_affected() == 1)
    }

    /// Stores a user's stop command for a suite run. `false` when it has ended.
    pub async fn request_suite_stop(&self, suite: &str, number: u64) -> Result<bool, Error> {
        let text = format!(
            "UPDATE suite_runs SET wish = 'stop' WHERE suite_id = $1 AND number = $2 AND state IN {UNDER_WAY}"
        );
        let done = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(suite)
            .bind(signed(number))
            .execute(&self.write)
            .await
            .map_err(failed("store a run command"))?;
        Ok(done.rows_affected() == 1)
    }

    /// Lists the suite runs of this owner that a user has stopped.
    pub async fn suites_to_stop(&self, owner: &str) -> Result<Vec<(String, u64)>, Error> {
        let failed = failed("read run commands");
        let text = format!(
            "SELECT suite_id, number FROM suite_runs WHERE state IN {UNDER_WAY} AND owner = $1 AND wish = 'stop'"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(owner)
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        let ids = |row: &AnyRow| Ok((row.try_get("suite_id")?, unsigned(row.try_get("number")?)));
        rows.iter().map(ids).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Stores how many assertions passed and failed so far.
    pub async fn count_suite_assertions(
        &self,
        suite: &str,
        number: u64,
        counts: (u64, u64),
    ) -> Result<(), Error> {
        count(&self.write, SUITE_RUNS, (suite, number), counts)
            .await
            .map_err(failed("count the assertions of a suite's run"))
    }

    /// Ends a suite run of this owner: writes its last state and its last event. `false` when it has ended or
    /// belongs to another owner; nothing is written then.
    pub async fn end_suite_run(
        &self,
        suite: &str,
        number: u64,
        owner: &str,
        state: &str,
        event: &StoredEvent,
    ) -> Result<bool, Error> {
        let text = format!(
            "UPDATE suite_runs SET state = $1 WHERE {} AND state IN {UNDER_WAY}",
            SUITE_RUNS.owned([2, 3, 4])
        );
        let change = sqlx::query(sqlx::AssertSqlSafe(text));
        let change = change.bind(state).bind(suite).bind(signed(number)).bind(owner);
        let events = std::slice::from_ref(event);
        let changed = self.change_with_events(change, SUITE_RUNS, (suite, number), events).await;
        changed.map_err(failed("end a run of a suite"))
    }

    /// Takes over a suite run in progress, and the series of its steps, from a server that is gone. `false` when
    /// another server did.
    pub async fn take_suite_run(
        &self,
        suite: &str,
        number: u64,
        (from, to): (&str, &str),
    ) -> Result<bool, Error> {
        let failed = failed("take a run of a suite");
        let text = format!(
            "UPDATE suite_runs SET owner = $1 WHERE {} AND state IN {UNDER_WAY}",
            SUITE_RUNS.owned([2, 3, 4])
        );
        let series = "UPDATE series SET owner = $1
             WHERE owner = $4 AND outcome = '' AND (test_id, first) IN
                 (SELECT test_id, run FROM suite_run_steps WHERE suite_id = $2 AND number = $3)";
        let mut transaction = self.write.begin().await.map_err(&failed)?;
        let mut taken = 0;
        // The run comes last: whether it was taken over decides about both.
        for text in [series.to_owned(), text] {
            let done = sqlx::query(sqlx::AssertSqlSafe(text))
                .bind(to)
                .bind(suite)
                .bind(signed(number))
                .bind(from)
                .execute(&mut *transaction)
                .await
                .map_err(&failed)?;
            taken = done.rows_affected();
        }
        if taken == 0 {
            return Ok(false);
        }
        transaction.commit().await.map_err(&failed)?;
        Ok(true)
    }

    /// Returns the suite run that a run of a test is a step of.
    pub async fn suite_of(&self, test: &str, number: u64) -> Result<Option<(String, u64)>, Error> {
        let failed = failed("find the suite of a run");
        let row = sqlx::query("SELECT suite_id, number FROM suite_run_steps WHERE test_id = $1 AND run = $2")
            .bind(test)
            .bind(signed(number))
            .fetch_optional(&self.read)
            .await
            .map_err(&failed)?;
        let pair = |row: AnyRow| Ok((row.try_get("suite_id")?, unsigned(row.try_get("number")?)));
        row.map(pair).transpose().map_err(&failed)
    }

    /// Loads the step runs of a range of suite runs, in two statements however many there are.
    pub async fn step_runs(&self, suite: &str, first: u64, last: u64) -> Result<StepRuns, Error> {
        let failed = failed("load the steps of runs of a suite");
        let query = |text| {
            sqlx::query(text)
                .bind(suite.to_owned())
                .bind(signed(first))
                .bind(signed(last))
                .fetch_all(&self.read)
        };
        let runs = query(
            "SELECT s.number AS suite_run, r.test_id, r.number, r.test_version, r.trace_id, r.state, r.created,
                    r.variables, r.request
             FROM suite_run_steps s JOIN runs r ON r.test_id = s.test_id AND r.number = s.run
             WHERE s.suite_id = $1 AND s.number >= $2 AND s.number <= $3 ORDER BY r.created, r.test_id, r.number",
        )
        .await
        .map_err(&failed)?;
        let rows = query(
            "SELECT e.test_id, e.number, e.seq, e.at, e.body
             FROM suite_run_steps s JOIN run_events e ON e.test_id = s.test_id AND e.number = s.run
             WHERE s.suite_id = $1 AND s.number >= $2 AND s.number <= $3 ORDER BY e.test_id, e.number, e.seq",
        )
        .await
        .map_err(&failed)?;
        let mut events: BTreeMap<(String, u64), Vec<StoredEvent>> = BTreeMap::new();
        for row in rows {
            let test: String = row.try_get("test_id").map_err(&failed)?;
            let number: i64 = row.try_get("number").map_err(&failed)?;
            events.entry((test, unsigned(number))).or_default().push(event(&row).map_err(&failed)?);
        }
        let mut steps = StepRuns::new();
        for row in runs {
            let number: i64 = row.try_get("suite_run").map_err(&failed)?;
            let run = stored(&row).map_err(&failed)?;
            let events = events.remove(&(run.test.clone(), run.number)).unwrap_or_default();
            steps.entry(unsigned(number)).or_default().push((run, events));
        }
        Ok(steps)
    }

    /// Summarizes the runs of some suites, in the order of the suites.
    pub async fn suite_summaries(&self, suites: &[&str]) -> Result<Vec<RunSummary>, Error> {
        self.summaries(SUITE_RUNS, suites).await.map_err(failed("sum up runs of suites"))
    }
}

fn suite_run(row: &AnyRow) -> Result<StoredSuiteRun, sqlx::Error> {
    Ok(StoredSuiteRun {
        suite: row.try_get("suite_id")?,
        number: unsigned(row.try_get("number")?),
        version: unsigned(row.try_get("suite_version")?),
        state: row.try_get("state")?,
        created: Timestamp::from_nanos(unsigned(row.try_get("created")?)),
        variables: row.try_get("variables")?,
        request: row.try_get("request")?,
        passed: unsigned(row.try_get("passed")?),
        failed: unsigned(row.try_get("failed")?),
        owner: row.try_get("owner")?,
    })
}
