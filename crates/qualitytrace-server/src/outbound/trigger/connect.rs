//! The gate of every outbound connection: which addresses are allowed, and which certificates are trusted.
//!
//! Every address that a user makes the server connect to is resolved here, and here only. The check applies to the
//! resolved address that is connected to, not to its name: a name cannot resolve to another address a moment later.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use qualitytrace_core::definition::trigger::Tls;
use qualitytrace_telemetry::tls::{self, Identity, Trust, Versions};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::failure::{Endpoint, Reason, TriggerError, tls_cause};
use super::progress;
use crate::base::limits::Limits;
use crate::base::limits::deny::Deny;

/// A byte stream, with or without TLS.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// The transport security of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Security {
    /// No TLS.
    Plain,
    /// TLS.
    Tls(Certificates),
}

/// The trusted authorities and the client certificate of a trigger or data store; all in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Certificates {
    pub(crate) verify: bool,
    pub(crate) authorities: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The name that the server's certificate must have; empty for that of the host.
    pub(crate) server_name: String,
    /// The versions of TLS to use.
    pub(crate) versions: Versions,
}

/// The server's settings for outbound connections. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    /// `trigger.deny`.
    deny: Deny,
    /// `trigger.verifyCertificates`.
    verify: bool,
}

impl Gate {
    /// Creates the gate that these limits describe.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self { deny: limits.deny.clone(), verify: limits.verify_certificates }
    }

    /// Whether certificates are verified: if the trigger asks for it, or if the server requires it.
    pub(crate) fn verifies(&self, wanted: bool) -> bool {
        wanted || self.verify
    }

    /// Returns the certificates of a trigger.
    pub(super) fn certificates(&self, tls: Option<&Tls>, verify: bool) -> Certificates {
        let text = |of: fn(&Tls) -> &str| tls.map(of).unwrap_or_default().to_owned();
        Certificates {
            verify: self.verifies(verify),
            authorities: text(|tls| &tls.ca.value),
            certificate: text(|tls| &tls.certificate.value),
            key: text(|tls| &tls.key.value),
            server_name: String::new(),
            versions: Versions::default(),
        }
    }

    /// Refuses a host by its spelling.
    pub(crate) fn host(&self, host: &str) -> Result<(), TriggerError> {
        self.deny.host(host).map_err(|denied| TriggerError::told(Reason::Denied, denied.to_string()))
    }

    /// Refuses a host that another process will connect to, also by the addresses that its name has here and now. A
    /// name that is unknown here may be known there.
    pub(super) async fn host_elsewhere(&self, endpoint: &Endpoint) -> Result<(), TriggerError> {
        self.host(&endpoint.host)?;
        if self.deny == Deny::default() {
            return Ok(());
        }
        match self.addresses(bare(&endpoint.host), 0).await {
            Err(error) => match TriggerError::of_lookup(endpoint, &error) {
                failure if failure.reason == Reason::Denied => Err(failure),
                _ => Ok(()),
            },
            Ok(_) => Ok(()),
        }
    }

    /// Resolves a host and returns its allowed addresses.
    pub(crate) async fn addresses(&self, host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        let refused = |denied| std::io::Error::new(ErrorKind::PermissionDenied, denied);
        self.deny.host(host).map_err(refused)?;
        let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
        if found.is_empty() {
            return Err(std::io::Error::new(ErrorKind::NotFound, "the name has no address"));
        }
        self.deny.addresses(host, found).map_err(refused)
    }

    /// Connects to one of the allowed addresses of a host.
    pub(crate) async fn tcp(&self, host: &str, port: u16) -> std::io::Result<TcpStream> {
        let addresses = self.addresses(bare(host), port).await?;
        TcpStream::connect(addresses.as_slice()).await
    }

    /// Connects; `alpn` lists the protocols to negotiate with TLS, if any.
    pub(crate) async fn connect(
        &self,
        endpoint: &Endpoint,
        security: &Security,
        alpn: &[&[u8]],
    ) -> Result<Box<dyn Connection>, TriggerError> {
        progress::asks(endpoint, None);
        progress::connecting(self.open(endpoint, security, alpn)).await
    }

    async fn open(
        &self,
        endpoint: &Endpoint,
        security: &Security,
        alpn: &[&[u8]],
    ) -> Result<Box<dyn Connection>, TriggerError> {
        let host = bare(&endpoint.host);
        let addresses = self.addresses(host, endpoint.port.unwrap_or(443)).await;
        let addresses = addresses.map_err(|error| TriggerError::of_lookup(endpoint, &error))?;
        let stream = TcpStream::connect(addresses.as_slice()).await.map_err(|error| {
            let refused = error.kind() == ErrorKind::ConnectionRefused;
            let reason = if refused { Reason::Refused } else { Reason::Unreachable };
            TriggerError::at(endpoint, reason, &error.to_string())
        })?;
        // A trigger is one small request: it must not be delayed by Nagle's algorithm.
        let _ = stream.set_nodelay(true);
        let Security::Tls(certificates) = security else {
            return Ok(Box::new(stream));
        };
        let name = if certificates.server_name.is_empty() { host } else { &certificates.server_name };
        let name = ServerName::try_from(name.to_owned())
            .map_err(|error| TriggerError::at(endpoint, Reason::Tls, &error.to_string()))?;
        let config = certificates.client(alpn)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        Ok(Box::new(
            stream.map_err(|error| {
                TriggerError::at(endpoint, Reason::Tls, &tls_cause(&error, endpoint.role))
            })?,
        ))
    }
}

