//! What the server is told: where to listen, where to store, how much to take.
//!
//! [`Inputs::read`] turns flags, variables and a file into a [`Config`], into the configuration of the telemetry, and
//! into a list that says where each setting came from. All settings stand in one table, [`SETTINGS`].

mod change;
mod draft;
mod find;
mod live;
mod read;
mod slot;
mod table;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use qualitytrace_core::wait;

pub use change::Kept;
pub use live::Live;
pub use read::{Error, Inputs, Resolved, Row};
pub use slot::Listen;
pub use table::{OLD_FLAGS, SETTINGS, Setting};

use crate::access::Access;
use crate::access::host::AllowedHost;
use crate::limits::Limits;
use crate::listen::Certificate;
use crate::provision::Provisioning;
use crate::store::Store;
use crate::vault::KeyPlace;

/// The port of the API, the page, and everything else.
pub const HTTP_PORT: u16 = 11633;
/// The port where OTLP over gRPC is expected.
pub const OTLP_GRPC_PORT: u16 = 4317;
/// The port where OTLP over HTTP is expected.
pub const OTLP_HTTP_PORT: u16 = 4318;
/// Headers whose values never leave the server in its telemetry; `*` stands for any text.
const SECRET_HEADERS: [&str; 12] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "*api-key*",
    "*token*",
    "*secret*",
    "*password*",
    "*credential*",
    "*auth*",
    "*bearer*",
    "baggage",
];

/// Where to listen, where to store, how much to take.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The main address: REST, OTLP over HTTP and gRPC.
    pub http: SocketAddr,
    /// Stands before every path of the API; empty, or with a leading slash.
    pub path_prefix: String,
    /// Whether OTLP is taken at all.
    pub otlp: bool,
    /// A further address for OTLP over gRPC; `None` for none.
    pub otlp_grpc: Option<SocketAddr>,
    /// A further address for OTLP over HTTP; `None` for none.
    pub otlp_http: Option<SocketAddr>,
    /// `sqlite::memory:`, `sqlite://FILE` or `postgres://...`.
    pub database_url: String,
    /// The folder of everything that the server keeps in files.
    pub data_dir: Option<PathBuf>,
    /// How long to wait for a trace.
    pub wait: wait::Policy,
    /// How much to take.
    pub limits: Limits,
    /// Request headers whose values are not recorded; `*` stands for any text.
    pub redact_headers: Vec<String>,
    /// What protects it.
    pub safety: Safety,
    /// What is stored before anybody asks.
    pub provisioning: Provisioning,
}

/// What protects a server and what it keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Safety {
    /// `secrets.key`, `secrets.keyFile`: where the key is that seals secrets.
    pub key: KeyPlace,
    /// `secrets.previousKey`, `secrets.previousKeyFile`: where the key is that sealed secrets before.
    pub previous_key: Option<KeyPlace>,
    /// `auth.tokens`, `auth.otlp`: who may do what.
    pub access: Access,
    /// `server.hosts`: under which names it is asked, besides loopback names and its own address.
    pub hosts: Vec<AllowedHost>,
    /// `server.tls.certFile`, `server.tls.keyFile`: TLS on the main port.
    pub tls: Option<Certificate>,
    /// `otlpServer.tls.certFile`, `otlpServer.tls.keyFile`: TLS on the ports for OTLP.
    pub otlp_tls: Option<Certificate>,
}

/// The key file in the data folder.
const KEY_FILE: &str = "secrets.key";

impl Config {
    /// The folder of a database file that lies in the data folder: such a one is made when it is not there.
    pub fn own_folder(&self) -> Option<PathBuf> {
        let data_dir = self.data_dir.as_ref()?;
        Store::folder(&self.database_url).filter(|folder| folder.starts_with(data_dir))
    }

    /// The file of the key that seals secrets, unless another one is named.
    pub fn usual_key_file(&self) -> Option<PathBuf> {
        Some(self.data_dir.as_ref()?.join(KEY_FILE))
    }

    /// Whether others than this machine reach the API and need no token.
    pub fn is_exposed(&self) -> bool {
        !self.http.ip().to_canonical().is_loopback() && self.safety.access.tokens.is_empty()
    }

    /// Where a program on this machine delivers spans; `None` when none are taken, or not without TLS.
    pub(crate) fn otlp_endpoint(&self) -> Option<String> {
        let Safety { tls, otlp_tls, .. } = &self.safety;
        let own = self.otlp_http.or(self.otlp_grpc).filter(|_| otlp_tls.is_none());
        let main = Some(self.http).filter(|_| tls.is_none());
        let mut address = own.or(main).filter(|address| self.otlp && address.port() != 0)?;
        match address.ip() {
            IpAddr::V4(any) if any.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(any) if any.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            IpAddr::V4(_) | IpAddr::V6(_) => {}
        }
        Some(format!("http://{address}"))
    }
}

impl Default for Config {
    /// The usual ports on loopback, and nothing kept.
    fn default() -> Self {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            http: at(HTTP_PORT),
            path_prefix: String::new(),
            otlp: true,
            otlp_grpc: Some(at(OTLP_GRPC_PORT)),
            otlp_http: Some(at(OTLP_HTTP_PORT)),
            database_url: "sqlite::memory:".to_owned(),
            data_dir: None,
            wait: wait::Policy::default(),
            limits: Limits::default(),
            redact_headers: SECRET_HEADERS.map(str::to_owned).to_vec(),
            safety: Safety::default(),
            provisioning: Provisioning::default(),
        }
    }
}
