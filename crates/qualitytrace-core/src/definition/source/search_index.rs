//! Indexes of spans: OpenSearch and Elastic APM.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;

/// An index of spans.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchIndex {
    /// Addresses of the nodes; `None` when the file has none.
    pub addresses: Option<Vec<String>>,
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
    /// The index.
    pub index: String,
    /// The certificate to trust, as text.
    pub certificate: String,
    /// Whether the certificate is not verified.
    pub insecure_skip_verify: bool,
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<SearchIndex> {
    let mut fields = reader.fields(block, "a search index")?;
    let index = SearchIndex {
        addresses: fields
            .get("addresses")
            .is_some()
            .then(|| fields.texts("addresses").into_iter().map(|text| text.value).collect()),
        username: fields.string("username").unwrap_or_default(),
        password: fields.string("password").unwrap_or_default(),
        index: fields.string("index").unwrap_or_default(),
        certificate: fields.string("certificate").unwrap_or_default(),
        insecure_skip_verify: fields.flag("insecureSkipVerify").unwrap_or_default(),
    };
    fields.finish();
    Some(index)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SearchIndexSpec<'a> {
    /// The addresses of the cluster.
    addresses: Option<&'a [String]>,
    /// The name of the user.
    username: &'a str,
    /// The password of the user.
    password: &'a str,
    /// The index that has the traces, like `traces`.
    index: &'a str,
    /// Authorities to trust, in PEM.
    certificate: &'a str,
    /// Whether any certificate of the cluster is accepted.
    insecure_skip_verify: bool,
}

impl<'a> SearchIndexSpec<'a> {
    pub(super) fn of(index: &'a SearchIndex) -> Self {
        Self {
            addresses: index.addresses.as_deref(),
            username: &index.username,
            password: &index.password,
            index: &index.index,
            certificate: &index.certificate,
            insecure_skip_verify: index.insecure_skip_verify,
        }
    }
}
