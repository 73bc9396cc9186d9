//! Traces that are kept in memory between requests: as columns, and decoded.
//!
//! An entry is valid for the last arrival of its trace. Columns are extended by what arrived since; a decoded trace is
//! decoded again.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Trace;
use tokio::sync::Mutex;

use crate::base::budget::Budget;
use crate::base::cache::Cache;
use crate::base::clock;
use crate::base::redact::Redactor;
use crate::receive::columns::Columns;
use crate::receive::otlp::heads::Head;
use crate::receive::source::{Cursor, NewChunk, Source};
use crate::storage::store;
use crate::storage::variables::RunSecrets;
use crate::wire::columns::ColumnsQuery;

/// Columns may hold one part of this many of the API's memory.
const COLUMNS_PART: u64 = 4;
/// Decoded traces may hold one part of this many.
const DECODED_PART: u64 = 2;

/// Responses that are kept with the columns of a trace.
const MAX_RESPONSES: usize = 4;
/// The size of the largest response that is kept.
const MAX_RESPONSE_BYTES: usize = 256 << 10;

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
    columns: Columns,
    cursor: Cursor,
    /// Redacts the secrets of the trace.
    redactor: Redactor,
    /// The mark of those secrets.
    mark: Option<u64>,
    /// When the store was last asked for new spans.
    asked: Option<Instant>,
    /// Responses made of the columns as they are: all who follow a trace ask for the same rows.
    responses: Vec<(ColumnsQuery, Bytes)>,
    /// The bytes that the cache has counted.
    counted: u64,
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

    /// Returns the columns of a trace, with all that arrived before the call.
    pub(crate) async fn columns(
        &self,
        source: &Source,
        key: Key,
        trigger: Option<&Head<'_>>,
    ) -> Result<Arc<Mutex<LiveColumns>>, store::Error> {
        let called = Instant::now();
        let live = self.columns.get(&key).unwrap_or_else(|| {
            let new = Arc::new(Mutex::new(LiveColumns::new(key.0, trigger)));
            self.columns.keep(key, Arc::clone(&new), 0);
            new
        });
        let mut own = live.lock().await;
        // What others asked for since the call is as new as what this one would get.
        if own.asked.is_none_or(|asked| asked < called) {
            own.read_on(source, key.0, trigger).await?;
        }
        if let Some(trigger) = trigger
            && own.columns.set_trigger(trigger.start, trigger.end)
        {
            own.responses.clear();
        }
        self.count(key, &live, &mut own);
        drop(own);
        Ok(live)
    }

    /// Returns the response to a request, which is made once for all that ask for the same.
    pub(crate) async fn response(
        &self,
        key: Key,
        live: &Arc<Mutex<LiveColumns>>,
        asked: ColumnsQuery,
        make: impl FnOnce(&LiveColumns) -> Bytes,
    ) -> Bytes {
        let mut own = live.lock().await;
        let response = own.response(asked, make);
        self.count(key, live, &mut own);
        response
    }

    /// Counts the memory that the columns of a trace take now.
    fn count(&self, key: Key, live: &Arc<Mutex<LiveColumns>>, own: &mut LiveColumns) {
        let bytes = own.bytes();
        if bytes != own.counted {
            own.counted = bytes;
            self.columns.keep(key, Arc::clone(live), bytes);
        }
    }
}

impl LiveColumns {
    fn new(trace: TraceId, trigger: Option<&Head<'_>>) -> Self {
        Self {
            columns: Columns::new(trace, trigger),
            cursor: Cursor::noticing_removal(),
            redactor: Redactor::default(),
            mark: None,
            asked: None,
            responses: Vec::new(),
            counted: 0,
        }
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Returns the redactor of the secrets that the trace may contain.
    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns the kept response to a request, or makes and keeps it.
    fn response(&mut self, asked: ColumnsQuery, make: impl FnOnce(&Self) -> Bytes) -> Bytes {
        if let Some((_, kept)) = self.responses.iter().find(|(known, _)| *known == asked) {
            return kept.clone();
        }
        let made = make(self);
        if made.len() <= MAX_RESPONSE_BYTES {
            if self.responses.len() == MAX_RESPONSES {
                self.responses.remove(0);
            }
            self.responses.push((asked, made.clone()));
        }
        made
    }

    /// The bytes that it takes in memory, roughly.
    fn bytes(&self) -> u64 {
        let responses: usize = self.responses.iter().map(|(_, kept)| kept.len()).sum();
        self.columns.bytes() + responses as u64
    }

    /// Adds what has arrived since it was last read.
    async fn read_on(
        &mut self,
        source: &Source,
        trace: TraceId,
        trigger: Option<&Head<'_>>,
    ) -> Result<(), store::Error> {
        let asked = Instant::now();
        // Whoever finds this read cut off reads again: its spans may be here without their redactor.
        self.asked = None;
        let Self { columns, cursor, responses, .. } = self;
        let mut is_restarted = false;
        let add = |new: NewChunk| match new {
            NewChunk::Restart => {
                *columns = Columns::new(trace, trigger);
                responses.clear();
                is_restarted = true;
            }
            NewChunk::Chunk(chunk) => {
                responses.clear();
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
        // After the spans: a secret is stored before it can be in one.
        let withheld = RunSecrets::of(source.store(), &[trace]).await?;
        let mark = Some(withheld.mark(trace));
        if self.mark != mark {
            (self.redactor, self.mark) = (withheld.redactor(trace)?, mark);
            self.responses.clear();
        }
        self.asked = Some(asked);
        Ok(())
    }
}
