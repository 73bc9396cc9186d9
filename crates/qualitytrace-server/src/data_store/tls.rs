//! The TLS settings of data stores: certificates as text, or as the path of a file on the server's machine.

use qualitytrace_core::definition::source::Tls;

use crate::trigger::{Certificates, Failure};

/// The longest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// Returns the certificates of the settings.
pub(super) fn certificates(tls: Option<&Tls>, verify: bool) -> Result<Certificates, Failure> {
    let settings = tls.and_then(|tls| tls.settings.as_ref());
    let text = |of: &str, key: &str| pem(of, key);
    Ok(Certificates {
        verify,
        authorities: settings.map_or(Ok(String::new()), |settings| text(&settings.ca_file, "cAFile"))?,
        certificate: settings.map_or(Ok(String::new()), |settings| text(&settings.cert_file, "certFile"))?,
        key: settings.map_or(Ok(String::new()), |settings| text(&settings.key_file, "keyFile"))?,
        server_name: tls.map(|tls| tls.server_name.trim().to_owned()).unwrap_or_default(),
    })
}

/// Returns the text of a certificate or key. A file whose content is something else is not told apart from one that
/// does not exist.
fn pem(written: &str, key: &str) -> Result<String, Failure> {
    let written = written.trim();
    if written.is_empty() || written.contains("-----BEGIN") {
        return Ok(written.to_owned());
    }
    let read = std::fs::metadata(written)
        .ok()
        .filter(|file| file.is_file() && file.len() <= MAX_FILE)
        .and_then(|_| std::fs::read_to_string(written).ok());
    read.filter(|text| text.contains("-----BEGIN")).ok_or_else(|| {
        Failure::invalid(format!(
            "the data store's `tls.settings.{key}` is neither PEM nor a file with PEM on the server's machine"
        ))
    })
}
