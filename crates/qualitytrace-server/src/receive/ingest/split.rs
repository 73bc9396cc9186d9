//! A request as the ingest takes it: checked, and split by trace.

use bytes::Bytes;
use qualitytrace_core::id::TraceId;

use crate::receive::register::Sender;

/// The items of one request that belong to one trace, encoded as a valid request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The trace.
    pub trace: TraceId,
    /// The number of spans or log records.
    pub items: u32,
    /// An encoded export request.
    pub data: Bytes,
}

/// A request, split by trace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// One chunk for each trace, in the order in which the traces first appear.
    pub chunks: Vec<Chunk>,
    /// The number of items without a valid trace id.
    pub without_trace: u64,
    /// The processes that sent the items.
    pub senders: Vec<Sender>,
}

impl Split {
    /// Returns the number of spans or log records that have a trace.
    pub fn items(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.items)).sum()
    }
}
