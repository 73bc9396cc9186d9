//! The TLS settings of data stores: certificates as text, or as the path of a file on the server's machine.

use qualitytrace_core::definition::source::{Tls, TlsSettings};
use qualitytrace_telemetry::tls::Versions;

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
        versions: settings.map_or(Ok(Versions::default()), versions)?,
    })
}

/// Returns the versions between the lowest and the highest; an empty one is no limit. There is nothing below 1.2, which
/// RFC 8996 forbids.
fn versions(settings: &TlsSettings) -> Result<Versions, Failure> {
    let (least, most) = (settings.min_version.trim(), settings.max_version.trim());
    match (version(least, "minVersion")?, version(most, "maxVersion")?) {
        (_, Some(0 | 1)) => Err(Failure::invalid(format!(
            "the data store's `tls.settings.maxVersion` is {most}, and this server uses TLS 1.2 and 1.3 only; raise it to \
             1.2, or leave it out"
        ))),
        (Some(3), Some(2)) => Err(Failure::invalid(
            "the data store's `tls.settings.minVersion` is above its `maxVersion`; no version of TLS is left",
        )),
        (Some(3), _) => Ok(Versions::Tls13),
        (_, Some(2)) => Ok(Versions::Tls12),
        _ => Ok(Versions::Both),
    }
}

/// Reads the digit behind `1.`.
fn version(written: &str, key: &str) -> Result<Option<u8>, Failure> {
    match written {
        "" => Ok(None),
        "1.0" => Ok(Some(0)),
        "1.1" => Ok(Some(1)),
        "1.2" => Ok(Some(2)),
        "1.3" => Ok(Some(3)),
        other => Err(Failure::invalid(format!(
            "`{other}`, the data store's `tls.settings.{key}`, is no version of TLS; write 1.2 or 1.3"
        ))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(least: &str, most: &str) -> Result<Versions, String> {
        let (min_version, max_version) = (least.to_owned(), most.to_owned());
        let settings = TlsSettings { min_version, max_version, ..TlsSettings::default() };
        versions(&settings).map_err(|failure| failure.message)
    }

    #[test]
    fn versions_are_those_between_the_limits() {
        assert_eq!(check("", ""), Ok(Versions::Both));
        assert_eq!(check("1.0", " 1.3 "), Ok(Versions::Both));
        assert_eq!(check("1.3", ""), Ok(Versions::Tls13));
        assert_eq!(check("1.1", "1.2"), Ok(Versions::Tls12));
        assert!(check("", "1.1").unwrap_err().contains("TLS 1.2 and 1.3 only"));
        assert!(check("1.3", "1.2").unwrap_err().contains("above its `maxVersion`"));
        assert!(check("TLSv1.2", "").unwrap_err().contains("`TLSv1.2`"));
    }
}
