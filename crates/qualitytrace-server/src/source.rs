//! Where traces come from: what was sent to this server.

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, Trace};

use crate::clock;
use crate::follow::Following;
use crate::ingest::Ingest;
use crate::otlp::convert;
use crate::register::SharedRegister;
use crate::store::{self, Signal, Store, StoredChunk, TraceSize};

/// Reads and follows traces.
#[derive(Debug, Clone)]
pub struct Source {
    store: Store,
    ingest: Arc<Ingest>,
}

/// Spans that arrived together.
#[derive(Debug)]
pub struct Arrival {
    /// When they arrived.
    pub at: Timestamp,
    /// Bytes of the request that brought them.
    bytes: u64,
    /// The spans.
    pub spans: Vec<Span>,
}

/// How far somebody has read a trace.
#[derive(Debug, Default)]
pub struct Cursor {
    last: Timestamp,
    /// Chunks read so far.
    count: u64,
    /// When it was last looked for more.
    looked: Timestamp,
}

impl Source {
    /// A source over what the ingest takes in.
    pub fn new(store: Store, ingest: Arc<Ingest>) -> Self {
        Self { store, ingest }
    }

    /// Wakes whenever the trace has changed.
    pub fn follow(&self, trace: TraceId) -> Following {
        self.ingest.follow(trace)
    }

    /// What is known of everyone who sends.
    pub fn register(&self) -> &SharedRegister {
        self.ingest.register()
    }

    /// Up to so many of the traces that arrived here lately, and to which nothing was added since `before`.
    pub(crate) fn take_samples(&self, before: Timestamp, most: usize) -> Vec<TraceId> {
        self.ingest.take_samples(before, most)
    }

    /// What will never be here of a trace, in a sentence.
    pub fn refused(&self, trace: TraceId) -> Option<String> {
        let spans = self.ingest.crowded_out(trace);
        (spans > 0).then(|| {
            format!("{spans} spans of the trace were refused, because it had too many (limits.spansPerTrace)")
        })
    }

    /// What was sent since then and refused, of whichever trace it was, in a sentence.
    pub(crate) fn refused_since(&self, since: Timestamp) -> Option<String> {
        self.ingest.refusals().since(since)
    }

    /// Up to when everything that senders were able to deliver can be read.
    pub fn horizon(&self, now: Timestamp) -> Timestamp {
        self.ingest.horizon(now)
    }

    /// Wakes whenever something of the trace arrives at this server.
    pub(crate) fn relay(&self, trace: TraceId) -> Following {
        self.ingest.relay(trace)
    }

    /// Something of the trace arrived at another server.
    pub(crate) fn changed_elsewhere(&self, trace: TraceId) {
        self.ingest.changed_elsewhere(Some(trace));
    }

    /// Something may have arrived at another server.
    pub(crate) fn anything_changed_elsewhere(&self) {
        self.ingest.changed_elsewhere(None);
    }

    /// What arrived at these points in time, with the trace of each.
    pub async fn arrivals(&self, at: &[Timestamp]) -> Result<Vec<(TraceId, Arrival)>, store::Error> {
        let chunks = self.store.chunks_of(at).await?.into_iter();
        let arrival = |(trace, StoredChunk { arrived, data })| (trace, Arrival::new(trace, arrived, data));
        Ok(chunks.map(arrival).collect())
    }

    /// What arrived of a trace since the cursor was last used, or all of it again: the answer says which.
    ///
    /// Servers that share a store do not commit in the order of their times of arrival. What came in between what was
    /// read already is found by its number, and then everything is read again. Nor do their clocks agree: what was not
    /// there at the last look did not arrive before it, and not later than now.
    pub async fn news(
        &self,
        trace: TraceId,
        cursor: &mut Cursor,
    ) -> Result<(Vec<Arrival>, bool), store::Error> {
        if !self.store.is_shared() {
            let arrivals = arrivals(&self.store, trace, cursor.last).await?;
            cursor.last = arrivals.last().map_or(cursor.last, |arrival| arrival.at);
            return Ok((arrivals, false));
        }
        let now = clock::now();
        let mut new = arrivals(&self.store, trace, cursor.last).await?;
        let count = self.store.chunk_count(trace, Signal::Spans).await?;
        let is_all = count != cursor.count + new.len() as u64;
        if is_all {
            new = arrivals(&self.store, trace, Timestamp::default()).await?;
            cursor.count = 0;
        }
        cursor.count += new.len() as u64;
        cursor.last = new.last().map_or(cursor.last, |arrival| arrival.at);
        for arrival in &mut new {
            arrival.at = arrival.at.max(cursor.looked).min(now);
        }
        cursor.looked = now;
        Ok((new, is_all))
    }

    /// The requests that brought spans of a trace, with those spans only.
    pub async fn requests(&self, trace: TraceId) -> Result<Vec<ExportTraceServiceRequest>, store::Error> {
        let chunks = self.store.chunks(trace, Signal::Spans, Timestamp::default()).await?;
        Ok(chunks
            .into_iter()
            .filter_map(|chunk| ExportTraceServiceRequest::decode(chunk.data).ok())
            .collect())
    }

    /// All that arrived of these traces, each as a tree, in one statement.
    pub async fn load_all(&self, traces: &[TraceId]) -> Result<Vec<Trace>, store::Error> {
        let mut spans: BTreeMap<TraceId, Vec<Span>> = BTreeMap::new();
        for (trace, chunk) in self.store.span_chunks(traces).await? {
            spans.entry(trace).or_default().extend(decode(trace, chunk.data));
        }
        Ok(spans.into_iter().map(|(trace, spans)| Trace::assemble(trace, spans)).collect())
    }

    /// All that arrived of a trace, as a tree.
    pub async fn load(&self, trace: TraceId) -> Result<Trace, store::Error> {
        load(&self.store, trace).await
    }
}

/// All that is stored of a trace, as a tree.
pub async fn load(store: &Store, trace: TraceId) -> Result<Trace, store::Error> {
    let arrivals = arrivals(store, trace, Timestamp::default()).await?;
    Ok(Trace::assemble(trace, arrivals.into_iter().flat_map(|arrival| arrival.spans)))
}

async fn arrivals(store: &Store, trace: TraceId, after: Timestamp) -> Result<Vec<Arrival>, store::Error> {
    let chunks = store.chunks(trace, Signal::Spans, after).await?;
    Ok(chunks.into_iter().map(|chunk| Arrival::new(trace, chunk.arrived, chunk.data)).collect())
}

impl Arrival {
    fn new(trace: TraceId, at: Timestamp, data: bytes::Bytes) -> Self {
        let bytes = data.len() as u64;
        Self { at, bytes, spans: decode(trace, data) }
    }

    /// How much of the trace it is.
    pub(crate) fn size(&self) -> TraceSize {
        TraceSize { spans: self.spans.len() as u64, bytes: self.bytes }
    }
}

fn decode(trace: TraceId, data: bytes::Bytes) -> Vec<Span> {
    match ExportTraceServiceRequest::decode(data) {
        Ok(request) => convert::spans(request)
            .into_iter()
            .filter(|(named, _)| *named == Some(trace))
            .map(|(_, span)| span)
            .collect(),
        Err(error) => {
            // Only checked bytes are stored, so this is damage in the database.
            tracing::error!(%error, %trace, "a stored chunk cannot be decoded and is left out");
            Vec::new()
        }
    }
}
