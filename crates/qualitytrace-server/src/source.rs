//! Where traces come from: what was sent to this server.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, Trace};
use tokio::sync::watch;

use crate::ingest::Ingest;
use crate::otlp::convert;
use crate::store::{self, Signal, Store};

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
    /// The spans.
    pub spans: Vec<Span>,
}

impl Source {
    /// A source over what the ingest takes in.
    pub fn new(store: Store, ingest: Arc<Ingest>) -> Self {
        Self { store, ingest }
    }

    /// Wakes whenever the trace has changed.
    pub fn follow(&self, trace: TraceId) -> watch::Receiver<u64> {
        self.ingest.follow(trace)
    }

    /// Up to when everything that senders were able to deliver can be read.
    pub fn horizon(&self, now: Timestamp) -> Timestamp {
        self.ingest.horizon(now)
    }

    /// What arrived of a trace after a point in time.
    pub async fn arrivals(&self, trace: TraceId, after: Timestamp) -> Result<Vec<Arrival>, store::Error> {
        arrivals(&self.store, trace, after).await
    }

    /// Whether something of a trace arrived at a point in time or later.
    pub async fn arrived_after(&self, trace: TraceId, at: Timestamp) -> Result<bool, store::Error> {
        let before = Timestamp::from_nanos(at.as_nanos().saturating_sub(1));
        Ok(!self.store.chunks(trace, Signal::Spans, before).await?.is_empty())
    }

    /// The requests that brought spans of a trace, with those spans only.
    pub async fn requests(&self, trace: TraceId) -> Result<Vec<ExportTraceServiceRequest>, store::Error> {
        let chunks = self.store.chunks(trace, Signal::Spans, Timestamp::default()).await?;
        Ok(chunks
            .into_iter()
            .filter_map(|chunk| ExportTraceServiceRequest::decode(chunk.data).ok())
            .collect())
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
    Ok(chunks
        .into_iter()
        .map(|chunk| Arrival { at: chunk.arrived, spans: decode(trace, chunk.data) })
        .collect())
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
