//! The configuration of the server: where to listen, where to store, and the limits.
//!
//! [`Inputs::read`] turns flags, variables and a file into a [`Config`], into the configuration of the telemetry, and
//! into a list that says where each setting came from. All settings are in one table, [`SETTINGS`].

mod change;
mod draft;
mod find;
mod live;
mod owner;
mod read;
mod slot;
mod table;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use qualitytrace_core::wait;

pub use change::UnchangedSetting;
pub use find::{FoundProject, project_file};
pub use live::Live;
pub use owner::{SAFE_DIRECTORY, TrustedOwners};
pub use read::{Error, Inputs, Resolved, Row};
pub use slot::Listen;
pub use table::{OLD_FLAGS, SETTINGS, Setting};

use crate::base::files::AllowedFiles;
use crate::base::limits::Limits;
use crate::http::access::Access;
use crate::http::access::host::AllowedHost;
use crate::http::tls::Certificate;
use crate::http::web::Page;
use crate::storage::provision::Provisioning;
use crate::storage::store::Store;
use crate::storage::vault::KeySource;

/// The port of the API and everything else.
pub const HTTP_PORT: u16 = 11633;
/// The standard port of OTLP over gRPC.
pub const OTLP_GRPC_PORT: u16 = 4317;
/// The standard port of OTLP over HTTP.
pub const OTLP_HTTP_PORT: u16 = 4318;
/// Headers whose values are redacted in the server's telemetry; `*` matches any text.
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

/// The configuration of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The main address: REST, OTLP over HTTP and gRPC.
    pub http: SocketAddr,
    /// The prefix of every path of the API; empty, or with a leading slash.
    pub path_prefix: String,
    /// Whether OTLP is accepted at all.
    pub otlp: bool,
    /// An additional address for OTLP over gRPC, if any.
    pub otlp_grpc: Option<SocketAddr>,
    /// An additional address for OTLP over HTTP, if any.
    pub otlp_http: Option<SocketAddr>,
    /// `sqlite::memory:`, `sqlite://FILE` or `postgres://...`.
    pub database_url: String,
    /// The folder for all files of the server.
    pub data_dir: Option<PathBuf>,
    /// How long to wait for a trace.
    pub wait: wait::Policy,
    /// Sizes, counts and timeouts.
    pub limits: Limits,
    /// Request headers whose values are not recorded; `*` matches any text.
    pub redact_headers: Vec<String>,
    /// Keys, tokens, hosts and certificates.
    pub safety: Safety,
    /// Definitions that are stored at the start.
    pub provisioning: Provisioning,
    /// The page for browsers that the program embeds. No setting changes it.
    pub page: Page,
}

/// The security settings: keys, tokens, hosts and certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Safety {
    /// `secrets.key`, `secrets.keyFile`: where to find the key that seals secrets.
    pub key: KeySource,
    /// `secrets.previousKey`, `secrets.previousKeyFile`: where to find the key that sealed secrets before.
    pub previous_key: Option<KeySource>,
    /// `auth.tokens`, `auth.otlp`: the tokens and their scopes.
    pub access: Access,
    /// `server.hosts`: host names that requests may use, besides loopback names and the server's own address.
    pub hosts: Vec<AllowedHost>,
    /// `server.tls.certFile`, `server.tls.keyFile`: TLS of the main port.
    pub tls: Option<Certificate>,
    /// `otlpServer.tls.certFile`, `otlpServer.tls.keyFile`: TLS of the OTLP ports.
    pub otlp_tls: Option<Certificate>,
    /// `dataStores.files`: where the files may be that data stores name.
    pub data_store_files: AllowedFiles,
}

/// The name of the key file in the data folder.
const KEY_FILE: &str = "secrets.key";

impl Config {
    /// Returns the folder of the database file if it is in the data folder: such a folder is made when it is missing.
    pub fn own_folder(&self) -> Option<PathBuf> {
        let data_dir = self.data_dir.as_ref()?;
        Store::folder(&self.database_url).filter(|folder| folder.starts_with(data_dir))
    }

    /// Returns the default file of the key that seals secrets.
    pub fn usual_key_file(&self) -> Option<PathBuf> {
        Some(self.data_dir.as_ref()?.join(KEY_FILE))
    }

    /// Whether other machines reach the API without a token.
    pub fn is_exposed(&self) -> bool {
        !self.http.ip().to_canonical().is_loopback() && self.safety.access.tokens.is_empty()
    }

    /// Returns the endpoint where a program on this machine exports spans; `None` when OTLP is off, or only offered
    /// with TLS.
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
    /// The standard ports on loopback, and a database in memory.
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
            page: Page::NONE,
        }
    }
}
