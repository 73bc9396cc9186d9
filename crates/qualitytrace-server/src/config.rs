//! What the server is told at start.

use std::net::SocketAddr;

use qualitytrace_core::wait;

use crate::limits::Limits;
use crate::vault::KeyPlace;

/// The port of the API, the page, and everything else.
pub const HTTP_PORT: u16 = 11633;
/// The port where OTLP over gRPC is expected.
pub const OTLP_GRPC_PORT: u16 = 4317;
/// The port where OTLP over HTTP is expected.
pub const OTLP_HTTP_PORT: u16 = 4318;

/// Where to listen, where to store, how much to take.
#[derive(Debug, Clone)]
pub struct Config {
    /// The main address: REST, OTLP over HTTP and gRPC.
    pub http: SocketAddr,
    /// A further address for OTLP over gRPC; `None` for none.
    pub otlp_grpc: Option<SocketAddr>,
    /// A further address for OTLP over HTTP; `None` for none.
    pub otlp_http: Option<SocketAddr>,
    /// `sqlite::memory:`, `sqlite://FILE` or `postgres://...`.
    pub database_url: String,
    /// How long to wait for a trace.
    pub wait: wait::Policy,
    /// How much to take.
    pub limits: Limits,
    /// What protects it.
    pub safety: Safety,
}

/// What protects a server and what it keeps.
#[derive(Debug, Clone, Default)]
pub struct Safety {
    /// `secrets.key`, `secrets.keyFile`: where the key is that seals secrets.
    pub key: KeyPlace,
}