/// Removes the brackets that an IPv6 address has in a URL.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

impl Certificates {
    /// Builds the TLS configuration of a client; `alpn` lists the protocols to negotiate.
    pub(super) fn client(&self, alpn: &[&[u8]]) -> Result<ClientConfig, TriggerError> {
        self.client_config(alpn).map_err(|error| {
            if let tls::Error::Setup(rustls::Error::InconsistentKeys(_)) = error {
                return TriggerError::invalid(
                    "the trigger's `tls.key` does not belong to its `tls.certificate`; give it the key that the \
                     certificate was made for",
                );
            }
            let key = match &error {
                tls::Error::Authorities(_) => "tls.ca",
                tls::Error::Certificate(_) => "tls.certificate",
                tls::Error::Key(_) => "tls.key",
                tls::Error::Setup(_) => "tls",
            };
            TriggerError::invalid(format!("the trigger's `{key}`: {error}; it takes the text of a PEM file"))
        })
    }

    /// The same, for other settings than those of a trigger.
    pub(crate) fn client_config(&self, alpn: &[&[u8]]) -> Result<ClientConfig, tls::Error> {
        let trust = match (self.verify, self.authorities.as_bytes()) {
            (false, _) => Trust::AnyCertificate,
            (true, []) => Trust::System,
            (true, authorities) => Trust::Authorities(authorities),
        };
        let identity = Identity { certificate: self.certificate.as_bytes(), key: self.key.as_bytes() };
        let identity = (!self.certificate.is_empty()).then_some(identity);
        tls::client(trust, identity, self.versions, alpn)
    }
}

/// Resolves names through the gate, for HTTP clients.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    pub(crate) gate: Gate,
    /// Looked up instead of every name: the name in the address is that of a certificate.
    pub(crate) instead: Option<String>,
}

impl Resolver {
    /// Begins an HTTP client that resolves names so.
    pub(crate) fn client(self) -> reqwest::ClientBuilder {
        reqwest::Client::builder().dns_resolver(self)
    }
}

impl reqwest::dns::Resolve for Resolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let Self { gate, instead } = self.clone();
        Box::pin(async move {
            let name = instead.as_deref().unwrap_or(name.as_str());
            let found = gate.addresses(bare(name), 0).await?;
            Ok(Box::new(found.into_iter()) as reqwest::dns::Addrs)
        })
    }
}
