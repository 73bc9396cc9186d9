//! Why a data store gave no trace, and whether asking again may help.

use std::time::Duration;

use crate::outbound::trigger::{Reason, TriggerError};

/// A request to a data store that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FetchError {
    /// What failed, with the next step.
    pub(crate) failure: TriggerError,
    /// Whether the store answered that it cannot answer now.
    pub(crate) is_passing: bool,
    /// When the store wants to be asked again.
    pub(crate) retry_after: Option<Duration>,
}

impl FetchError {
    /// A failure on the store's side, which may be over at the next request.
    pub(crate) fn passing(failure: TriggerError) -> Self {
        Self { failure, is_passing: true, retry_after: None }
    }

    /// Whether the settings are wrong, so that asking again does not help. A store that has answered before may be
    /// restarting.
    pub(crate) fn is_permanent(&self, has_answered: bool) -> bool {
        match self.failure.reason {
            _ if self.is_passing => false,
            Reason::Invalid
            | Reason::Tls
            | Reason::Protocol
            | Reason::Credentials
            | Reason::Missing
            | Reason::Denied
            | Reason::TooLarge
            | Reason::Unsupported => true,
            Reason::Dns | Reason::Refused | Reason::Unreachable | Reason::Cut => !has_answered,
            Reason::Timeout => false,
        }
    }
}

impl From<TriggerError> for FetchError {
    fn from(failure: TriggerError) -> Self {
        Self { failure, is_passing: false, retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_asking_again_may_change_is_passing() {
        let error = |reason| FetchError::from(TriggerError::told(reason, String::new()));
        for reason in [Reason::Credentials, Reason::Tls, Reason::Missing, Reason::Denied, Reason::Protocol] {
            assert!(error(reason).is_permanent(false) && error(reason).is_permanent(true), "{reason:?}");
        }
        for reason in [Reason::Refused, Reason::Dns, Reason::Cut, Reason::Unreachable] {
            assert!(error(reason).is_permanent(false) && !error(reason).is_permanent(true), "{reason:?}");
        }
        assert!(!error(Reason::Timeout).is_permanent(false));
        let busy = FetchError::passing(TriggerError::told(Reason::Protocol, String::new()));
        assert!(!busy.is_permanent(false));
    }
}
