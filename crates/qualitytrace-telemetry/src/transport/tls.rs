//! TLS configuration of a sink: the system's authorities or its own, with or without a client certificate.

use std::path::Path;

use rustls::{ClientConfig, pki_types::ServerName};

use crate::config::Tls;
use crate::tls::{self, Identity, Trust, Versions};

pub(crate) fn client(settings: &Tls, alpn: &[&[u8]]) -> Result<ClientConfig, String> {
    let read = |file: &Path| {
        std::fs::read(file).map_err(|error| format!("the file `{}` cannot be read: {error}", file.display()))
    };
    let ca = settings.ca.as_deref().map(read).transpose()?;
    let identity = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    let trust = match &ca {
        _ if settings.skip_verify => Trust::AnyCertificate,
        Some(ca) => Trust::Authorities(ca),
        None => Trust::System,
    };
    let identity = identity.as_ref().map(|(certificate, key)| Identity { certificate, key });
    let explain = |error: tls::Error| {
        let file = match &error {
            tls::Error::Authorities(_) => settings.ca.as_ref(),
            tls::Error::Certificate(_) => settings.certificate.as_ref(),
            tls::Error::Key(_) => settings.key.as_ref(),
            tls::Error::Setup(_) => None,
        };
        let named = file.map(|file| format!("`{}`: ", file.display())).unwrap_or_default();
        format!("{named}{error}")
    };
    let mut config = tls::client(trust, identity, Versions::default(), alpn).map_err(explain)?;
    if let Some(name) = settings.server_name.clone().filter(|_| !settings.skip_verify) {
        let name = ServerName::try_from(name).map_err(|error| format!("`tls.server-name`: {error}"))?;
        tls::expect_name(&mut config, trust, name).map_err(explain)?;
    }
    Ok(config)
}
