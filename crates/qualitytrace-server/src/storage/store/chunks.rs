//! Chunks: what each export request brought of a trace.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _, Row};

use super::{Error, Store, failed};

/// The most rows that one statement inserts, as a power of two: powers keep the number of distinct statements
/// small.
const MAX_ROWS_LOG: usize = 6;
/// Rows that one round of eviction removes, so that it never blocks the writer for long.
const EVICTION_ROWS: i64 = 5_000;

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Spans,
    /// Log records.
    Logs,
}

impl Signal {
    const fn code(self) -> i64 {
        match self {
            Self::Spans => 0,
            Self::Logs => 1,
        }
    }
}

/// When chunks count as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When they are synced to disk: they survive a power cut.
    Synced,
    /// When the operating system has them: they survive the death of the process; a power cut may undo the last
    /// ones.
    Buffered,
}

/// The part of a request that belongs to one trace, to be stored.
#[derive(Debug, Clone)]
pub struct NewChunk {
    /// The trace.
    pub trace: TraceId,
    /// What it holds.
    pub signal: Signal,
    /// When it arrived; no two chunks of a trace may have the same time.
    pub arrived: Timestamp,
    /// How many spans or records it holds.
    pub items: u32,
    /// The encoded export request.
    pub data: Packed,
}

/// Compressed data, as it is stored.
#[derive(Debug, Clone)]
pub struct Packed(Vec<u8>);

impl Packed {
    /// Compresses data with LZ4.
    pub fn new(data: &[u8]) -> Self {
        Self(lz4_flex::compress_prepend_size(data))
    }

    /// Compressed size in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// A stored chunk.
#[derive(Debug, Clone)]
pub struct StoredChunk {
    /// When it arrived.
    pub arrived: Timestamp,
    /// The encoded export request.
    pub data: Bytes,
}

impl Store {
    /// Stores chunks, all or none, and returns the bytes retained in total. Moves the data out of `chunks`.
    pub async fn append_chunks(&self, chunks: &mut [NewChunk]) -> Result<u64, Error> {
        self.append_chunks_as(chunks, Durability::Synced).await
    }

    /// Does the same with the given durability. Must run to completion: a connection dropped half way stays
    /// buffered.
    pub async fn append_chunks_as(
        &self,
        chunks: &mut [NewChunk],
        durability: Durability,
    ) -> Result<u64, Error> {
        let failed = failed("store what arrived");
        let added: usize = chunks.iter().map(|chunk| chunk.data.size()).sum();
        let mut connection = self.write.acquire().await.map_err(&failed)?;
        // SQLite has no durability setting per transaction. Its single writer connection makes it safe to switch.
        let is_relaxed = durability == Durability::Buffered && self.checkpoints.is_some();
        if is_relaxed {
            connection.execute("PRAGMA synchronous = NORMAL").await.map_err(&failed)?;
        }
        let append = self.append(&mut connection, chunks, added as u64, durability);
        let retained = self.answered(append).await;
        if is_relaxed && connection.execute("PRAGMA synchronous = FULL").await.is_err() {
            connection.close_on_drop();
        }
        let retained = retained.map_err(&failed)?;
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.after_writing(added as u64, &self.read);
        }
        Ok(unsigned(retained))
    }

