//! Connections to hosts, with or without TLS, and what can go wrong on the way.

use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::failure::{Failure, Place, Reason, root_cause};

/// How long a connection may take to come about.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection, whatever is below.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// How a connection is secured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    /// Not at all.
    Plain,
    /// TLS with whoever answers.
    Trusting,
    /// TLS with the one whose certificate is valid.
    Verifying,
}

/// Connects; `alpn` names the protocol that TLS is to agree on.
pub(super) async fn connect(
    place: &Place,
    security: Security,
    alpn: &[u8],
) -> Result<Box<dyn Connection>, Failure> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, open(place, security, alpn)).await;
    connecting.unwrap_or_else(|_| Err(Failure::at(place, Reason::Timeout, "")))
}

async fn open(place: &Place, security: Security, alpn: &[u8]) -> Result<Box<dyn Connection>, Failure> {
    let host = place.host.trim_start_matches('[').trim_end_matches(']');
    let port = place.port.unwrap_or(443);
    let addresses: Vec<_> = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| Failure::at(place, Reason::Dns, &error.to_string()))?
        .collect();
    let stream = TcpStream::connect(addresses.as_slice()).await.map_err(|error| {
        let refused = error.kind() == ErrorKind::ConnectionRefused;
        let reason = if refused { Reason::Refused } else { Reason::Unreachable };
        Failure::at(place, reason, &error.to_string())
    })?;
    // A trigger is one small request: it must not wait for a second packet.
    let _ = stream.set_nodelay(true);
    if security == Security::Plain {
        return Ok(Box::new(stream));
    }
    let failed = |error: &Error| Failure::at(place, Reason::Tls, &root_cause(error));
    let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&Error::other(error)))?;
    let mut config = config(security).map_err(|error| failed(&Error::other(error)))?;
    config.alpn_protocols = vec![alpn.to_vec()];
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| failed(&error))?))
}

fn config(security: Security) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    Ok(match security {
        Security::Verifying => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        Security::Plain | Security::Trusting => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth(),
    })
}

/// Accepts any certificate, because the test says so.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
