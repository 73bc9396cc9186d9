//! Runs and their events.

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed};

/// A run that is about to begin.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The test.
    pub test: String,
    /// The version of the test that is run, whatever becomes of the test meanwhile.
    pub test_version: u64,
    /// The trace that the trigger will cause.
    pub trace: TraceId,
    /// The state to begin in.
    pub state: &'static str,
    /// When it was asked for.
    pub created: Timestamp,
    /// Variables given to this run, as a JSON object.
    pub variables: String,
}

/// A run as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRun {
    /// The test.
    pub test: String,
    /// Counts from 1 within the test.
    pub number: u64,
    /// The version of the test that is run.
    pub test_version: u64,
    /// The trace that the trigger causes.
    pub trace: TraceId,
    /// The state reached so far.
    pub state: String,
    /// When it was asked for.
    pub created: Timestamp,
    /// Variables given to this run, as a JSON object.
    pub variables: String,
}

/// Something that happened to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Counts from 1 within the run.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened, as JSON.
    pub body: String,
}

impl Store {
    /// Stores a new run and answers with its number.
    pub async fn insert_run(&self, run: &NewRun) -> Result<u64, Error> {
        loop {
            let number: Option<i64> = sqlx::query_scalar(
                "INSERT INTO runs (test_id, number, test_version, trace_id, state, created, variables)
                 SELECT $1, COALESCE(MAX(number), 0) + 1, $2, $3, $4, $5, $6 FROM runs WHERE test_id = $1
                 ON CONFLICT DO NOTHING RETURNING number",
            )
            .bind(&run.test)
            .bind(signed(run.test_version))
            .bind(run.trace.to_bytes().to_vec())
            .bind(run.state)
            .bind(signed(run.created.as_nanos()))
            .bind(&run.variables)
            .fetch_optional(&self.write)
            .await
            .map_err(failed("store a run"))?;
            // Two writers may compute the same number: the one that came second counts again.
            if let Some(number) = number {
                return Ok(unsigned(number));
            }
        }
    }

    /// Moves a run from one state to another. `false` when it was not in `from`: somebody else was faster.
    pub async fn change_state(&self, test: &str, number: u64, from: &str, to: &str) -> Result<bool, Error> {
        let done =
            sqlx::query("UPDATE runs SET state = $1 WHERE test_id = $2 AND number = $3 AND state = $4")
                .bind(to)
                .bind(test)
                .bind(signed(number))
                .bind(from)
                .execute(&self.write)
                .await
                .map_err(failed("change the state of a run"))?;
        Ok(done.rows_affected() == 1)
    }

    /// Makes a run be about another trace.
    pub async fn set_trace(&self, test: &str, number: u64, trace: TraceId) -> Result<(), Error> {
        sqlx::query("UPDATE runs SET trace_id = $1 WHERE test_id = $2 AND number = $3")
            .bind(trace.to_bytes().to_vec())
            .bind(test)
            .bind(signed(number))
            .execute(&self.write)
            .await
            .map_err(failed("name the trace of a run"))?;
        Ok(())
    }

    /// A run.
    pub async fn run(&self, test: &str, number: u64) -> Result<Option<StoredRun>, Error> {
        let row = sqlx::query(
            "SELECT test_id, number, test_version, trace_id, state, created, variables FROM runs
             WHERE test_id = $1 AND number = $2",
        )
        .bind(test)
        .bind(signed(number))
        .fetch_optional(&self.read)
        .await
        .map_err(failed("load a run"))?;
        row.map(|row| stored(&row))
            .transpose()
            .map_err(failed("load a run"))
    }

    /// Every run in one of these states.
    pub async fn runs_in_state(&self, state: &str) -> Result<Vec<StoredRun>, Error> {
        let rows = sqlx::query(
            "SELECT test_id, number, test_version, trace_id, state, created, variables FROM runs
             WHERE state = $1 ORDER BY created",
        )
        .bind(state)
        .fetch_all(&self.read)
        .await
        .map_err(failed("list runs"))?;
        rows.iter()
            .map(stored)
            .collect::<Result<_, _>>()
            .map_err(failed("list runs"))
    }

    /// Appends an event to a run. An event that is already there stays as it is.
    pub async fn append_event(&self, test: &str, number: u64, event: &StoredEvent) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO run_events (test_id, number, seq, at, body) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        )
        .bind(test)
        .bind(signed(number))
        .bind(signed(event.seq))
        .bind(signed(event.at.as_nanos()))
        .bind(&event.body)
        .execute(&self.write)
        .await
        .map_err(failed("store an event"))?;
        Ok(())
    }

    /// The events of a run after `after`, in order.
    pub async fn events(&self, test: &str, number: u64, after: u64) -> Result<Vec<StoredEvent>, Error> {
        let failed = failed("load the events of a run");
        let rows = sqlx::query(
            "SELECT seq, at, body FROM run_events WHERE test_id = $1 AND number = $2 AND seq > $3 ORDER BY seq",
        )
        .bind(test)
        .bind(signed(number))
        .bind(signed(after))
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        rows.into_iter()
            .map(|row| {
                Ok(StoredEvent {
                    seq: unsigned(row.try_get("seq")?),
                    at: Timestamp::from_nanos(unsigned(row.try_get("at")?)),
                    body: row.try_get("body")?,
                })
            })
            .collect::<Result<_, _>>()
            .map_err(&failed)
    }

    /// What earlier runs taught about the shape of this test's trace, as JSON.
    pub async fn history(&self, test: &str) -> Result<Option<String>, Error> {
        sqlx::query_scalar("SELECT body FROM histories WHERE test_id = $1")
            .bind(test)
            .fetch_optional(&self.read)
            .await
            .map_err(failed("load what earlier runs taught"))
    }

    /// Keeps what a run taught about the shape of this test's trace.
    pub async fn put_history(&self, test: &str, body: &str) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO histories (test_id, body) VALUES ($1, $2) ON CONFLICT (test_id) DO UPDATE SET body = excluded.body",
        )
        .bind(test)
        .bind(body)
        .execute(&self.write)
        .await
        .map_err(failed("store what a run taught"))?;
        Ok(())
    }
}

fn stored(row: &AnyRow) -> Result<StoredRun, sqlx::Error> {
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
    })
}
