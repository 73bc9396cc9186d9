//! What the server attaches to every request: its id, and the addresses of its connection.

use std::net::IpAddr;

use http::HeaderName;

/// The request id, in the headers of the request and of the response.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The two addresses of the connection of a request, in its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectInfo {
    /// The address of the client, or of the proxy before it.
    pub(crate) peer: IpAddr,
    /// Our address, as the client reaches it.
    pub(crate) local: Option<IpAddr>,
}
