//! Finished spans and log records between the call sites and the recorder: OTLP bytes, except for what differs between
//! sinks.

use opentelemetry::trace::TraceId;

use crate::{
    config::{Level, Role, Signal},
    propagation::Parents,
};

/// One finished span or log record.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) head: Head,
    /// Fields that are the same for all sinks, then attributes, then events.
    pub(crate) bytes: Vec<u8>,
}

/// What sinks decide by, and the layout of the bytes.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) level: Level,
    /// Its `tracing` target.
    pub(crate) target: &'static str,
    pub(crate) trace_id: TraceId,
    /// When it was finished, in nanoseconds since 1970.
    pub(crate) time: u64,
    /// Bytes of the fields that are the same for all sinks.
    pub(crate) plain: usize,
    /// Bytes of the attributes after them.
    pub(crate) attributes: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Span { role: Role, remote: Option<bool>, parents: Parents },
    Log,
}

impl Head {
    pub(crate) fn signal(&self) -> Signal {
        match self.kind {
            Kind::Span { .. } => Signal::Traces,
            Kind::Log => Signal::Logs,
        }
    }
}

/// A buffer of records, whose memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Page {
    heads: Vec<(Head, usize)>,
    bytes: Vec<u8>,
}

/// The capacity that a page keeps when it is emptied.
const KEPT_RECORDS: usize = 4_096;
const KEPT_BYTES: usize = 1 << 20;

impl Page {
    pub(crate) fn new() -> Self {
        Self { heads: Vec::with_capacity(KEPT_RECORDS), bytes: Vec::with_capacity(KEPT_BYTES) }
    }

    pub(crate) fn push(&mut self, record: &Record) {
        self.heads.push((record.head.clone(), record.bytes.len()));
        self.bytes.extend_from_slice(&record.bytes);
    }

    /// Records in it.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Bytes in it.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// When the first record was finished.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.heads.first().map(|(head, _)| head.time)
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = (&Head, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.heads.iter().map(move |(head, len)| {
            let (bytes, after) = rest.split_at(*len);
            rest = after;
            (head, bytes)
        })
    }

    /// Moves the first records to the end of another page.
    pub(crate) fn give(&mut self, count: usize, other: &mut Self) {
        let count = count.min(self.heads.len());
        let bytes = self.heads[..count].iter().map(|(_, len)| len).sum::<usize>();
        other.heads.extend(self.heads.drain(..count));
        other.bytes.extend(self.bytes.drain(..bytes));
    }

    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.heads.shrink_to(KEPT_RECORDS);
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}
