//! What sets the system under test in motion.
//!
//! Texts in triggers may hold `${...}` expressions, which are resolved when the test runs.

mod read;
mod resolve;

pub(super) use read::read;

use super::settings::Period;
use super::text::Text;

/// What sets the system under test in motion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// An HTTP request.
    Http(Http),
    /// A gRPC call.
    Grpc(Grpc),
    /// A message to a Kafka topic.
    Kafka(Kafka),
    /// Nothing: the trace exists already.
    TraceId(TraceId),
    /// A GraphQL request.
    Graphql(Graphql),
    /// A command on the server's machine.
    Exec(Exec),
    /// A browser script that the product runs itself.
    PlaywrightEngine(PlaywrightEngine),
    /// Another test tool, which hands over the trace's id.
    Integration(Integration),
}

impl Trigger {
    /// The word that files use as the trigger's `type`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Grpc(_) => "grpc",
            Self::Kafka(_) => "kafka",
            Self::TraceId(_) => "traceid",
            Self::Graphql(_) => "graphql",
            Self::Exec(_) => "exec",
            Self::PlaywrightEngine(_) => "playwrightengine",
            Self::Integration(tool) => tool.as_str(),
        }
    }
}

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Http {
    /// Where to; the scheme may be left out and is then `http`.
    pub url: Text,
    /// The method; empty means GET.
    pub method: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// The body; empty means none.
    pub body: Text,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// How long to wait for the answer; `None` means the server's default.
    pub timeout: Option<Period>,
}

/// A header, or an entry of gRPC metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Its name.
    pub key: Text,
    /// Its value.
    pub value: Text,
}

/// Credentials of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// User and password.
    Basic {
        /// The user.
        username: Text,
        /// The password.
        password: Text,
    },
    /// A token, sent as the whole `Authorization` header.
    Bearer {
        /// The token.
        token: Text,
    },
    /// A named key.
    ApiKey {
        /// The header or query parameter that carries it.
        key: Text,
        /// The key itself.
        value: Text,
        /// Where it goes.
        place: ApiKeyPlace,
    },
}

/// Where an API key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApiKeyPlace {
    /// Into a header.
    #[default]
    Header,
    /// Into the query of the address.
    Query,
}

/// A gRPC call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grpc {
    /// The protocol's source text; files may name a path, which the command line replaces by the file's content.
    /// Empty means that the server under test describes itself.
    pub protobuf_file: Text,
    /// The source texts that the protocol imports, by the name under which it imports them.
    pub imports: Vec<(String, Text)>,
    /// A compiled protocol, a `FileDescriptorSet` in base64; empty means none.
    pub descriptor_set: Text,
    /// Host and port; `https://` before them means TLS.
    pub address: Text,
    /// The service; the method names it too.
    pub service: Text,
    /// `package.Service.Method`.
    pub method: Text,
    /// The request as JSON; several documents are the messages of a client's stream.
    pub request: Text,
    /// Metadata in order.
    pub metadata: Vec<Header>,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Whether to use TLS.
    pub tls: bool,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// How long to wait for the answer; `None` means the server's default.
    pub timeout: Option<Period>,
}

/// A message to a Kafka topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kafka {
    /// Brokers to try, as host and port.
    pub broker_urls: Vec<Text>,
    /// The topic.
    pub topic: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// The message's key; empty means none.
    pub message_key: Text,
    /// The message.
    pub message_value: Text,
    /// User and password for SASL/PLAIN.
    pub authentication: Option<Plain>,
    /// Whether the broker's certificate must be valid.
    pub ssl_verification: bool,
}

/// User and password.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plain {
    /// The user.
    pub username: Text,
    /// The password.
    pub password: Text,
}

/// A trace that exists already.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceId {
    /// The trace's id in hex, usually `${var:TRACE_ID}`.
    pub id: Text,
}

/// A GraphQL request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graphql {
    /// Where to.
    pub url: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// The query.
    pub query: Text,
    /// Variables of the query.
    pub variables: Vec<(String, Text)>,
    /// Which operation of the query to run; empty means the only one.
    pub operation_name: Text,
    /// The schema, for editors.
    pub schema: Text,
}

/// A command on the server's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exec {
    /// What to run.
    pub command: Command,
    /// Variables of its environment, beside those of the server and those that name the trace.
    pub env: Vec<(String, Text)>,
    /// Where to run it; empty means where the server runs.
    pub working_directory: Text,
    /// How long it may take; `None` means the server's default.
    pub timeout: Option<Period>,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments.
    Words(Vec<Text>),
    /// A line for the shell.
    Line(Text),
}

impl Default for Command {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

/// A browser script that the product runs itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlaywrightEngine {
    /// The page to open.
    pub target: Text,
    /// The script.
    pub script: Text,
    /// The function of the script to call.
    pub method: Text,
}

/// Another test tool, which sets the system in motion and hands over the trace's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Integration {
    /// Cypress.
    Cypress,
    /// Playwright.
    Playwright,
    /// Artillery.
    Artillery,
    /// k6.
    K6,
}

impl Integration {
    /// Every tool.
    pub const ALL: [Self; 4] = [Self::Cypress, Self::Playwright, Self::Artillery, Self::K6];

    /// What names the trace: the tools start their runs with this variable.
    pub const TRACE: &'static str = "${env:TRACE_ID}";

    /// The word that files use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cypress => "cypress",
            Self::Playwright => "playwright",
            Self::Artillery => "artillery",
            Self::K6 => "k6",
        }
    }
}
