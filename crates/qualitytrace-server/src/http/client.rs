//! The client of the request that the current task serves.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;

use crate::base::request::ConnectInfo;
use crate::http::access::{Access, token};

tokio::task_local! {
    static CURRENT: Client;
}

/// A client, identified by its token and address; neither for the server itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client {
    /// The redacted token; empty if there is none.
    pub(crate) token: String,
    /// The address of the peer.
    pub(crate) address: Option<IpAddr>,
    /// The id of the resource that the request changed, if its path does not contain it.
    changed: Arc<Mutex<Option<String>>>,
}

impl Client {
    pub(crate) fn new(token: String, address: Option<IpAddr>) -> Self {
        Self { token, address, changed: Arc::default() }
    }

    /// Returns the client of this request, with its token if that is known.
    pub(crate) fn of(request: &Parts, access: &Access) -> Self {
        let token = token(&request.headers).filter(|_| !access.tokens.is_empty());
        let token = token.and_then(|token| access.holder(&token));
        let address = request.extensions.get::<ConnectInfo>().map(|info| info.peer);
        Self::new(token.map(ToString::to_string).unwrap_or_default(), address)
    }

    /// Runs work on behalf of this client.
    pub(crate) async fn serve<T>(self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// The key for its share of a budget: its token, else its address. Of IPv6 the /64 network counts, which is what
    /// one subscriber has.
    pub(crate) fn key(&self) -> String {
        if self.token.is_empty() { self.network() } else { self.token.clone() }
    }

    /// The key for its share where many clients use one token: token and address.
    pub(crate) fn sender(&self) -> String {
        format!("{} {}", self.token, self.network())
    }

    fn network(&self) -> String {
        match self.address {
            Some(IpAddr::V6(address)) if address.to_ipv4_mapped().is_none() => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
            Some(address) => address.to_canonical().to_string(),
            None => String::new(),
        }
    }

    /// Returns the key of the client whose request is being served; empty outside of a request.
    pub(crate) fn current_key() -> String {
        CURRENT.try_with(Self::key).unwrap_or_default()
    }

    /// Records the id of the resource that the request changed.
    pub(crate) fn note_changed(id: &str) {
        // Fails outside of a request: changes by the server itself are not recorded here.
        let _ = CURRENT.try_with(|client| {
            *client.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.to_owned());
        });
    }

    /// Returns the recorded id.
    pub(crate) fn changed(&self) -> Option<String> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_belongs_to_a_token_or_to_an_address() {
        let key = |token: &str, address: &str| Client::new(token.to_owned(), address.parse().ok()).key();
        assert_eq!(key("full:sha256:aa...", "10.0.0.1"), "full:sha256:aa...");
        assert_eq!(key("", "10.0.0.1"), "10.0.0.1");
        assert_eq!(key("", "::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!(key("", "2001:db8:1:2:3:4:5:6"), key("", "2001:db8:1:2:ffff::1"));
        assert_ne!(key("", "2001:db8:1:2::1"), key("", "2001:db8:1:3::1"));
        let sender =
            |address: &str| Client::new("ingest:sha256:aa...".to_owned(), address.parse().ok()).sender();
        assert_ne!(sender("10.0.0.1"), sender("10.0.0.2"), "senders often share a token");
    }
}
