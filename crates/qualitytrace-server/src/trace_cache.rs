//! Traces that are kept in memory between requests: as columns, and decoded.
//!
//! An entry is valid for the last arrival of its trace. Columns are extended by what arrived since; a decoded trace is
//! decoded again.

use std::sync::Arc;
use std::time::Instant;

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Trace;
use tokio::sync::Mutex;

use crate::budget::Budget;
use crate::cache::Cache;
use crate::clock;
use crate::columns::Columns;
use crate::otlp::heads::Head;
use crate::source::{Cursor, NewChunk, Source};
use crate::store;

/// Columns may hold one part of this many of the API's memory.
const COLUMNS_PART: u64 = 4;
/// Decoded traces may hold one part of this many.
const DECODED_PART: u64 = 2;

/// A trace, with the trigger of a run as its root if there is one.
pub(crate) type Key = (TraceId, Option<SpanId>);

/// The cached traces.
#[derive(Debug)]
pub(crate) struct TraceCache {
    columns: Cache<Key, Mutex<LiveColumns>>,
    decoded: Cache<Key, Decoded>,
}

/// A decoded trace with its secrets redacted.
#[derive(Debug)]
struct Decoded {
    version: Version,
    trace: Arc<Trace>,
}

/// What a decoded trace was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    /// The last arrival.
    pub(crate) revision: Timestamp,
    /// The number of deliveries: servers that share a store do not commit in the order of arrival.
    pub(crate) deliveries: u64,
    /// The mark of the secrets that are redacted.
    pub(crate) mark: u64,
}

/// The columns of a trace to which spans are still added.
#[derive(Debug)]
pub(crate) struct LiveColumns {
    pub(crate) columns: Columns,
    cursor: Cursor,
    /// When the store was last asked for new spans.
    asked: Option<Instant>,
}

impl TraceCache {
    /// Creates a cache that takes its memory from the budget of the API, which has this size.
    pub(crate) fn new(api_bytes: u64, api: &Budget) -> Self {
        Self {
            columns: Cache::new(Budget::new(api_bytes / COLUMNS_PART), api.clone()),
            decoded: Cache::new(Budget::new(api_bytes / DECODED_PART), api.clone()),
        }
    }

    /// Follows a change of the budget's size.
    pub(crate) fn resize(&self, api_bytes: u64) {
        self.columns.resize(api_bytes / COLUMNS_PART);
        self.decoded.resize(api_bytes / DECODED_PART);
    }

    /// Frees memory for others, decoded traces first: they are large.
    pub(crate) fn evict(&self, bytes: u64) {
        self.decoded.evict(bytes);
        self.columns.evict(bytes);
    }

    /// Returns a decoded trace, if it was made of this.
    pub(crate) fn decoded(&self, key: &Key, version: Version) -> Option<Arc<Trace>> {
        let decoded = self.decoded.get(key).filter(|decoded| decoded.version == version)?;
        Some(Arc::clone(&decoded.trace))
    }

    /// Keeps a decoded trace that takes this much memory.
    pub(crate) fn keep_decoded(&self, key: Key, version: Version, trace: &Arc<Trace>, bytes: u64) {
        self.decoded.keep(key, Arc::new(Decoded { version, trace: Arc::clone(trace) }), bytes);
    }

    /// Whether the columns of a trace are here.
    pub(crate) fn has_columns(&self, key: &Key) -> bool {
        self.columns.get(key).is_some()
    }

    /// Reads the columns of a trace, with all that arrived before the call.
    pub(crate) async fn columns<T>(
        &self,
        source: &Source,
        key: Key,
        trigger: Option<&Head<'_>>,
        read: impl FnOnce(&Columns) -> T,
    ) -> Result<T, store::Error> {
        let called = Instant::now();
        let live = self.columns.get(&key).unwrap_or_else(|| {
            let new = Arc::new(Mutex::new(LiveColumns::new(key.0, trigger)));
            self.columns.keep(key, Arc::clone(&new), 0);
            new
        });
        let mut own = live.lock().await;
        let before = own.columns.bytes();
        // What others asked for since the call is as new as what this one would get.
        if own.asked.is_none_or(|asked| asked < called) {
            own.read_on(source, key.0, trigger).await?;
        }
        if let Some(trigger) = trigger {
            own.columns.set_trigger(trigger.start, trigger.end);
        }
        if own.columns.bytes() != before {
            self.columns.keep(key, Arc::clone(&live), own.columns.bytes());
        }
        Ok(read(&own.columns))
    }
}

impl LiveColumns {
    fn new(trace: TraceId, trigger: Option<&Head<'_>>) -> Self {
        Self { columns: Columns::new(trace, trigger), cursor: Cursor::noticing_removal(), asked: None }
    }

    /// Adds what has arrived since it was last read.
    async fn read_on(
        &mut self,
        source: &Source,
        trace: TraceId,
        trigger: Option<&Head<'_>>,
    ) -> Result<(), store::Error> {
        let asked = Instant::now();
        let Self { columns, cursor, .. } = self;
        let mut is_restarted = false;
        let add = |new: NewChunk| match new {
            NewChunk::Restart => {
                *columns = Columns::new(trace, trigger);
                is_restarted = true;
            }
            NewChunk::Chunk(chunk) => {
                if let Err(error) = columns.deliver(chunk.arrived, &chunk.data) {
                    // Only checked bytes are stored, so the database is damaged.
                    tracing::error!(%error, %trace, "a stored chunk cannot be read and is left out");
                }
            }
        };
        source.each_new_chunk(trace, cursor, add).await?;
        columns.finish();
        if is_restarted {
            columns.change_all(clock::now());
        }
        self.asked = Some(asked);
        Ok(())
    }
}
