//! Sizes of stored data, measured before it is loaded, so that memory can be reserved first.

use qualitytrace_core::definition::Kind;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::chunks::{signed, unsigned};
use super::runs::{RUNS, SUITE_RUNS, StoredRun, Table, stored};
use super::{Error, Store, failed};

/// The stored size of traces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceSize {
    /// Spans.
    pub spans: u64,
    /// Bytes of the export requests, decompressed.
    pub bytes: u64,
    /// Attributes, their values, and the members of lists and objects; 0 where they were not counted.
    pub values: u64,
    /// What the largest of the requests takes while it is decoded, in bytes.
    pub largest: u64,
}

/// The state of a run, and the size of what a reader has not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The state.
    pub state: String,
    /// When it was created.
    pub created: Timestamp,
    /// Bytes of the user-written columns.
    pub own_bytes: u64,
    /// Bytes of the events that are not read yet.
    pub event_bytes: u64,
}

/// Overhead in memory per span, in bytes, without its values and with some.
const SPAN_BYTES: u64 = 300;
const FULL_SPAN_BYTES: u64 = 500;
/// Bytes in memory per value: in a span, and in a message of the protocol.
const VALUE_BYTES: u64 = 24;
const MESSAGE_BYTES: u64 = 56;

impl TraceSize {
    /// The size of a request with this many spans and values.
    pub(crate) fn of_request(spans: u64, bytes: u64, values: u64) -> Self {
        Self { spans, bytes, values, largest: bytes + values * MESSAGE_BYTES }
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, request: Self) {
        self.spans += request.spans;
        self.bytes += request.bytes;
        self.values += request.values;
        self.largest = self.largest.max(request.largest);
    }

    /// Estimated bytes in memory once decoded.
    pub(crate) fn decoded(self) -> u64 {
        let spans = if self.values == 0 { FULL_SPAN_BYTES } else { SPAN_BYTES };
        self.spans * spans + self.values * VALUE_BYTES + self.bytes
    }

    /// Estimated bytes in memory while it is decoded, one request after the other.
    pub(crate) fn in_memory(self) -> u64 {
        self.decoded() + self.largest
    }

    /// Estimated bytes in memory of all requests as messages of the protocol.
    pub(crate) fn as_requests(self) -> u64 {
        self.spans * FULL_SPAN_BYTES + self.values * MESSAGE_BYTES + 2 * self.bytes
    }
}

/// The bytes of the user-written columns of a run.
const OWN_BYTES: &str = "octet_length(r.variables) + octet_length(r.request)";

impl Store {
    /// Measures a run with its events.
    pub async fn run_size(&self, test: &str, number: u64) -> Result<u64, Error> {
        let size = self.unread_in(RUNS, (test, number), 0).await.map_err(failed("measure a run"))?;
        Ok(size.map_or(0, |unread| unread.own_bytes + unread.event_bytes))
    }

    /// Measures a suite run with its events.
    pub async fn suite_run_size(&self, suite: &str, number: u64) -> Result<u64, Error> {
        let failed = failed("measure a suite's run");
        let size = self.unread_in(SUITE_RUNS, (suite, number), 0).await.map_err(failed)?;
        Ok(size.map_or(0, |unread| unread.own_bytes + unread.event_bytes))
    }

