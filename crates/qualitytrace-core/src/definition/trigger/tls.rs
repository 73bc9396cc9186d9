//! The certificates of a trigger's connection.

use qualitytrace_config::tree::Shape;
use schemars::JsonSchema;
use serde::Serialize;

use super::files::FileUse;
use crate::definition::reader::Fields;
use crate::definition::shape::is_blank;
use crate::definition::text::Text;
use crate::lang::Diagnostic;

/// The certificates of a TLS connection. Each is PEM text, or the path of a file that the command line reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// The certificate authorities to trust; empty means those of the server's system.
    pub ca: Text,
    /// The client certificate; empty means none.
    pub certificate: Text,
    /// Its private key.
    pub key: Text,
}

impl Tls {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        let Self { ca, certificate, key } = self;
        Ok(Self { ca: text(ca)?, certificate: text(certificate)?, key: text(key)? })
    }

    pub(super) fn each_file<E>(
        &mut self,
        change: &mut impl FnMut(FileUse, &mut Text) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { ca, certificate, key } = self;
        [ca, certificate, key].into_iter().try_for_each(|text| change(FileUse::Pem, text))
    }
}

/// The meaning of `tls: true` without certificates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BareTls {
    /// Use TLS.
    Allowed,
    /// None: the scheme of the address decides.
    Meaningless,
}

/// Reads `tls` and `sslVerification`, which depend on one another: naming authorities turns verification on.
pub(super) fn security(fields: &mut Fields<'_, '_>, bare: BareTls) -> (Option<Tls>, bool) {
    let verify = fields.get("sslVerification");
    let verification = verify.and_then(|node| fields.reader.flag(node, "`sslVerification`"));
    let tls = tls(fields, bare);
    let has_authorities = tls.as_ref().is_some_and(|tls| !tls.ca.is_empty());
    if let (true, Some(false), Some(node)) = (has_authorities, verification, verify) {
        let message =
            "`tls.ca` names trusted authorities, but `sslVerification: false` accepts any certificate";
        let diagnostic = Diagnostic::error("conflicting-keys", node.span.clone(), message);
        fields.reader.report(diagnostic.helped("remove one of the two"));
    }
    (tls, has_authorities || verification.unwrap_or_default())
}

fn tls(fields: &mut Fields<'_, '_>, bare: BareTls) -> Option<Tls> {
    let reader = fields.reader;
    let node = fields.get("tls")?;
    if bare == BareTls::Allowed && matches!(node.shape, Shape::Scalar(_)) {
        return reader.flag(node, "`tls`")?.then(Tls::default);
    }
    let mut fields = reader.fields(node, "`tls`")?;
    let tls = Tls {
        ca: fields.text("ca").unwrap_or_default(),
        certificate: fields.text("certificate").unwrap_or_default(),
        key: fields.text("key").unwrap_or_default(),
    };
    fields.finish();
    if tls.certificate.is_empty() != tls.key.is_empty() {
        let (has, needs) = if tls.key.is_empty() { ("certificate", "key") } else { ("key", "certificate") };
        let message = format!("`tls` has a `{has}` but no `{needs}`");
        let diagnostic = Diagnostic::error("incomplete-tls", node.span.clone(), message);
        reader.report(diagnostic.helped("a client's certificate needs its private key"));
    }
    // Without certificates, it adds nothing to the scheme of the address.
    (bare == BareTls::Allowed || tls != Tls::default()).then_some(tls)
}

/// Certificates, or `true` when there are none.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum TlsSpec<'a> {
    Plain(bool),
    Certificates {
        /// Authorities to trust instead of those of the system, in PEM or a path; turns verification on.
        #[serde(skip_serializing_if = "is_blank")]
        ca: &'a str,
        /// The certificate of the client, in PEM or a path.
        #[serde(skip_serializing_if = "is_blank")]
        certificate: &'a str,
        /// The key of the certificate, in PEM or a path.
        #[serde(skip_serializing_if = "is_blank")]
        key: &'a str,
    },
}

impl<'a> TlsSpec<'a> {
    pub(super) fn of(tls: &'a Tls) -> Self {
        if *tls == Tls::default() {
            return Self::Plain(true);
        }
        Self::Certificates { ca: &tls.ca.value, certificate: &tls.certificate.value, key: &tls.key.value }
    }
}
