//! The gate that every outbound connection passes: which addresses may be spoken to, and whose certificates are trusted.
//!
//! Every address that a user makes the server speak to is looked up here, and here only. What is checked is the address
//! that is connected to, not the name that it was found by: no name can mean another address a moment later.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use qualitytrace_core::definition::trigger::Tls;
use qualitytrace_telemetry::tls::{self, Identity, Trust};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::deny::Deny;
use super::failure::{Failure, Place, Reason, tls_cause};
use super::progress;
use crate::limits::Limits;

/// A connection, whatever is below.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// How a connection is secured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Security {
    /// Not at all.
    Plain,
    /// By TLS.
    Tls(Certificates),
}

/// Whom a trigger trusts, and who we are; all in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Certificates {
    verify: bool,
    authorities: String,
    certificate: String,
    key: String,
}

/// What the server's settings say about outbound connections. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    /// `trigger.deny`.
    deny: Deny,
    /// `trigger.verifyCertificates`.
    verify: bool,
}

impl Gate {
    /// The gate that these limits describe.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self { deny: limits.deny.clone(), verify: limits.verify_certificates }
    }

    /// Whether certificates are verified where a trigger asks for it or not.
    pub(super) fn verifies(&self, wanted: bool) -> bool {
        wanted || self.verify
    }

    /// Whom a trigger trusts, and who we are.
    pub(super) fn certificates(&self, tls: Option<&Tls>, verify: bool) -> Certificates {
        let text = |of: fn(&Tls) -> &str| tls.map(of).unwrap_or_default().to_owned();
        Certificates {
            verify: self.verifies(verify),
            authorities: text(|tls| &tls.ca.value),
            certificate: text(|tls| &tls.certificate.value),
            key: text(|tls| &tls.key.value),
        }
    }

    /// Refuses a host by the way it is written.
    pub(super) fn host(&self, host: &str) -> Result<(), Failure> {
        self.deny.host(host).map_err(|denied| Failure::told(Reason::Denied, denied.to_string()))
    }

    /// Refuses a host by what its name means here and now, for somebody else who connects to it. A name that is unknown
    /// here may be known there.
    pub(super) async fn host_elsewhere(&self, place: &Place) -> Result<(), Failure> {
        self.host(&place.host)?;
        if self.deny == Deny::default() {
            return Ok(());
        }
        match self.addresses(bare(&place.host), 0).await {
            Err(error) => match Failure::of_lookup(place, &error) {
                failure if failure.reason == Reason::Denied => Err(failure),
                _ => Ok(()),
            },
            Ok(_) => Ok(()),
        }
    }

    /// The addresses of a host that may be spoken to.
    pub(crate) async fn addresses(&self, host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        let refused = |denied| std::io::Error::new(ErrorKind::PermissionDenied, denied);
        self.deny.host(host).map_err(refused)?;
        let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
        if found.is_empty() {
            return Err(std::io::Error::new(ErrorKind::NotFound, "the name has no address"));
        }
        self.deny.addresses(host, found).map_err(refused)
    }

    /// A connection to one of the addresses of a host that may be spoken to.
    pub(crate) async fn tcp(&self, host: &str, port: u16) -> std::io::Result<TcpStream> {
        let addresses = self.addresses(bare(host), port).await?;
        TcpStream::connect(addresses.as_slice()).await
    }

    /// Connects; `alpn` names the protocol that TLS is to agree on, if any.
    pub(super) async fn connect(
        &self,
        place: &Place,
        security: &Security,
        alpn: &[&[u8]],
    ) -> Result<Box<dyn Connection>, Failure> {
        progress::asks(place, None);
        progress::connecting(self.open(place, security, alpn)).await
    }

    async fn open(
        &self,
        place: &Place,
        security: &Security,
        alpn: &[&[u8]],
    ) -> Result<Box<dyn Connection>, Failure> {
        let host = bare(&place.host);
        let addresses = self.addresses(host, place.port.unwrap_or(443)).await;
        let addresses = addresses.map_err(|error| Failure::of_lookup(place, &error))?;
        let stream = TcpStream::connect(addresses.as_slice()).await.map_err(|error| {
            let refused = error.kind() == ErrorKind::ConnectionRefused;
            let reason = if refused { Reason::Refused } else { Reason::Unreachable };
            Failure::at(place, reason, &error.to_string())
        })?;
        // A trigger is one small request: it must not wait for a second packet.
        let _ = stream.set_nodelay(true);
        let Security::Tls(certificates) = security else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| Failure::at(place, Reason::Tls, &error.to_string()))?;
        let config = certificates.client(alpn)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| Failure::at(place, Reason::Tls, &tls_cause(&error)))?))
    }
}

/// A host without the brackets that an IPv6 address has in a URL.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

impl Certificates {
    /// The settings of a client; `alpn` names the protocols that both sides may agree on.
    pub(super) fn client(&self, alpn: &[&[u8]]) -> Result<ClientConfig, Failure> {
        let trust = match (self.verify, self.authorities.as_bytes()) {
            (false, _) => Trust::Anyone,
            (true, []) => Trust::System,
            (true, authorities) => Trust::Authorities(authorities),
        };
        let identity = Identity { certificate: self.certificate.as_bytes(), key: self.key.as_bytes() };
        let identity = (!self.certificate.is_empty()).then_some(identity);
        tls::client(trust, identity, alpn).map_err(|error| {
            if let tls::Error::Setup(rustls::Error::InconsistentKeys(_)) = error {
                return Failure::invalid(
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
            Failure::invalid(format!("the trigger's `{key}`: {error}; it takes the text of a PEM file"))
        })
    }
}
