//! Decoding of what others send, JSON and protobuf: measured first, and within a budget.
//!
//! The size of a text does not tell what it takes in memory: `{}` is three bytes with its comma, and becomes some
//! hundreds. Every answer of a data store, every file and every text inside of another one passes through here, or
//! through the decoders of OTLP, which measure more closely.

mod weight;

use bytes::Bytes;
use prost::Message;
use serde::de::DeserializeOwned;

use crate::base::budget::{Lease, MemoryBudgetError};

pub(crate) use weight::{json_weight, protobuf_weight};

/// Larger messages are decoded on a blocking thread, so that other work is not delayed.
const INLINE_BYTES: usize = 1 << 20;

/// Why something was not decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not what it should be.
    #[error("{0}")]
    Malformed(String),
    /// Decoded, it takes more memory than there ever is.
    #[error("it takes more memory than the {limit} bytes that there are for it")]
    TooLarge {
        /// The memory that there is.
        limit: u64,
    },
    /// Others have the memory.
    #[error("others have the memory that it takes; try again later")]
    Busy,
}

impl From<MemoryBudgetError> for DecodeError {
    fn from(short: MemoryBudgetError) -> Self {
        match short {
            MemoryBudgetError::Now => Self::Busy,
            MemoryBudgetError::Ever { limit } => Self::TooLarge { limit },
        }
    }
}

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<prost::DecodeError> for DecodeError {
    fn from(error: prost::DecodeError) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<String> for DecodeError {
    fn from(cause: String) -> Self {
        Self::Malformed(cause)
    }
}

/// The memory that a decoder may take.
pub(crate) trait Room {
    /// Takes bytes.
    fn take(&mut self, bytes: u64) -> Result<(), MemoryBudgetError>;
    /// The bytes that are taken.
    fn taken(&self) -> u64;
    /// Gives back all but these bytes.
    fn shrink_to(&mut self, bytes: u64);
}

impl Room for Lease {
    fn take(&mut self, bytes: u64) -> Result<(), MemoryBudgetError> {
        self.grow(bytes)
    }

    fn taken(&self) -> u64 {
        self.bytes()
    }

    fn shrink_to(&mut self, bytes: u64) {
        Self::shrink_to(self, bytes);
    }
}

/// A fixed amount of memory, for answers that are always small, and for files of one's own.
#[derive(Debug)]
pub(crate) struct Allowance {
    limit: u64,
    taken: u64,
}

impl Allowance {
    /// What a short answer may take: a token, a list of names.
    pub(crate) const SMALL: u64 = 16 << 20;
    /// What the description of a service may take: its messages, its schema.
    pub(crate) const DESCRIPTION: u64 = 256 << 20;

    /// Allows this many bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, taken: 0 }
    }
}

impl Room for Allowance {
    fn take(&mut self, bytes: u64) -> Result<(), MemoryBudgetError> {
        let taken = self.taken.saturating_add(bytes);
        if taken > self.limit {
            return Err(MemoryBudgetError::Ever { limit: self.limit });
        }
        self.taken = taken;
        Ok(())
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    fn shrink_to(&mut self, bytes: u64) {
        self.taken = self.taken.min(bytes);
    }
}

/// Decodes JSON.
pub(crate) fn json<T: DeserializeOwned>(text: &[u8], room: &mut impl Room) -> Result<T, DecodeError> {
    room.take(json_weight(text))?;
    Ok(serde_json::from_slice(text)?)
}

/// Decodes JSON that takes at most so many bytes in memory.
pub(crate) fn json_within<T: DeserializeOwned>(text: &[u8], limit: u64) -> Result<T, DecodeError> {
    json(text, &mut Allowance::new(limit))
}

/// Decodes JSON documents that follow each other.
pub(crate) fn json_documents<T: DeserializeOwned>(
    text: &[u8],
    room: &mut impl Room,
) -> Result<Vec<T>, DecodeError> {
    room.take(json_weight(text))?;
    let documents = serde_json::Deserializer::from_slice(text).into_iter();
    documents.map(|document| document.map_err(DecodeError::from)).collect()
}

/// Decodes a message whose inner messages take at most `item` bytes each. It may take `limit` bytes in memory.
pub(crate) fn protobuf_within<M: Message + Default>(
    bytes: &[u8],
    item: u64,
    limit: u64,
) -> Result<M, DecodeError> {
    if protobuf_weight(bytes, item, limit).is_none() {
        return Err(DecodeError::TooLarge { limit });
    }
    Ok(M::decode(bytes)?)
}

/// Decodes a message that has neither lists nor inner messages: it takes no more than its bytes.
pub(crate) fn flat_protobuf<M: Message + Default>(bytes: Bytes) -> Result<M, DecodeError> {
    Ok(M::decode(bytes)?)
}

/// Decodes bytes that a lease covers; what they become is covered by the lease that is returned with it. Large ones do
/// not hold up the thread, which has others to serve.
pub(crate) async fn decoded<T: Send + 'static>(
    bytes: Bytes,
    mut lease: Lease,
    decode: impl FnOnce(Bytes, &mut Lease) -> Result<T, DecodeError> + Send + 'static,
) -> Result<(T, Lease), DecodeError> {
    let is_small = bytes.len() <= INLINE_BYTES;
    let work = move || decode(bytes, &mut lease).map(|decoded| (decoded, lease));
    if is_small {
        crate::base::compute::give_way().await;
        return work();
    }
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(DecodeError::Busy))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::base::budget::Budget;

    #[test]
    fn a_text_is_measured_before_it_is_decoded() {
        let text = format!("[{}{{}}]", "{},".repeat(1_000));
        assert!(json_within::<Value>(text.as_bytes(), 1 << 20).is_ok());
        let refused = json_within::<Value>(text.as_bytes(), 64 << 10);
        assert_eq!(refused, Err(DecodeError::TooLarge { limit: 64 << 10 }));
        // A type that would refuse it at its first letter does not change that.
        let refused = json_within::<String>(text.as_bytes(), 64 << 10);
        assert_eq!(refused, Err(DecodeError::TooLarge { limit: 64 << 10 }));
        let refused = json_documents::<Value>(text.as_bytes(), &mut Allowance::new(64 << 10));
        assert_eq!(refused, Err(DecodeError::TooLarge { limit: 64 << 10 }));
    }

    #[tokio::test]
    async fn what_was_decoded_keeps_its_memory_until_it_is_dropped() {
        let budget = Budget::new(1 << 20);
        let text = Bytes::from_static(b"[{},{},{}]");
        let decode = |text: Bytes, lease: &mut Lease| json::<Value>(&text, lease);
        let (_value, lease) = decoded(text.clone(), budget.lease().unwrap(), decode).await.unwrap();
        assert!(lease.bytes() >= 3 * size_of::<Value>() as u64);
        let mut other = budget.lease().unwrap();
        other.grow((1 << 20) - lease.bytes().next_multiple_of(1 << 10)).unwrap();
        let refused = decoded(text, budget.lease().unwrap(), decode).await;
        assert_eq!(refused.map(|_| ()), Err(DecodeError::Busy));
    }
}
