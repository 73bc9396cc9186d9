//! TLS of our own listeners: certificate and key from files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::base::files::{CREDENTIAL_BYTES, read};

/// A certificate with its key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The file with the certificate and its chain.
    pub certificate: PathBuf,
    /// The file with its key.
    pub key: PathBuf,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read, or has other content.
    #[error("the {what} in {} cannot be used: {cause}", path.display())]
    File {
        /// The expected content.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// Certificate and key do not match.
    #[error("the certificate in {} does not go with its key", path.display())]
    Pair {
        /// The file of the certificate.
        path: PathBuf,
        /// The error of rustls.
        #[source]
        source: rustls::Error,
    },
}

impl Certificate {
    /// Builds the acceptor. It offers both versions of HTTP.
    fn acceptor(&self) -> Result<TlsAcceptor, Error> {
        let text = read(&self.certificate, CREDENTIAL_BYTES)
            .map_err(|error| wrong("certificate", &self.certificate, &error.to_string()))?;
        let chain = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| wrong("certificate", &self.certificate, &error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong("certificate", &self.certificate, "it holds no certificate in PEM"));
        }
        let text =
            read(&self.key, CREDENTIAL_BYTES).map_err(|error| wrong("key", &self.key, &error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(&text)
            .map_err(|error| wrong("key", &self.key, &error.to_string()))?;
        let pair = |source| Error::Pair { path: self.certificate.clone(), source };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(pair)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(pair)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// TLS with a certificate that can be replaced.
#[derive(Clone)]
pub(crate) struct Tls(Arc<RwLock<TlsAcceptor>>);

impl Tls {
    pub(crate) fn new(certificate: &Certificate) -> Result<Self, Error> {
        Ok(Self(Arc::new(RwLock::new(certificate.acceptor()?))))
    }

    /// Returns the acceptor for the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Loads a certificate from its files and uses it for new connections. Open connections keep theirs.
    pub(crate) fn replace(&self, certificate: &Certificate) -> Result<(), Error> {
        let acceptor = certificate.acceptor()?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

fn wrong(what: &'static str, path: &Path, cause: &str) -> Error {
    Error::File { what, path: path.to_owned(), cause: cause.to_owned() }
}