    /// Measures definitions, by id; missing ones are left out.
    pub async fn definition_sizes(&self, kind: Kind, ids: &[&str]) -> Result<Vec<(String, u64)>, Error> {
        let failed = failed("measure definitions");
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let marks: Vec<String> = (2..ids.len() + 2).map(|at| format!("${at}")).collect();
        // Only numbered placeholders become part of this SQL.
        let text = format!(
            "SELECT id, CAST(octet_length(spec) AS BIGINT) AS bytes FROM resources WHERE kind = $1 AND id IN ({})",
            marks.join(", ")
        );
        let query = sqlx::query(AssertSqlSafe(text)).bind(kind.as_str());
        let query = ids.iter().fold(query, |query, id| query.bind(*id));
        let rows = query.fetch_all(&self.read).await.map_err(&failed)?;
        let size = |row: &AnyRow| Ok((row.try_get("id")?, unsigned(row.try_get("bytes")?)));
        rows.iter().map(size).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Loads the state of a run, and measures its events after `after`.
    pub async fn unread(&self, test: &str, number: u64, after: u64) -> Result<Option<Unread>, Error> {
        self.unread_in(RUNS, (test, number), after).await.map_err(failed("measure a run"))
    }

    /// Loads the state of a suite run, and measures its events after `after`.
    pub async fn suite_unread(&self, suite: &str, number: u64, after: u64) -> Result<Option<Unread>, Error> {
        self.unread_in(SUITE_RUNS, (suite, number), after).await.map_err(failed("measure a suite's run"))
    }

    async fn unread_in(
        &self,
        Table { name, id, events, .. }: Table,
        (of, number): (&str, u64),
        after: u64,
    ) -> Result<Option<Unread>, sqlx::Error> {
        let text = format!(
            "SELECT r.state, r.created, CAST({OWN_BYTES} AS BIGINT) AS own_bytes,
                 CAST((SELECT COALESCE(SUM(octet_length(e.body)), 0) FROM {events} e
                     WHERE e.{id} = r.{id} AND e.number = r.number AND e.seq > $3) AS BIGINT) AS event_bytes
             FROM {name} r WHERE r.{id} = $1 AND r.number = $2"
        );
        let query = sqlx::query(AssertSqlSafe(text)).bind(of).bind(signed(number)).bind(signed(after));
        let row = query.fetch_optional(&self.read).await?;
        let unread = |row: AnyRow| {
            Ok(Unread {
                state: row.try_get("state")?,
                created: Timestamp::from_nanos(unsigned(row.try_get("created")?)),
                own_bytes: unsigned(row.try_get("own_bytes")?),
                event_bytes: unsigned(row.try_get("event_bytes")?),
            })
        };
        row.map(unread).transpose()
    }

    /// Measures a page of runs of a test, newest first: the number of each, and the bytes of the run and its
    /// events. Also counts all runs.
    pub async fn run_sizes(&self, test: &str, take: u64, skip: u64) -> Result<(u64, Vec<(u64, u64)>), Error> {
        let failed = failed("measure runs");
        let count = self.run_count(RUNS, test).await.map_err(&failed)?;
        let text = format!(
            "SELECT r.number, CAST({OWN_BYTES} + (SELECT COALESCE(SUM(octet_length(e.body)), 0) FROM run_events e
                 WHERE e.test_id = r.test_id AND e.number = r.number) AS BIGINT) AS bytes
             FROM runs r WHERE r.test_id = $1 ORDER BY r.number DESC LIMIT $2 OFFSET $3"
        );
        let query = sqlx::query(AssertSqlSafe(text)).bind(test).bind(signed(take)).bind(signed(skip));
        let rows = query.fetch_all(&self.read).await.map_err(&failed)?;
        let size = |row: &AnyRow| Ok((unsigned(row.try_get("number")?), unsigned(row.try_get("bytes")?)));
        Ok((count, rows.iter().map(size).collect::<Result<_, _>>().map_err(&failed)?))
    }

    /// Loads a range of runs of a test, newest first.
    pub async fn runs_between(&self, test: &str, first: u64, last: u64) -> Result<Vec<StoredRun>, Error> {
        let failed = failed("load runs");
        let rows = sqlx::query(
            "SELECT test_id, number, test_version, trace_id, state, created, variables, request FROM runs
             WHERE test_id = $1 AND number >= $2 AND number <= $3 ORDER BY number DESC",
        )
        .bind(test)
        .bind(signed(first))
        .bind(signed(last))
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        rows.iter().map(stored).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Measures a page of runs of a suite, with their events and those of their step runs.
    pub async fn suite_page_size(&self, suite: &str, take: u64, skip: u64) -> Result<u64, Error> {
        let text = format!(
            "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM (
                 SELECT {OWN_BYTES}
                     + (SELECT COALESCE(SUM(octet_length(e.body)), 0) FROM suite_run_events e
                        WHERE e.suite_id = r.suite_id AND e.number = r.number)
                     + (SELECT COALESCE(SUM(octet_length(e.body)), 0) FROM suite_run_steps s
                        JOIN run_events e ON e.test_id = s.test_id AND e.number = s.run
                        WHERE s.suite_id = r.suite_id AND s.number = r.number) AS bytes
                 FROM suite_runs r WHERE r.suite_id = $1 ORDER BY r.number DESC LIMIT $2 OFFSET $3) AS page"
        );
        let query = sqlx::query_scalar(AssertSqlSafe(text));
        let query = query.bind(suite.to_owned()).bind(signed(take)).bind(signed(skip));
        let bytes: i64 = query.fetch_one(&self.read).await.map_err(failed("measure runs of a suite"))?;
        Ok(unsigned(bytes))
    }

    /// Measures the events of the step runs of one suite run.
    pub async fn step_runs_size(&self, suite: &str, number: u64) -> Result<u64, Error> {
        let bytes: i64 = sqlx::query_scalar(
            "SELECT CAST(COALESCE(SUM(octet_length(e.body)), 0) AS BIGINT) FROM suite_run_steps s
             JOIN run_events e ON e.test_id = s.test_id AND e.number = s.run
             WHERE s.suite_id = $1 AND s.number = $2",
        )
        .bind(suite)
        .bind(signed(number))
        .fetch_one(&self.read)
        .await
        .map_err(failed("measure the steps of a suite's run"))?;
        Ok(unsigned(bytes))
    }

    /// Measures the stored spans of these traces; their values are not counted.
    pub(crate) async fn trace_size(&self, traces: &[TraceId]) -> Result<TraceSize, Error> {
        let failed = failed("measure traces");
        // Compressed data begins with its size.
        let select = "SELECT items, substr(data, 1, 4) AS size FROM chunks WHERE signal = 0 AND trace_id IN";
        let text = format!("{select} ({})", super::trace_queries::placeholders(traces));
        self.of_traces(&text, traces).await.and_then(|rows| total(&rows)).map_err(failed)
    }

    /// Measures the spans that arrived at these times; their values are not counted.
    pub(crate) async fn arrival_size(&self, arrivals: &[Timestamp]) -> Result<TraceSize, Error> {
        let failed = failed("measure what arrived");
        let select = "SELECT items, substr(data, 1, 4) AS size FROM chunks WHERE signal = 0 AND arrived IN";
        // Only numbered placeholders become part of this SQL.
        let query = sqlx::query(AssertSqlSafe(format!(
            "{select} ({})",
            super::trace_queries::placeholders(arrivals)
        )));
        let query = arrivals.iter().fold(query, |query, at| query.bind(signed(at.as_nanos())));
        query.fetch_all(&self.read).await.and_then(|rows| total(&rows)).map_err(failed)
    }
}

fn total(rows: &[AnyRow]) -> Result<TraceSize, sqlx::Error> {
    let mut total = TraceSize::default();
    for row in rows {
        let size: Vec<u8> = row.try_get("size")?;
        let bytes = size.try_into().map_or(0, |size| u64::from(u32::from_le_bytes(size)));
        total.add(TraceSize::of_request(unsigned(row.try_get("items")?), bytes, 0));
    }
    Ok(total)
}
