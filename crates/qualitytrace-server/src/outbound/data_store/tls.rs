//! The TLS settings of data stores: certificates as text, or as the path of a file on the server's machine.

use std::collections::BTreeSet;

use qualitytrace_core::definition::source::{Source, Tls, TlsSettings};
use qualitytrace_telemetry::tls::Versions;

use crate::base::files::{self, AllowedFiles};
use crate::outbound::trigger::{Certificates, TriggerError};

/// The beginning of every part of a PEM text.
const PEM: &str = "-----BEGIN";

/// The files that data stores may name.
#[derive(Debug, Clone)]
pub(super) struct Files<'a> {
    /// `dataStores.files`.
    pub(super) allowed: AllowedFiles,
    /// The files that the operator's own data stores name, in the definitions to provision.
    pub(super) provisioned: &'a BTreeSet<String>,
}

impl Files<'_> {
    /// Puts the content of files in the place of their names.
    pub(super) async fn read(&self, source: &Source) -> Result<Source, TriggerError> {
        let mut source = source.clone();
        if let Some(settings) = source.tls_mut().and_then(|tls| tls.settings.as_mut()) {
            let TlsSettings { ca_file, cert_file, key_file, .. } = settings;
            for (written, key) in [(ca_file, "cAFile"), (cert_file, "certFile"), (key_file, "keyFile")] {
                *written = self.pem(written.trim(), key).await?;
            }
        }
        Ok(source)
    }

    /// Returns the text of a certificate or key. A file whose content is something else is not told apart from one that
    /// does not exist.
    async fn pem(&self, written: &str, key: &str) -> Result<String, TriggerError> {
        if written.is_empty() || written.contains(PEM) {
            return Ok(written.to_owned());
        }
        let is_provisioned = self.provisioned.contains(written);
        let allowed = if is_provisioned { AllowedFiles::Anywhere } else { self.allowed.clone() };
        let told = match &allowed {
            AllowedFiles::Nowhere => {
                return Err(TriggerError::invalid(format!(
                    "the data store's `tls.settings.{key}` is not PEM, and data stores may name no files of the server's \
                     machine; write the PEM text itself, or start the server with `dataStores.files`, the folder of such \
                     files"
                )));
            }
            AllowedFiles::Below(_) => "a file with PEM in the folder of `dataStores.files`",
            AllowedFiles::Anywhere => "a file with PEM on the server's machine",
        };
        let name = written.to_owned();
        let read = files::aside(move || allowed.read(&name, files::CREDENTIAL_BYTES)).await;
        let text = read.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        text.filter(|text| text.contains(PEM)).ok_or_else(|| {
            TriggerError::invalid(format!("the data store's `tls.settings.{key}` is neither PEM nor {told}"))
        })
    }
}

/// Returns the certificates of the settings, whose files have been read.
pub(super) fn certificates(tls: Option<&Tls>, verify: bool) -> Result<Certificates, TriggerError> {
    let settings = tls.and_then(|tls| tls.settings.as_ref());
    let text = |of: fn(&TlsSettings) -> &String| settings.map(of).cloned().unwrap_or_default();
    Ok(Certificates {
        verify,
        authorities: text(|settings| &settings.ca_file),
        certificate: text(|settings| &settings.cert_file),
        key: text(|settings| &settings.key_file),
        server_name: tls.map(|tls| tls.server_name.trim().to_owned()).unwrap_or_default(),
        versions: settings.map_or(Ok(Versions::default()), versions)?,
    })
}

/// Returns the versions between the lowest and the highest; an empty one is no limit. There is nothing below 1.2, which
/// RFC 8996 forbids.
fn versions(settings: &TlsSettings) -> Result<Versions, TriggerError> {
    let (least, most) = (settings.min_version.trim(), settings.max_version.trim());
    match (version(least, "minVersion")?, version(most, "maxVersion")?) {
        (_, Some(0 | 1)) => Err(TriggerError::invalid(format!(
            "the data store's `tls.settings.maxVersion` is {most}, and this server uses TLS 1.2 and 1.3 only; raise it to \
             1.2, or leave it out"
        ))),
        (Some(3), Some(2)) => Err(TriggerError::invalid(
            "the data store's `tls.settings.minVersion` is above its `maxVersion`; no version of TLS is left",
        )),
        (Some(3), _) => Ok(Versions::Tls13),
        (_, Some(2)) => Ok(Versions::Tls12),
        _ => Ok(Versions::Both),
    }
}

/// Reads the digit behind `1.`.
fn version(written: &str, key: &str) -> Result<Option<u8>, TriggerError> {
    match written {
        "" => Ok(None),
        "1.0" => Ok(Some(0)),
        "1.1" => Ok(Some(1)),
        "1.2" => Ok(Some(2)),
        "1.3" => Ok(Some(3)),
        other => Err(TriggerError::invalid(format!(
            "`{other}`, the data store's `tls.settings.{key}`, is no version of TLS; write 1.2 or 1.3"
        ))),
    }
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
