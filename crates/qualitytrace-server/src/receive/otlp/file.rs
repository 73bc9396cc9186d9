//! Spans from files and data stores: they pass through the same pipeline as those of exporters, with its limits and
//! counters.

use std::sync::Arc;

use bytes::Bytes;

use super::http::SingleMessage;
use super::intake::{Encoding, Format, Incoming, IntakeError, Signal, take};
use crate::receive::ingest::{Accepted, Ingest};

/// Why the spans were not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpanFileError {
    /// They are too large or invalid.
    #[error("{message}")]
    Refused { message: String, is_too_large: bool },
    /// The same spans may be stored later.
    #[error("{0}")]
    Later(String),
}

/// Stores the spans of a file, an encoded export request. `sender` identifies the client in the budget.
pub(crate) async fn store_file(
    ingest: &Arc<Ingest>,
    sender: String,
    message: Bytes,
) -> Result<Accepted, SpanFileError> {
    store(ingest, sender, Incoming::of_file(message)).await
}

/// Stores spans that were fetched from a data store, an encoded export request. `is_live` says whether they tell how
/// late their services deliver.
pub(crate) async fn store_fetched(
    ingest: &Arc<Ingest>,
    sender: String,
    message: Bytes,
    is_live: bool,
) -> Result<Accepted, SpanFileError> {
    store(ingest, sender, Incoming { is_live, ..Incoming::of_file(message) }).await
}

async fn store(ingest: &Arc<Ingest>, sender: String, incoming: Incoming) -> Result<Accepted, SpanFileError> {
    let framing = SingleMessage { encoding: Encoding::Identity };
    let stored = take(ingest, sender, Signal::Traces, Format::Protobuf, incoming, framing).await;
    stored.map_err(|refusal| match &refusal {
        IntakeError::TooLarge { .. } => {
            SpanFileError::Refused { message: refusal.to_string(), is_too_large: true }
        }
        IntakeError::Malformed(_) | IntakeError::Incomplete(_) => {
            SpanFileError::Refused { message: refusal.to_string(), is_too_large: false }
        }
        IntakeError::Later(_) => SpanFileError::Later(refusal.to_string()),
    })
}
