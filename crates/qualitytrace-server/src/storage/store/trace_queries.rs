//! Queries for browsing stored traces, newest first.

use std::collections::{HashMap, HashSet};

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::chunks::{signed, unpacked, unsigned};
use super::{Error, Store, StoredChunk, failed};

impl Store {
    /// Returns the time of the last arrival.
    pub async fn last_arrival(&self) -> Result<Option<Timestamp>, Error> {
        let last: Option<i64> =
            sqlx::query_scalar("SELECT arrived FROM chunks ORDER BY arrived DESC LIMIT 1")
                .fetch_optional(&self.read)
                .await
                .map_err(failed("look for the last arrival"))?;
        Ok(last.map(|last| Timestamp::from_nanos(unsigned(last))))
    }

    /// Lists arrivals of spans before a point in time, newest first: trace and time of each.
    ///
    /// A trace that came in several requests is listed several times.
    pub async fn arrivals_before(
        &self,
        before: Timestamp,
        limit: u64,
    ) -> Result<Vec<(TraceId, Timestamp)>, Error> {
        let failed = failed("list traces");
        let rows = sqlx::query(
            "SELECT trace_id, arrived FROM chunks WHERE arrived < $1 AND signal = 0 ORDER BY arrived DESC LIMIT $2",
        )
        .bind(signed(before.as_nanos()))
        .bind(signed(limit))
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        rows.iter().map(arrival).filter_map(Result::transpose).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Lists arrivals of spans after a point in time, oldest first: trace, time and number of spans of each.
    pub(crate) async fn arrivals_after(
        &self,
        after: Timestamp,
        limit: u64,
    ) -> Result<Vec<(TraceId, Timestamp, u64)>, Error> {
        let failed = failed("list what arrived");
        let rows = sqlx::query(
            "SELECT trace_id, arrived, items FROM chunks WHERE arrived > $1 AND signal = 0 ORDER BY arrived LIMIT $2",
        )
        .bind(signed(after.as_nanos()))
        .bind(signed(limit))
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        let read = |row: &AnyRow| {
            let items = unsigned(row.try_get("items")?);
            Ok(arrival(row)?.map(|(trace, arrived)| (trace, arrived, items)))
        };
        rows.iter().map(read).filter_map(Result::transpose).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Returns the time of the last arrival of spans for each of these traces.
    pub async fn last_arrivals(&self, traces: &[TraceId]) -> Result<HashMap<TraceId, Timestamp>, Error> {
        let failed = failed("look for the last arrivals of traces");
        let select = "SELECT trace_id, MAX(arrived) AS arrived FROM chunks WHERE signal = 0 AND trace_id IN";
        let rows =
            self.of_traces(&format!("{select} ({}) GROUP BY trace_id", placeholders(traces)), traces).await;
        let rows = rows.map_err(&failed)?;
        rows.iter().map(arrival).filter_map(Result::transpose).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Loads the chunks of these traces that hold spans, in order of arrival.
    pub async fn span_chunks(&self, traces: &[TraceId]) -> Result<Vec<(TraceId, StoredChunk)>, Error> {
        let select = "SELECT trace_id, arrived, data FROM chunks WHERE signal = 0 AND trace_id IN";
        let rows =
            self.of_traces(&format!("{select} ({}) ORDER BY arrived", placeholders(traces)), traces).await;
        chunks(rows)
    }

    /// Loads the chunks with spans that arrived at these times.
    pub async fn chunks_of(&self, arrivals: &[Timestamp]) -> Result<Vec<(TraceId, StoredChunk)>, Error> {
        if arrivals.is_empty() {
            return Ok(Vec::new());
        }
        let select = "SELECT trace_id, arrived, data FROM chunks WHERE signal = 0 AND arrived IN";
        // Only numbered placeholders become part of this SQL.
        let query = sqlx::query(AssertSqlSafe(format!("{select} ({})", placeholders(arrivals))));
        let query = arrivals.iter().fold(query, |query, at| query.bind(signed(at.as_nanos())));
        chunks(query.fetch_all(&self.read).await)
    }

    /// Lists the runs of these traces that were given secrets, in a fixed order: trace, test, and variables as they
    /// are stored.
    pub(crate) async fn secret_variables(
        &self,
        traces: &[TraceId],
    ) -> Result<Vec<(TraceId, String, String)>, Error> {
        let failed = failed("list the runs of traces");
        // The beginning of a sealed value.
        let select = r#"SELECT trace_id, test_id, variables FROM runs WHERE variables LIKE '%{"secret":%' AND trace_id IN"#;
        let text = format!("{select} ({}) ORDER BY test_id, number", placeholders(traces));
        let mut found = Vec::new();
        for row in self.of_traces(&text, traces).await.map_err(&failed)? {
            let id: Vec<u8> = row.try_get("trace_id").map_err(&failed)?;
            let (test, variables) =
                (row.try_get("test_id").map_err(&failed)?, row.try_get("variables").map_err(&failed)?);
            found.extend(TraceId::from_slice(&id).map(|id| (id, test, variables)));
        }
        Ok(found)
    }

    /// Returns those of these traces that runs have caused or named.
    pub(crate) async fn traces_of_runs(&self, traces: &[TraceId]) -> Result<HashSet<TraceId>, Error> {
        let failed = failed("look for the runs of traces");
        let text = format!("SELECT DISTINCT trace_id FROM runs WHERE trace_id IN ({})", placeholders(traces));
        let mut found = HashSet::new();
        for row in self.of_traces(&text, traces).await.map_err(&failed)? {
            let id: Vec<u8> = row.try_get("trace_id").map_err(&failed)?;
            found.extend(TraceId::from_slice(&id));
        }
        Ok(found)
    }

    pub(super) async fn of_traces(&self, text: &str, traces: &[TraceId]) -> Result<Vec<AnyRow>, sqlx::Error> {
        if traces.is_empty() {
            return Ok(Vec::new());
        }
        // Only numbered placeholders become part of this SQL.
        let query = sqlx::query(AssertSqlSafe(text.to_owned()));
        let query = traces.iter().fold(query, |query, trace| query.bind(trace.to_bytes().to_vec()));
        query.fetch_all(&self.read).await
    }
}

fn chunks(rows: Result<Vec<AnyRow>, sqlx::Error>) -> Result<Vec<(TraceId, StoredChunk)>, Error> {
    let failed = failed("load traces");
    let mut chunks = Vec::new();
    for row in rows.map_err(&failed)? {
        if let Some((trace, arrived)) = arrival(&row).map_err(&failed)? {
            let packed: Vec<u8> = row.try_get("data").map_err(&failed)?;
            chunks.push((trace, StoredChunk { arrived, data: unpacked(&packed).map_err(&failed)? }));
        }
    }
    Ok(chunks)
}

/// `$1, $2, ...`: a placeholder for each item.
pub(super) fn placeholders<T>(items: &[T]) -> String {
    (1..=items.len()).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}

fn arrival(row: &AnyRow) -> Result<Option<(TraceId, Timestamp)>, sqlx::Error> {
    let id: Vec<u8> = row.try_get("trace_id")?;
    let arrived: i64 = row.try_get("arrived")?;
    Ok(TraceId::from_slice(&id).map(|id| (id, Timestamp::from_nanos(unsigned(arrived)))))
}
