//! The TLS settings of a connection to a data store.

use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Fields;
use crate::definition::shape::is_blank;

/// The TLS settings of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Whether TLS is off.
    pub insecure: bool,
    /// Whether the certificate is not verified.
    pub insecure_skip_verify: bool,
    /// The server name that the certificate must match.
    pub server_name: String,
    /// Certificates and versions.
    pub settings: Option<TlsSettings>,
}

/// Certificates and versions of a TLS connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsSettings {
    /// The certificate authorities to trust.
    pub ca_file: String,
    /// The client certificate.
    pub cert_file: String,
    /// The client key.
    pub key_file: String,
    /// The minimum TLS version.
    pub min_version: String,
    /// The maximum TLS version.
    pub max_version: String,
}

pub(super) fn read(fields: &mut Fields<'_, '_>) -> Option<Tls> {
    let reader = fields.reader;
    let mut fields = reader.fields(fields.get("tls")?, "`tls`")?;
    let tls = Tls {
        insecure: fields.flag("insecure").unwrap_or_default(),
        insecure_skip_verify: fields.flag("insecureSkipVerify").unwrap_or_default(),
        server_name: fields.string("serverName").unwrap_or_default(),
        settings: fields.get("settings").and_then(|node| {
            let mut fields = reader.fields(node, "`tls.settings`")?;
            let settings = TlsSettings {
                ca_file: fields.string("cAFile").unwrap_or_default(),
                cert_file: fields.string("certFile").unwrap_or_default(),
                key_file: fields.string("keyFile").unwrap_or_default(),
                min_version: fields.string("minVersion").unwrap_or_default(),
                max_version: fields.string("maxVersion").unwrap_or_default(),
            };
            fields.finish();
            Some(settings)
        }),
    };
    fields.finish();
    Some(tls)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ClientTlsSpec<'a> {
    /// Whether the connection is not encrypted.
    #[serde(skip_serializing_if = "is_blank")]
    insecure: bool,
    /// Whether any certificate of the server is accepted.
    #[serde(skip_serializing_if = "is_blank")]
    insecure_skip_verify: bool,
    /// The name that the certificate must have, if it is not the host.
    #[serde(skip_serializing_if = "is_blank")]
    server_name: &'a str,
    /// Certificates and versions of TLS.
    #[serde(skip_serializing_if = "is_blank")]
    settings: Option<TlsSettingsSpec<'a>>,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TlsSettingsSpec<'a> {
    /// Authorities to trust, in PEM or a path.
    #[serde(skip_serializing_if = "is_blank", rename = "cAFile")]
    ca_file: &'a str,
    /// The certificate of the client, in PEM or a path.
    #[serde(skip_serializing_if = "is_blank")]
    cert_file: &'a str,
    /// The key of the certificate, in PEM or a path.
    #[serde(skip_serializing_if = "is_blank")]
    key_file: &'a str,
    /// The oldest version of TLS that is accepted, like `1.2`.
    #[serde(skip_serializing_if = "is_blank")]
    min_version: &'a str,
    /// The newest version of TLS that is used.
    #[serde(skip_serializing_if = "is_blank")]
    max_version: &'a str,
}

impl<'a> ClientTlsSpec<'a> {
    pub(super) fn of(tls: &'a Tls) -> Self {
        Self {
            insecure: tls.insecure,
            insecure_skip_verify: tls.insecure_skip_verify,
            server_name: &tls.server_name,
            settings: tls.settings.as_ref().map(TlsSettingsSpec::of),
        }
    }
}

impl<'a> TlsSettingsSpec<'a> {
    fn of(settings: &'a TlsSettings) -> Self {
        Self {
            ca_file: &settings.ca_file,
            cert_file: &settings.cert_file,
            key_file: &settings.key_file,
            min_version: &settings.min_version,
            max_version: &settings.max_version,
        }
    }
}
