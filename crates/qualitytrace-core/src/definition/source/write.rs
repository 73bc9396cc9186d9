//! The JSON shape of data stores.

use schemars::JsonSchema;
use serde::Serialize;

use super::aws_xray::AwsXraySpec;
use super::azure_app_insights::AzureAppInsightsSpec;
use super::clickhouse::ClickHouseSpec;
use super::grpc_client::GrpcClientSpec;
use super::http_client::HttpClientSpec;
use super::search_index::SearchIndexSpec;
use super::signalfx::SignalFxSpec;
use super::sumo_logic::SumoLogicSpec;
use super::tempo::TempoSpec;
use super::{DataStore, Source};
use crate::definition::shape::is_blank;
use crate::definition::stored::Stored;

/// Where traces come from, with the block that belongs to the type.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::definition) struct DataStoreSpec<'a> {
    /// The id; a server has one data store, `current`.
    id: &'a str,
    /// The title of the data store.
    name: &'a str,
    /// The kind of data store; the block of the same name has the details.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Whether it is the one in use; a server has only one.
    default: bool,
    /// When it was stored; set by the server.
    #[serde(skip_serializing_if = "is_blank")]
    created_at: Option<&'a str>,
    /// The connection to Jaeger.
    #[serde(skip_serializing_if = "is_blank")]
    jaeger: Option<GrpcClientSpec<'a>>,
    /// The connection to Grafana Tempo.
    #[serde(skip_serializing_if = "is_blank")]
    tempo: Option<TempoSpec<'a>>,
    /// The connection to OpenSearch.
    #[serde(skip_serializing_if = "is_blank")]
    opensearch: Option<SearchIndexSpec<'a>>,
    /// The connection to Elastic APM.
    #[serde(skip_serializing_if = "is_blank")]
    elasticapm: Option<SearchIndexSpec<'a>>,
    /// The connection to SignalFx.
    #[serde(skip_serializing_if = "is_blank")]
    signalfx: Option<SignalFxSpec<'a>>,
    /// The connection to AWS X-Ray.
    #[serde(skip_serializing_if = "is_blank")]
    awsxray: Option<AwsXraySpec<'a>>,
    /// The connection to Azure Application Insights.
    #[serde(skip_serializing_if = "is_blank")]
    azureappinsights: Option<AzureAppInsightsSpec<'a>>,
    /// The connection to Sumo Logic.
    #[serde(skip_serializing_if = "is_blank")]
    sumologic: Option<SumoLogicSpec<'a>>,
    /// The connection to Zipkin.
    #[serde(skip_serializing_if = "is_blank")]
    zipkin: Option<HttpClientSpec<'a>>,
    /// The connection to ClickHouse.
    #[serde(skip_serializing_if = "is_blank")]
    clickhouse: Option<ClickHouseSpec<'a>>,
}

impl<'a> DataStoreSpec<'a> {
    pub(in crate::definition) fn of(id: &'a str, store: &'a DataStore, stored: &'a Stored) -> Self {
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
            Source::SignalFx(signalfx) => Self { signalfx: Some(SignalFxSpec::of(signalfx)), ..bare },
            Source::AwsXray(xray) => Self { awsxray: Some(AwsXraySpec::of(xray)), ..bare },
            Source::AzureAppInsights(azure) => {
                Self { azureappinsights: Some(AzureAppInsightsSpec::of(azure)), ..bare }
            }
            Source::Zipkin(client) => Self { zipkin: Some(HttpClientSpec::of(client)), ..bare },
            Source::ClickHouse(clickhouse) => {
                Self { clickhouse: Some(ClickHouseSpec::of(clickhouse)), ..bare }
            }
            Source::SumoLogic(sumo) => Self { sumologic: Some(SumoLogicSpec::of(sumo)), ..bare },
        }
    }
}
