//! The source of traces: spans that were sent to this server.

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, Trace};

use crate::base::clock;
use crate::receive::ingest::Ingest;
use crate::receive::otlp::convert::Decoder;
use crate::receive::otlp::weight;
use crate::storage::store::{self, Signal, Store, StoredChunk, TraceSize};

/// Reads traces and subscribes to their changes.
#[derive(Debug, Clone)]
pub struct Source {
    store: Store,
    ingest: Arc<Ingest>,
}

/// Values are counted in traces of this size, in bytes; smaller ones do not matter whatever they hold.
const COUNTED_FROM: u64 = 1 << 20;

/// Spans that arrived in one request.
#[derive(Debug)]
pub struct Arrival {
    /// When they arrived.
    pub at: Timestamp,
    /// The size of the request that carried them.
    pub(crate) size: TraceSize,
    /// The spans; `None` if they would take more memory than allowed.
    pub spans: Option<Vec<Span>>,
}

/// A chunk that is new to a reader.
#[derive(Debug)]
pub(crate) enum NewChunk {
    /// It arrived after those visited before.
    Chunk(StoredChunk),
    /// All chunks follow again: one arrived between those visited before.
    Restart,
}

/// A read position in a trace.
#[derive(Debug, Default)]
pub struct Cursor {
    last: Timestamp,
    /// Chunks read so far.
    count: u64,
    /// When the trace was last read.
    looked: Timestamp,
    /// Whether chunks that are removed are noticed.
    notices_removal: bool,
    decoder: Decoder,
}

impl Cursor {
    /// Returns the beginning of a trace, for a reader that keeps what it read: it restarts when chunks are removed.
    pub(crate) fn noticing_removal() -> Self {
        Self { notices_removal: true, ..Self::default() }
    }
}

impl Source {
    /// Creates a source for the spans that the ingest receives.
    pub fn new(store: Store, ingest: Arc<Ingest>) -> Self {
        Self { store, ingest }
    }

    /// Returns the store of the spans.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the ingest that receives the spans.
    pub fn ingest(&self) -> &Arc<Ingest> {
        &self.ingest
    }

    /// Describes spans of a trace that were refused for good.
    pub fn refused(&self, trace: TraceId) -> Option<String> {
        let spans = self.ingest.crowded_out(trace);
        (spans > 0).then(|| {
            format!("{spans} spans of the trace were refused, because it had too many (limits.spansPerTrace)")
        })
    }

    /// Measures the stored spans of these traces.
    pub(crate) async fn size(&self, traces: &[TraceId]) -> Result<TraceSize, store::Error> {
        let estimated = self.store.trace_size(traces).await?;
        if estimated.bytes < COUNTED_FROM {
            return Ok(estimated);
        }
        let mut size = TraceSize { spans: estimated.spans, ..TraceSize::default() };
        for trace in traces {
            let add = |chunk: StoredChunk| size.add(size_of(0, &chunk));
            self.store.each_chunk(*trace, Signal::Spans, Timestamp::default(), add).await?;
        }
        Ok(size)
    }

    /// Measures the spans that arrived at these times.
    pub(crate) async fn arrival_size(&self, at: &[Timestamp]) -> Result<TraceSize, store::Error> {
        let estimated = self.store.arrival_size(at).await?;
        if estimated.bytes < COUNTED_FROM {
            return Ok(estimated);
        }
        let mut size = TraceSize { spans: estimated.spans, ..TraceSize::default() };
        for at in at {
            let chunks = self.store.chunks_of(&[*at]).await?;
            for (_, chunk) in &chunks {
                size.add(size_of(0, chunk));
            }
        }
        Ok(size)
    }

    /// Returns what arrived at these times, each with its trace. Spans that would take more than this many bytes in
    /// memory are left out.
    pub async fn arrivals(
        &self,
        at: &[Timestamp],
        mut limit: u64,
    ) -> Result<Vec<(TraceId, Arrival)>, store::Error> {
        let chunks = self.store.chunks_of(at).await?.into_iter();
        let mut decoder = Decoder::default();
        Ok(chunks
            .map(|(trace, chunk)| (trace, Arrival::new(trace, chunk, &mut decoder, &mut limit)))
            .collect())
    }

    /// Returns what arrived of a trace since the cursor was last used, or all of it again; the flag says that it is
    /// all. Spans that would take more than `limit` bytes in memory are left out. Clocks of servers that share a store do not agree: a chunk that was not there at the last read is taken to
    /// have arrived after it, and not later than now.
    pub async fn news(
        &self,
        trace: TraceId,
        cursor: &mut Cursor,
        limit: u64,
    ) -> Result<(Vec<Arrival>, bool), store::Error> {
        let (mut arrivals, mut is_all) = (Vec::new(), false);
        let mut left = limit;
        let now = clock::now();
        let mut decoder = std::mem::take(&mut cursor.decoder);
        let add = |new| match new {
            NewChunk::Restart => {
                arrivals.clear();
                (is_all, left) = (true, limit);
            }
            NewChunk::Chunk(chunk) => arrivals.push(Arrival::new(trace, chunk, &mut decoder, &mut left)),
        };
        self.each_new_chunk(trace, cursor, add).await?;
        cursor.decoder = decoder;
        if self.store.is_shared() {
            for arrival in &mut arrivals {
                arrival.at = arrival.at.max(cursor.looked).min(now);
            }
            cursor.looked = now;
        }
        Ok((arrivals, is_all))
    }

