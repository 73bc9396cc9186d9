//! Spans from files: they pass through the same pipeline as those of exporters, with its limits and counters.

use std::sync::Arc;

use bytes::Bytes;

use super::http::Whole;
use super::intake::{Encoding, Format, Incoming, Refusal, Signal, take};
use crate::ingest::{Accepted, Ingest};

/// Why the spans of a file were not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotStored {
    /// They are too large or invalid.
    #[error("{message}")]
    Refused { message: String, is_too_large: bool },
    /// The same file may be stored later.
    #[error("{0}")]
    Later(String),
}

/// Stores the spans of a file, an encoded export request. `sender` identifies the client in the budget.
pub(crate) async fn store_file(
    ingest: &Arc<Ingest>,
    sender: String,
    message: Bytes,
) -> Result<Accepted, NotStored> {
    let (incoming, framing) = (Incoming::of_file(message), Whole { encoding: Encoding::Identity });
    let stored = take(ingest, sender, Signal::Traces, Format::Protobuf, incoming, framing).await;
    stored.map_err(|refusal| match &refusal {
        Refusal::TooLarge { .. } => NotStored::Refused { message: refusal.to_string(), is_too_large: true },
        Refusal::Malformed(_) | Refusal::Incomplete(_) => {
            NotStored::Refused { message: refusal.to_string(), is_too_large: false }
        }
        Refusal::Later(_) => NotStored::Later(refusal.to_string()),
    })
}
