//! Azure Application Insights.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;
use crate::definition::shape::is_blank;

/// Azure Application Insights.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AzureAppInsights {
    /// Whether credentials come from Active Directory.
    pub use_azure_active_directory_auth: bool,
    /// The token.
    pub access_token: String,
    /// The resource.
    pub resource_arm_id: String,
    /// `direct` queries Azure; `collector` means that traces are sent to this server.
    pub connection_type: String,
    /// Another address of its API than the usual one: a proxy, a private region, a stand-in.
    pub url: String,
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<AzureAppInsights> {
    let mut fields = reader.fields(block, "`azureappinsights`")?;
    let connection = fields.text("connectionType").unwrap_or_default();
    if !matches!(connection.value.as_str(), "" | "direct" | "collector") {
        let message =
            format!("a connection is `direct` or through a `collector`, not `{}`", connection.value);
        reader.error("wrong-value", connection.place(0..connection.value.len()), message);
    }
    let source = AzureAppInsights {
        use_azure_active_directory_auth: fields.flag("useAzureActiveDirectoryAuth").unwrap_or_default(),
        access_token: fields.string("accessToken").unwrap_or_default(),
        resource_arm_id: fields.string("resourceArmId").unwrap_or_default(),
        connection_type: connection.value,
        url: fields.string("url").unwrap_or_default(),
    };
    fields.finish();
    Some(source)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AzureAppInsightsSpec<'a> {
    /// Whether the identity of the machine is used in place of a token.
    use_azure_active_directory_auth: bool,
    /// The access token.
    access_token: &'a str,
    /// The id of the resource in Azure.
    resource_arm_id: &'a str,
    /// `direct`, or `collector` for spans that a Collector sends here.
    connection_type: &'a str,
    /// The address of the API, if it is not the usual one.
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
}

impl<'a> AzureAppInsightsSpec<'a> {
    pub(super) fn of(azure: &'a AzureAppInsights) -> Self {
        Self {
            use_azure_active_directory_auth: azure.use_azure_active_directory_auth,
            access_token: &azure.access_token,
            resource_arm_id: &azure.resource_arm_id,
            connection_type: &azure.connection_type,
            url: &azure.url,
        }
    }
}
