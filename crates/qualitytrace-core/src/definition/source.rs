//! Where traces come from: the data store.

mod read;

pub(super) use read::read;

use super::text::Text;

/// Where traces come from. A server has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataStore {
    /// A title for people.
    pub name: String,
    /// When it was set up, in RFC 3339; `None` lets the server say.
    pub created_at: Option<String>,
    /// What it is and how to reach it.
    pub source: Source,
}

impl Default for DataStore {
    fn default() -> Self {
        Self { name: "OTLP".to_owned(), created_at: None, source: Source::Received(Sender::Otlp) }
    }
}

/// What a data store is and how to reach it.
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
    /// Nothing to ask: traces are sent to us by OTLP.
    Received(Sender),
}

impl Source {
    /// Whether traces are sent to us, so that there is nothing to ask.
    pub fn is_received(&self) -> bool {
        match self {
            Self::Received(_) => true,
            Self::AzureAppInsights(azure) => azure.connection_type == "collector",
            _ => false,
        }
    }

    /// The word that files use as `type`, and as the key of the details.
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
            Self::Received(sender) => sender.as_str(),
        }
    }
}

/// Who sends us the traces, usually through a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sender {
    /// Anything that speaks OTLP.
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

    /// The word that files use.
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

/// How to reach a gRPC server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrpcClient {
    /// Host and port.
    pub endpoint: String,
    /// Bytes of the read buffer; 0 means the default.
    pub read_buffer_size: i64,
    /// Bytes of the write buffer; 0 means the default.
    pub write_buffer_size: i64,
    /// Whether calls wait for a lost connection to come back.
    pub wait_for_ready: bool,
    /// Metadata for every call.
    pub headers: Vec<(String, Text)>,
    /// Kept for old files.
    pub balancer_name: String,
    /// How calls are compressed; empty means not at all.
    pub compression: String,
    /// How the connection is secured.
    pub tls: Option<Tls>,
}

/// How to reach an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpClient {
    /// Its address.
    pub url: String,
    /// Headers for every request.
    pub headers: Vec<(String, Text)>,
    /// How the connection is secured.
    pub tls: Option<Tls>,
}

/// How a connection is secured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Whether it is not secured at all.
    pub insecure: bool,
    /// Whether any certificate will do.
    pub insecure_skip_verify: bool,
    /// The name that the certificate must carry.
    pub server_name: String,
    /// Certificates and versions.
    pub settings: Option<TlsSettings>,
}

/// Certificates and versions of a secured connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsSettings {
    /// Who may sign the server's certificate.
    pub ca_file: String,
    /// Our certificate.
    pub cert_file: String,
    /// Our key.
    pub key_file: String,
    /// The oldest version to speak.
    pub min_version: String,
    /// The newest version to speak.
    pub max_version: String,
}

/// Grafana Tempo, by the way it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tempo {
    /// Over gRPC.
    Grpc(GrpcClient),
    /// Over HTTP.
    Http(HttpClient),
    /// Not said: nothing can be asked.
    Unset,
}

/// An index of spans.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchIndex {
    /// Nodes to try; `None` when the file does not say.
    pub addresses: Option<Vec<String>>,
    /// The user.
    pub username: String,
    /// The password.
    pub password: String,
    /// The index.
    pub index: String,
    /// The certificate to trust, as text.
    pub certificate: String,
    /// Whether any certificate will do.
    pub insecure_skip_verify: bool,
}

/// SignalFx.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignalFx {
    /// The realm.
    pub realm: String,
    /// The token.
    pub token: String,
}

/// AWS X-Ray.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwsXray {
    /// The region.
    pub region: String,
    /// The access key's id.
    pub access_key_id: String,
    /// The access key.
    pub secret_access_key: String,
    /// The session's token.
    pub session_token: String,
    /// Whether credentials come from the machine.
    pub use_default_auth: bool,
}

/// Azure Application Insights.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AzureAppInsights {
    /// Whether credentials come from Active Directory.
    pub use_azure_active_directory_auth: bool,
    /// The token.
    pub access_token: String,
    /// The resource.
    pub resource_arm_id: String,
    /// `direct` asks Azure; `collector` means that traces are sent to us.
    pub connection_type: String,
}

/// Sumo Logic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SumoLogic {
    /// The address of its API.
    pub url: String,
    /// The access key's id.
    pub access_id: String,
    /// The access key.
    pub access_key: String,
}
