//! Data stores: the sources of traces.

mod read;

pub(super) use read::read;

use super::text::Text;

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

/// The connection to a gRPC server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrpcClient {
    /// Host and port.
    pub endpoint: String,
    /// Bytes of the read buffer; 0 means the default.
    pub read_buffer_size: i64,
    /// Bytes of the write buffer; 0 means the default.
    pub write_buffer_size: i64,
    /// Whether calls wait until a lost connection is restored.
    pub wait_for_ready: bool,
    /// Metadata for every call.
    pub headers: Vec<(String, Text)>,
    /// Kept for old files.
    pub balancer_name: String,
    /// The compression of calls; empty means none.
    pub compression: String,
    /// The TLS settings.
    pub tls: Option<Tls>,
}

/// The connection to an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpClient {
    /// Its address.
    pub url: String,
    /// Headers for every request.
    pub headers: Vec<(String, Text)>,
    /// The TLS settings.
    pub tls: Option<Tls>,
}

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

/// Grafana Tempo, by protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tempo {
    /// Over gRPC.
    Grpc(GrpcClient),
    /// Over HTTP.
    Http(HttpClient),
    /// Not configured: it cannot be queried.
    Unset,
}

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
    /// The session token.
    pub session_token: String,
    /// Whether the default credentials of the machine are used.
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
    /// `direct` queries Azure; `collector` means that traces are sent to this server.
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