    async fn append(
        &self,
        connection: &mut AnyConnection,
        chunks: &mut [NewChunk],
        added: u64,
        durability: Durability,
    ) -> Result<i64, sqlx::Error> {
        let mut transaction = connection.begin().await?;
        if durability == Durability::Buffered && self.is_shared() {
            transaction.execute("SET LOCAL synchronous_commit = off").await?;
        }
        let retained: i64 = sqlx::query_scalar(
            "UPDATE totals SET value = value + $1 WHERE name = 'retained_bytes' RETURNING value",
        )
        .bind(signed(added))
        .fetch_one(&mut *transaction)
        .await?;
        let mut left = chunks.len();
        let mut rest = chunks.iter_mut();
        while left > 0 {
            let rows_log = MAX_ROWS_LOG.min(left.ilog2() as usize);
            let rows = 1 << rows_log;
            let mut insert = sqlx::query(AssertSqlSafe(Arc::clone(&self.inserts.0[rows_log])));
            for chunk in rest.by_ref().take(rows) {
                insert = insert
                    .bind(chunk.trace.to_bytes().to_vec())
                    .bind(chunk.signal.code())
                    .bind(signed(chunk.arrived.as_nanos()))
                    .bind(i64::from(chunk.items))
                    .bind(signed(chunk.data.size() as u64))
                    .bind(std::mem::take(&mut chunk.data.0));
            }
            insert.execute(&mut *transaction).await?;
            left -= rows;
        }
        transaction.commit().await?;
        Ok(retained)
    }

    /// Returns the chunks of a trace that arrived after `after`, in order of arrival.
    pub async fn chunks(
        &self,
        trace: TraceId,
        signal: Signal,
        after: Timestamp,
    ) -> Result<Vec<StoredChunk>, Error> {
        let mut chunks = Vec::new();
        self.each_chunk(trace, signal, after, |chunk| chunks.push(chunk)).await?;
        Ok(chunks)
    }

    /// Visits the same chunks one by one: only one of them is in memory, decompressed, at a time.
    pub(crate) async fn each_chunk(
        &self,
        trace: TraceId,
        signal: Signal,
        after: Timestamp,
        mut visit: impl FnMut(StoredChunk) + Send,
    ) -> Result<(), Error> {
        let failed = failed("load a trace");
        let mut rows = sqlx::query(
            "SELECT arrived, data FROM chunks WHERE trace_id = $1 AND signal = $2 AND arrived > $3 ORDER BY arrived",
        )
        .bind(trace.to_bytes().to_vec())
        .bind(signal.code())
        .bind(signed(after.as_nanos()))
        .fetch(&self.read);
        while let Some(row) = rows.try_next().await.map_err(&failed)? {
            let packed: Vec<u8> = row.try_get("data").map_err(&failed)?;
            let data = unpacked(&packed).map_err(&failed)?;
            let arrived: i64 = row.try_get("arrived").map_err(&failed)?;
            visit(StoredChunk { arrived: Timestamp::from_nanos(unsigned(arrived)), data });
        }
        Ok(())
    }

    /// Counts the stored chunks of a trace.
    pub async fn chunk_count(&self, trace: TraceId, signal: Signal) -> Result<u64, Error> {
        let count: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM chunks WHERE trace_id = $1 AND signal = $2")
                .bind(trace.to_bytes().to_vec())
                .bind(signal.code())
                .fetch_one(&self.read)
                .await
                .map_err(failed("count what arrived of a trace"))?;
        Ok(unsigned(count))
    }

    /// Returns when spans of a trace last arrived, and the number of their chunks; `None` if there are none.
    pub(crate) async fn last_delivery(&self, trace: TraceId) -> Result<Option<(Timestamp, u64)>, Error> {
        let failed = failed("look for the last arrival of a trace");
        let row = sqlx::query(
            "SELECT COUNT(*) AS count, COALESCE(MAX(arrived), 0) AS last FROM chunks WHERE trace_id = $1 AND signal = 0",
        )
        .bind(trace.to_bytes().to_vec())
        .fetch_one(&self.read)
        .await
        .map_err(&failed)?;
        let number = |name| row.try_get(name).map(unsigned).map_err(&failed);
        let (count, last) = (number("count")?, number("last")?);
        Ok((count > 0).then(|| (Timestamp::from_nanos(last), count)))
    }

