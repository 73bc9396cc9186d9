//! Data stores: the sources of traces.
//!
//! Each kind of data store that is queried is one module, and so is each part that several kinds have: its type, its
//! reader and its JSON.

mod aws_xray;
mod azure_app_insights;
mod clickhouse;
mod grpc_client;
mod http_client;
mod read;
mod search_index;
mod signalfx;
mod sumo_logic;
mod tempo;
mod tls;
mod write;

pub use aws_xray::AwsXray;
pub use azure_app_insights::AzureAppInsights;
pub use clickhouse::ClickHouse;
pub use grpc_client::GrpcClient;
pub use http_client::HttpClient;
pub(super) use read::read;
pub use search_index::SearchIndex;
pub use signalfx::SignalFx;
pub use sumo_logic::SumoLogic;
pub use tempo::Tempo;
pub use tls::{Tls, TlsSettings};
pub(super) use write::DataStoreSpec;

/// The source of traces. A server has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataStore {
    /// The title for the user.
    pub name: String,
    /// When it was created, in RFC 3339; `None` lets the server set it.
    pub created_at: Option<String>,
    /// Its type and how to connect to it.
    pub source: Source,
}

impl Default for DataStore {
    fn default() -> Self {
        Self { name: "OTLP".to_owned(), created_at: None, source: Source::Received(Sender::Otlp) }
    }
}

/// The type of a data store and how to connect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Jaeger's query API.
    Jaeger(GrpcClient),
    /// Grafana Tempo.
    Tempo(Tempo),
    /// An OpenSearch index.
    OpenSearch(SearchIndex),
    /// Elastic APM.
    ElasticApm(SearchIndex),
    /// SignalFx.
    SignalFx(SignalFx),
    /// AWS X-Ray.
    AwsXray(AwsXray),
    /// Azure Application Insights.
    AzureAppInsights(AzureAppInsights),
    /// Sumo Logic.
    SumoLogic(SumoLogic),
    /// Zipkin.
    Zipkin(HttpClient),
    /// A table of spans in ClickHouse.
    ClickHouse(ClickHouse),
    /// None to query: traces are sent to this server by OTLP.
    Received(Sender),
}

impl Source {
    /// Whether traces are sent to this server, so that there is nothing to query.
    pub fn is_received(&self) -> bool {
        match self {
            Self::Received(_) => true,
            Self::AzureAppInsights(azure) => azure.connection_type == "collector",
            _ => false,
        }
    }

    /// Returns the TLS settings of the connection, for sources that have them.
    pub fn tls_mut(&mut self) -> Option<&mut Tls> {
        match self {
            Self::Jaeger(client) | Self::Tempo(Tempo::Grpc(client)) => client.tls.as_mut(),
            Self::Zipkin(client) | Self::Tempo(Tempo::Http(client)) => client.tls.as_mut(),
            Self::Tempo(Tempo::Unset)
            | Self::OpenSearch(_)
            | Self::ElasticApm(_)
            | Self::SignalFx(_)
            | Self::AwsXray(_)
            | Self::AzureAppInsights(_)
            | Self::SumoLogic(_)
            | Self::ClickHouse(_)
            | Self::Received(_) => None,
        }
    }

    /// Returns the name that files use as `type`, and as the key of the details.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Jaeger(_) => "jaeger",
            Self::Tempo(_) => "tempo",
            Self::OpenSearch(_) => "opensearch",
            Self::ElasticApm(_) => "elasticapm",
            Self::SignalFx(_) => "signalfx",
            Self::AwsXray(_) => "awsxray",
            Self::AzureAppInsights(_) => "azureappinsights",
            Self::SumoLogic(_) => "sumologic",
            Self::Zipkin(_) => "zipkin",
            Self::ClickHouse(_) => "clickhouse",
            Self::Received(sender) => sender.as_str(),
        }
    }
}

/// The sender of the traces, usually through a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sender {
    /// Any exporter that speaks OTLP.
    #[default]
    Otlp,
    /// The Tracetest agent.
    Agent,
    /// Datadog.
    Datadog,
    /// Dynatrace.
    Dynatrace,
    /// Honeycomb.
    Honeycomb,
    /// Instana.
    Instana,
    /// Lightstep.
    Lightstep,
    /// New Relic.
    NewRelic,
    /// SigNoz.
    Signoz,
    /// Dash0.
    Dash0,
}

impl Sender {
    /// Every sender.
    pub const ALL: [Self; 10] = [
        Self::Otlp,
        Self::Agent,
        Self::Datadog,
        Self::Dynatrace,
        Self::Honeycomb,
        Self::Instana,
        Self::Lightstep,
        Self::NewRelic,
        Self::Signoz,
        Self::Dash0,
    ];

    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Otlp => "otlp",
            Self::Agent => "agent",
            Self::Datadog => "datadog",
            Self::Dynatrace => "dynatrace",
            Self::Honeycomb => "honeycomb",
            Self::Instana => "instana",
            Self::Lightstep => "lightstep",
            Self::NewRelic => "newrelic",
            Self::Signoz => "signoz",
            Self::Dash0 => "dash0",
        }
    }
}
