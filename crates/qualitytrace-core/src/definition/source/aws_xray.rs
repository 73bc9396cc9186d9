//! AWS X-Ray.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;
use crate::definition::shape::is_blank;

/// AWS X-Ray.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwsXray {
    /// The region.
    pub region: String,
    /// The access key's id.
    pub access_key_id: String,
    /// The access key.
    pub secret_access_key: String,
    /// The session token.
    pub session_token: String,
    /// Whether the default credentials of the machine are used.
    pub use_default_auth: bool,
    /// Another address of its API than the usual one: a proxy, a private region, a stand-in.
    pub url: String,
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<AwsXray> {
    let mut fields = reader.fields(block, "`awsxray`")?;
    let source = AwsXray {
        region: fields.string("region").unwrap_or_default(),
        access_key_id: fields.string("accessKeyId").unwrap_or_default(),
        secret_access_key: fields.string("secretAccessKey").unwrap_or_default(),
        session_token: fields.string("sessionToken").unwrap_or_default(),
        use_default_auth: fields.flag("useDefaultAuth").unwrap_or_default(),
        url: fields.string("url").unwrap_or_default(),
    };
    fields.finish();
    Some(source)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AwsXraySpec<'a> {
    /// The region, like `us-east-1`.
    region: &'a str,
    /// The id of the access key.
    access_key_id: &'a str,
    /// The secret of the access key.
    secret_access_key: &'a str,
    /// The token of a temporary key.
    session_token: &'a str,
    /// Whether the credentials of the environment, of profiles or of roles are used.
    use_default_auth: bool,
    /// The address of the API, if it is not that of the region.
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
}

impl<'a> AwsXraySpec<'a> {
    pub(super) fn of(xray: &'a AwsXray) -> Self {
        Self {
            region: &xray.region,
            access_key_id: &xray.access_key_id,
            secret_access_key: &xray.secret_access_key,
            session_token: &xray.session_token,
            use_default_auth: xray.use_default_auth,
            url: &xray.url,
        }
    }
}
