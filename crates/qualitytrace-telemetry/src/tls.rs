//! TLS configuration for clients: trusted authorities and the client certificate.

use std::sync::{Arc, OnceLock};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedProtocolVersion,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject},
    },
    version::{TLS12, TLS13},
};

/// Which certificates are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust<'a> {
    /// All certificates.
    AnyCertificate,
    /// Those that an authority of the system has signed.
    System,
    /// Those that one of these authorities, in PEM, has signed.
    Authorities(&'a [u8]),
}

/// A client certificate, in PEM.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// The certificate and its chain to an authority.
    pub certificate: &'a [u8],
    /// Its private key.
    pub key: &'a [u8],
}

/// Which versions of TLS are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Versions {
    /// 1.2 and 1.3.
    #[default]
    Both,
    /// 1.2.
    Tls12,
    /// 1.3.
    Tls13,
}

impl Versions {
    fn protocols(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::Both => vec![&TLS13, &TLS12],
            Self::Tls12 => vec![&TLS12],
            Self::Tls13 => vec![&TLS13],
        }
    }
}

/// Why a TLS configuration cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The authorities.
    #[error("the authorities cannot be used: {0}")]
    Authorities(String),
    /// Our own certificate.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// Its key.
    #[error("the key cannot be used: {0}")]
    Key(String),
    /// The TLS configuration as a whole.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// Builds the configuration of a client; `alpn` lists the protocols to negotiate.
pub fn client(
    trust: Trust<'_>,
    identity: Option<Identity<'_>>,
    versions: Versions,
    alpn: &[&[u8]],
) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions.protocols())?;
    let builder = match trust {
        Trust::AnyCertificate => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        }
        Trust::System => builder.with_root_certificates(system()),
        Trust::Authorities(pem) => builder.with_root_certificates(authorities(pem)?),
    };
    let mut config = match identity {
        Some(Identity { certificate, key }) => {
            let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(certificate).collect();
            let chain = chain.map_err(|error| Error::Certificate(error.to_string()))?;
            if chain.is_empty() {
                return Err(Error::Certificate("it holds no certificate".to_owned()));
            }
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| Error::Key(error.to_string()))?;
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Makes a client look for this name in the certificate of its peer, instead of the host that it connects to. `trust` is
/// the one that the client was built with.
pub(crate) fn expect_name(
    config: &mut ClientConfig,
    trust: Trust<'_>,
    name: ServerName<'static>,
) -> Result<(), Error> {
    let roots = match trust {
        Trust::AnyCertificate => return Ok(()),
        Trust::System => system(),
        Trust::Authorities(pem) => Arc::new(authorities(pem)?),
    };
    let provider = Arc::clone(config.crypto_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
    let verifier = verifier.map_err(|error| Error::Authorities(error.to_string()))?;
    config.dangerous().set_certificate_verifier(Arc::new(Named { name, verifier }));
    Ok(())
}

/// The authorities of the system, read once: there are many of them.
fn system() -> Arc<RootCertStore> {
    static STORE: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(store)
    };
    Arc::clone(STORE.get_or_init(read))
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| Error::Authorities(error.to_string()))?;
        store.add(certificate).map_err(|error| Error::Authorities(error.to_string()))?;
    }
    if store.is_empty() {
        return Err(Error::Authorities("there is no certificate among them".to_owned()));
    }
    Ok(store)
}

/// A verifier that accepts any certificate, because the configuration says so.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
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

/// A verifier that looks for one name in every certificate, whatever the host is.
#[derive(Debug)]
struct Named {
    name: ServerName<'static>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verifier.verify_server_cert(certificate, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
