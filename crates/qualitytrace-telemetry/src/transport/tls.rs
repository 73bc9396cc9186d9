//! TLS as a sink wants it: the system's authorities or its own, with or without a client certificate.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

use crate::config::Tls;

pub(crate) fn client(tls: &Tls, alpn: &[&[u8]]) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if tls.skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)))
    } else {
        builder.with_root_certificates(roots(tls)?)
    };
    let mut config = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => {
            let chain: Vec<CertificateDer<'static>> =
                CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect).map_err(|error| {
                    format!("the certificate `{}` cannot be read: {error}", certificate.display())
                })?;
            let private = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("the key `{}` cannot be read: {error}", key.display()))?;
            builder.with_client_auth_cert(chain, private).map_err(|error| error.to_string())?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

fn roots(tls: &Tls) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    if let Some(file) = &tls.ca {
        let unreadable = |error| format!("the authorities in `{}` cannot be read: {error}", file.display());
        for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
            let certificate = certificate.map_err(unreadable)?;
            store
                .add(certificate)
                .map_err(|error| format!("`{}` holds no authority: {error}", file.display()))?;
        }
        if store.is_empty() {
            return Err(format!("`{}` holds no certificate", file.display()));
        }
    } else {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(store)
}

/// Accepts any certificate, because the configuration says so.
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
