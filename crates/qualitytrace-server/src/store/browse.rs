//! Traces to look at: which there are, newest first.

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use sqlx::Row;

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed};

impl Store {
    /// When something last arrived.
    pub async fn last_arrival(&self) -> Result<Option<Timestamp>, Error> {
        let last: Option<i64> =
            sqlx::query_scalar("SELECT arrived FROM chunks ORDER BY arrived DESC LIMIT 1")
                .fetch_optional(&self.read)
                .await
                .map_err(failed("look for the last arrival"))?;
        Ok(last.map(|last| Timestamp::from_nanos(unsigned(last))))
    }

    /// Arrivals of spans before a point in time, newest first: the trace of each, and when it came.
    ///
    /// A trace that came in several requests is there several times.
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
        let mut arrivals = Vec::with_capacity(rows.len());
        for row in rows {
            let id: Vec<u8> = row.try_get("trace_id").map_err(&failed)?;
            let arrived: i64 = row.try_get("arrived").map_err(&failed)?;
            if let Some(id) = TraceId::from_slice(&id) {
                arrivals.push((id, Timestamp::from_nanos(unsigned(arrived))));
            }
        }
        Ok(arrivals)
    }
}