    /// Visits the chunks of a trace that arrived since the cursor was last used, in order of arrival.
    ///
    /// Servers that share a store do not commit in the order of arrival times. A chunk that was committed between those
    /// read already is noticed by the number of chunks, and then everything is visited again.
    pub(crate) async fn each_new_chunk(
        &self,
        trace: TraceId,
        cursor: &mut Cursor,
        mut visit: impl FnMut(NewChunk) + Send,
    ) -> Result<(), store::Error> {
        self.read_on(trace, cursor, &mut visit).await?;
        let is_counted = self.store.is_shared() || cursor.notices_removal;
        if is_counted && self.store.chunk_count(trace, Signal::Spans).await? != cursor.count {
            visit(NewChunk::Restart);
            (cursor.last, cursor.count) = (Timestamp::default(), 0);
            self.read_on(trace, cursor, &mut visit).await?;
        }
        Ok(())
    }

    async fn read_on(
        &self,
        trace: TraceId,
        cursor: &mut Cursor,
        visit: &mut (impl FnMut(NewChunk) + Send),
    ) -> Result<(), store::Error> {
        let after = cursor.last;
        let each = |chunk: StoredChunk| {
            (cursor.last, cursor.count) = (chunk.arrived, cursor.count + 1);
            visit(NewChunk::Chunk(chunk));
        };
        self.store.each_chunk(trace, Signal::Spans, after, each).await
    }

    /// Returns the requests that delivered spans of a trace, reduced to those spans.
    pub async fn requests(&self, trace: TraceId) -> Result<Vec<ExportTraceServiceRequest>, store::Error> {
        let chunks = self.store.chunks(trace, Signal::Spans, Timestamp::default()).await?;
        Ok(chunks
            .into_iter()
            .filter_map(|chunk| ExportTraceServiceRequest::decode(chunk.data).ok())
            .collect())
    }

    /// Loads these traces as trees, with one statement.
    pub async fn load_all(&self, traces: &[TraceId]) -> Result<Vec<Trace>, store::Error> {
        let mut spans: BTreeMap<TraceId, Vec<Span>> = BTreeMap::new();
        let mut decoder = Decoder::default();
        for (trace, chunk) in self.store.span_chunks(traces).await? {
            spans.entry(trace).or_default().extend(decode(trace, chunk.data, &mut decoder));
        }
        Ok(spans.into_iter().map(|(trace, spans)| Trace::assemble(trace, spans)).collect())
    }

    /// Loads a trace as a tree.
    pub async fn load(&self, trace: TraceId) -> Result<Trace, store::Error> {
        load(&self.store, trace).await
    }
}

/// Loads a stored trace as a tree.
pub async fn load(store: &Store, trace: TraceId) -> Result<Trace, store::Error> {
    let (mut spans, mut decoder) = (Vec::new(), Decoder::default());
    let add = |chunk: StoredChunk| spans.extend(decode(trace, chunk.data, &mut decoder));
    store.each_chunk(trace, Signal::Spans, Timestamp::default(), add).await?;
    Ok(Trace::assemble(trace, spans))
}

impl Arrival {
    /// Decodes a chunk, if it takes no more than `left` bytes, which are reduced by what it takes.
    fn new(trace: TraceId, chunk: StoredChunk, decoder: &mut Decoder, left: &mut u64) -> Self {
        let (at, mut size) = (chunk.arrived, size_of(0, &chunk));
        if size.in_memory() > *left {
            return Self { at, size, spans: None };
        }
        let spans = decode(trace, chunk.data, decoder);
        size.spans = spans.len() as u64;
        *left = left.saturating_sub(size.decoded());
        Self { at, size, spans: Some(spans) }
    }
}

fn size_of(spans: u64, chunk: &StoredChunk) -> TraceSize {
    TraceSize::of_request(spans, chunk.data.len() as u64, weight::values(&chunk.data))
}

fn decode(trace: TraceId, data: bytes::Bytes, decoder: &mut Decoder) -> Vec<Span> {
    match ExportTraceServiceRequest::decode(data) {
        Ok(request) => decoder
            .spans(request)
            .into_iter()
            .filter(|(named, _)| *named == Some(trace))
            .map(|(_, span)| span)
            .collect(),
        Err(error) => {
            // Only checked bytes are stored, so the database is damaged.
            tracing::error!(%error, %trace, "a stored chunk cannot be decoded and is left out");
            Vec::new()
        }
    }
}