    /// Counts the stored spans of a trace.
    pub async fn span_count(&self, trace: TraceId) -> Result<u64, Error> {
        let count: i64 = sqlx::query_scalar(
            "SELECT CAST(COALESCE(SUM(items), 0) AS BIGINT) FROM chunks WHERE trace_id = $1 AND signal = 0",
        )
        .bind(trace.to_bytes().to_vec())
        .fetch_one(&self.read)
        .await
        .map_err(failed("count the spans of a trace"))?;
        Ok(unsigned(count))
    }

    /// Returns the bytes retained in total.
    pub async fn retained_bytes(&self) -> Result<u64, Error> {
        let bytes: i64 = sqlx::query_scalar("SELECT value FROM totals WHERE name = 'retained_bytes'")
            .fetch_one(&self.read)
            .await
            .map_err(failed("read what is retained"))?;
        Ok(unsigned(bytes))
    }

    /// Removes some of the oldest chunks that arrived before `before` and belong to no run, until `room` bytes are
    /// freed.
    ///
    /// Returns the bytes still retained, and whether there may be more to remove.
    pub async fn evict(&self, before: Timestamp, room: u64) -> Result<(u64, bool), Error> {
        let failed = failed("remove old traces");
        let mut transaction = self.begin_removal().await.map_err(&failed)?;
        let oldest = sqlx::query(
            "SELECT arrived, size FROM chunks
             WHERE arrived < $1 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.trace_id = chunks.trace_id)
             ORDER BY arrived LIMIT $2",
        )
        .bind(signed(before.as_nanos()))
        .bind(EVICTION_ROWS)
        .fetch_all(&mut *transaction)
        .await
        .map_err(&failed)?;
        let (mut first, mut last, mut found): (Option<i64>, i64, u64) = (None, 0, 0);
        for row in &oldest {
            if found >= room {
                break;
            }
            last = row.try_get("arrived").map_err(&failed)?;
            first.get_or_insert(last);
            found += unsigned(row.try_get("size").map_err(&failed)?);
        }
        let gone: Vec<i64> = sqlx::query_scalar(
            "DELETE FROM chunks
             WHERE arrived >= $1 AND arrived <= $2 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.trace_id = chunks.trace_id)
             RETURNING size",
        )
        .bind(first.unwrap_or(i64::MAX))
        .bind(last)
        .fetch_all(&mut *transaction)
        .await
        .map_err(&failed)?;
        let retained: i64 = sqlx::query_scalar(
            "UPDATE totals SET value = value - $1 WHERE name = 'retained_bytes' RETURNING value",
        )
        .bind(gone.iter().sum::<i64>())
        .fetch_one(&mut *transaction)
        .await
        .map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        Ok((unsigned(retained), !gone.is_empty()))
    }
}

/// The statements that insert 1, 2, 4, ... rows.
#[derive(Debug, Clone)]
pub(super) struct Inserts([Arc<str>; MAX_ROWS_LOG + 1]);

impl Inserts {
    /// `numbered` for PostgreSQL, which numbers its parameters; SQLite would have to search for numbered ones.
    pub(super) fn new(numbered: bool) -> Self {
        const COLUMNS: usize = 6;
        let parameter = |at: usize| if numbered { format!("${}", at + 1) } else { "?".to_owned() };
        Self(std::array::from_fn(|log| {
            let rows = (0..1 << log).map(|row| {
                let columns: Vec<_> = (0..COLUMNS).map(|column| parameter(row * COLUMNS + column)).collect();
                format!("({})", columns.join(", "))
            });
            let rows = rows.collect::<Vec<_>>().join(", ");
            format!("INSERT INTO chunks (trace_id, signal, arrived, items, size, data) VALUES {rows}").into()
        }))
    }
}

/// Decompresses stored data.
pub(super) fn unpacked(packed: &[u8]) -> Result<Bytes, sqlx::Error> {
    let data = lz4_flex::decompress_size_prepended(packed);
    data.map(Bytes::from).map_err(|damage| sqlx::Error::Decode(Box::new(damage)))
}

/// Databases have no unsigned integers; ours stay far below the limit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
