//! The answers of data stores: how long they may be, and the memory that all of them share.

use super::error::FetchError;
use crate::base::budget::{Budget, Lease};
use crate::base::decode::DecodeError;
use crate::outbound::trigger::{Endpoint, Reason, TriggerError};

/// What answers may take.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    /// The longest answer in bytes.
    pub(super) limit: u64,
    /// The memory of all answers, decoded ones included.
    pub(super) budget: Budget,
}

impl Answers {
    /// Returns the memory of a new answer: nothing yet.
    pub(super) fn lease(&self, endpoint: &Endpoint) -> Result<Lease, FetchError> {
        self.budget.lease().map_err(|short| short_of_memory(endpoint, short.into()))
    }
}

/// Describes an answer that there is no memory for.
pub(super) fn short_of_memory(endpoint: &Endpoint, error: DecodeError) -> FetchError {
    match error {
        DecodeError::TooLarge { limit } => {
            let cause = format!(
                "it takes more memory than the {limit} bytes that the answers of all data stores share; raise \
                 `limits.apiBytes`"
            );
            TriggerError::at(endpoint, Reason::TooLarge, &cause).into()
        }
        DecodeError::Busy => {
            let message = format!(
                "there is no memory for what {} answers: the answers of other data stores have it; raise \
                 `limits.apiBytes`, or run fewer tests at one time",
                endpoint.named()
            );
            FetchError::passing(TriggerError::told(Reason::Timeout, message))
        }
        DecodeError::Malformed(cause) => TriggerError::at(endpoint, Reason::Protocol, &cause).into(),
    }
}
