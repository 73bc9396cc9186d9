//! JSON shapes of data stores.

use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::DataStore;
use crate::definition::shape::{Pairs, is_blank};
use crate::definition::source::{
    AwsXray, AzureAppInsights, GrpcClient, HttpClient, SearchIndex, Source, Tempo, Tls, TlsSettings,
};
use crate::definition::stored::Stored;

/// Where traces come from, with the block that belongs to the type.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DataStoreSpec<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    default: bool,
    #[serde(skip_serializing_if = "is_blank")]
    created_at: Option<&'a str>,
    #[serde(skip_serializing_if = "is_blank")]
    jaeger: Option<GrpcClientSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    tempo: Option<TempoSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    opensearch: Option<SearchIndexSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    elasticapm: Option<SearchIndexSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    signalfx: Option<SignalFxSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    awsxray: Option<AwsXraySpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    azureappinsights: Option<AzureAppInsightsSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    sumologic: Option<SumoLogicSpec<'a>>,
}

impl<'a> DataStoreSpec<'a> {
    pub(super) fn of(id: &'a str, store: &'a DataStore, stored: &'a Stored) -> Self {
        let bare = Self {
            id,
            name: &store.name,
            kind: store.source.kind(),
            default: true,
            created_at: store.created_at.as_deref().or(stored.created_at.as_deref()),
            ..Self::default()
        };
        match &store.source {
            Source::Received(_) => bare,
            Source::Jaeger(client) => Self { jaeger: Some(GrpcClientSpec::of(client)), ..bare },
            Source::Tempo(tempo) => Self { tempo: Some(TempoSpec::of(tempo)), ..bare },
            Source::OpenSearch(index) => Self { opensearch: Some(SearchIndexSpec::of(index)), ..bare },
            Source::ElasticApm(index) => Self { elasticapm: Some(SearchIndexSpec::of(index)), ..bare },
            Source::SignalFx(signalfx) => Self {
                signalfx: Some(SignalFxSpec { realm: &signalfx.realm, token: &signalfx.token }),
                ..bare
            },
            Source::AwsXray(xray) => Self { awsxray: Some(AwsXraySpec::of(xray)), ..bare },
            Source::AzureAppInsights(azure) => {
                Self { azureappinsights: Some(AzureAppInsightsSpec::of(azure)), ..bare }
            }
            Source::SumoLogic(sumo) => {
                let (url, access_id, access_key) = (&sumo.url, &sumo.access_id, &sumo.access_key);
                Self { sumologic: Some(SumoLogicSpec { url, access_id, access_key }), ..bare }
            }
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TempoSpec<'a> {
    /// `grpc` or `http`.
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "is_blank")]
    grpc: Option<GrpcClientSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    http: Option<HttpClientSpec<'a>>,
}

impl<'a> TempoSpec<'a> {
    fn of(tempo: &'a Tempo) -> Self {
        match tempo {
            Tempo::Grpc(client) => Self { kind: "grpc", grpc: Some(GrpcClientSpec::of(client)), http: None },
            Tempo::Http(client) => Self { kind: "http", grpc: None, http: Some(HttpClientSpec::of(client)) },
            Tempo::Unset => Self { kind: "", grpc: None, http: None },
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrpcClientSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    endpoint: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    read_buffer_size: i64,
    #[serde(skip_serializing_if = "is_blank")]
    write_buffer_size: i64,
    #[serde(skip_serializing_if = "is_blank")]
    wait_for_ready: bool,
    #[serde(skip_serializing_if = "is_blank")]
    headers: Pairs<'a>,
    #[serde(skip_serializing_if = "is_blank")]
    balancer_name: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    compression: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<ClientTlsSpec<'a>>,
}

impl<'a> GrpcClientSpec<'a> {
    fn of(client: &'a GrpcClient) -> Self {
        Self {
            endpoint: &client.endpoint,
            read_buffer_size: client.read_buffer_size,
            write_buffer_size: client.write_buffer_size,
            wait_for_ready: client.wait_for_ready,
            headers: Pairs::of(&client.headers).sorted(),
            balancer_name: &client.balancer_name,
            compression: &client.compression,
            tls: client.tls.as_ref().map(ClientTlsSpec::of),
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HttpClientSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    headers: Pairs<'a>,
    #[serde(skip_serializing_if = "is_blank")]
    tls: Option<ClientTlsSpec<'a>>,
}

impl<'a> HttpClientSpec<'a> {
    fn of(client: &'a HttpClient) -> Self {
        Self {
            url: &client.url,
            headers: Pairs::of(&client.headers).sorted(),
            tls: client.tls.as_ref().map(ClientTlsSpec::of),
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SearchIndexSpec<'a> {
    addresses: Option<&'a [String]>,
    username: &'a str,
    password: &'a str,
    index: &'a str,
    certificate: &'a str,
    insecure_skip_verify: bool,
}

impl<'a> SearchIndexSpec<'a> {
    fn of(index: &'a SearchIndex) -> Self {
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

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignalFxSpec<'a> {
    realm: &'a str,
    token: &'a str,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AwsXraySpec<'a> {
    region: &'a str,
    access_key_id: &'a str,
    secret_access_key: &'a str,
    session_token: &'a str,
    use_default_auth: bool,
}

impl<'a> AwsXraySpec<'a> {
    fn of(xray: &'a AwsXray) -> Self {
        Self {
            region: &xray.region,
            access_key_id: &xray.access_key_id,
            secret_access_key: &xray.secret_access_key,
            session_token: &xray.session_token,
            use_default_auth: xray.use_default_auth,
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AzureAppInsightsSpec<'a> {
    use_azure_active_directory_auth: bool,
    access_token: &'a str,
    resource_arm_id: &'a str,
    connection_type: &'a str,
}

impl<'a> AzureAppInsightsSpec<'a> {
    fn of(azure: &'a AzureAppInsights) -> Self {
        Self {
            use_azure_active_directory_auth: azure.use_azure_active_directory_auth,
            access_token: &azure.access_token,
            resource_arm_id: &azure.resource_arm_id,
            connection_type: &azure.connection_type,
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SumoLogicSpec<'a> {
    url: &'a str,
    #[serde(rename = "accessID")]
    access_id: &'a str,
    #[serde(rename = "accessKey")]
    access_key: &'a str,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClientTlsSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    insecure: bool,
    #[serde(skip_serializing_if = "is_blank")]
    insecure_skip_verify: bool,
    #[serde(skip_serializing_if = "is_blank")]
    server_name: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    settings: Option<TlsSettingsSpec<'a>>,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TlsSettingsSpec<'a> {
    #[serde(skip_serializing_if = "is_blank", rename = "cAFile")]
    ca_file: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    cert_file: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    key_file: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    min_version: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    max_version: &'a str,
}

impl<'a> ClientTlsSpec<'a> {
    fn of(tls: &'a Tls) -> Self {
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
