//! Triggers: how a test starts an operation of the system under test.
//!
//! Texts in triggers may hold `${...}` expressions, which are resolved when the test runs.

mod files;
mod read;
mod resolve;

pub use files::FileUse;
pub(super) use read::read;

use super::settings::Period;
use super::text::Text;

/// The trigger of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// An HTTP request.
    Http(Http),
    /// A gRPC call.
    Grpc(Grpc),
    /// A message to a Kafka topic.
    Kafka(Kafka),
    /// No request: the trace exists already.
    TraceId(TraceId),
    /// A GraphQL request.
    Graphql(Graphql),
    /// A command on the server's machine.
    Exec(Exec),
    /// A browser script that the product runs itself.
    PlaywrightEngine(PlaywrightEngine),
    /// Another test tool, which passes the trace id.
    Integration(Integration),
}

impl Trigger {
    /// Returns the name that files use as the trigger's `type`.
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
    /// The URL; the default scheme is `http`.
    pub url: Text,
    /// The method; empty means GET.
    pub method: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Body,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Which redirects are followed.
    pub redirects: Redirects,
    /// The version of HTTP; `None` negotiates it.
    pub version: Option<HttpVersion>,
    /// The certificates.
    pub tls: Option<Tls>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// The proxy's address; empty means that of the server's environment, `none` means none.
    pub proxy: Text,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
}

/// The body of an HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A text; empty means no body.
    Text(Text),
    /// A file: its path, or its bytes as a `data:` URL once the command line has read it.
    File(Text),
    /// URL-encoded form fields.
    Form(Vec<Header>),
    /// Multipart parts, each with its own content type.
    Multipart(Vec<Part>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Text(Text::default())
    }
}

/// A part of a multipart body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// The field's name.
    pub name: Text,
    /// The value, unless it is a file.
    pub value: Text,
    /// A file: its path, or its bytes as a `data:` URL once the command line has read it.
    pub file: Text,
    /// The file name for the receiver; empty means the file's own.
    pub filename: Text,
    /// The content type; empty means that none is sent.
    pub content_type: Text,
}

/// Which redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Redirects {
    /// Up to this many; one more is an error.
    Follow(u8),
    /// None: the redirect is the response.
    Stay,
}

impl Redirects {
    /// The default maximum of redirects.
    pub const USUAL: u8 = 10;
}

impl Default for Redirects {
    fn default() -> Self {
        Self::Follow(Self::USUAL)
    }
}

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/1.1.
    One,
    /// HTTP/2, with prior knowledge where there is no TLS.
    Two,
}

impl HttpVersion {
    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::One => "1.1",
            Self::Two => "2",
        }
    }
}

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
        /// The user name.
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
        /// Where it is sent.
        place: ApiKeyPlace,
    },
    /// A token that is fetched first, with client credentials.
    OAuth2(Box<OAuth2>),
}

/// How to fetch a token: the client credentials grant of OAuth 2.0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OAuth2 {
    /// The token endpoint.
    pub token_url: Text,
    /// The client id.
    pub client_id: Text,
    /// The client secret.
    pub client_secret: Text,
    /// The requested scopes.
    pub scopes: Vec<Text>,
    /// The audience of the token; empty means that none is sent.
    pub audience: Text,
    /// Where the client credentials are sent.
    pub place: ClientPlace,
}

/// Where the credentials of an OAuth client are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientPlace {
    /// In the `Authorization` header.
    #[default]
    Header,
    /// In the body.
    Body,
}

/// Where an API key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApiKeyPlace {
    /// In a header.
    #[default]
    Header,
    /// In the query of the URL.
    Query,
}

/// A gRPC call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grpc {
    /// The source text of the `.proto` file; definition files may have a path, which the command line replaces by
    /// the file's content. Empty means that the server's reflection is used.
    pub protobuf_file: Text,
    /// The source texts of its imports, by the name under which it imports them.
    pub imports: Vec<(String, Text)>,
    /// A compiled `FileDescriptorSet` in base64; definition files may have a path. Empty means none.
    pub descriptor_set: Text,
    /// Host and port; `https://` before them means TLS.
    pub address: Text,
    /// The service; the method contains it too.
    pub service: Text,
    /// `package.Service.Method`.
    pub method: Text,
    /// The request as JSON; several documents are the messages of a client stream.
    pub request: Text,
    /// Metadata in order.
    pub metadata: Vec<Header>,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Whether to use TLS, and with which certificates.
    pub tls: Option<Tls>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
}

/// A message to a Kafka topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kafka {
    /// The brokers, as host and port.
    pub broker_urls: Vec<Text>,
    /// The topic.
    pub topic: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// The message's key; empty means none.
    pub message_key: Text,
    /// The message.
    pub message_value: Text,
    /// Credentials.
    pub authentication: Option<Sasl>,
    /// Whether to use TLS, and with which certificates; verified certificates mean TLS too.
    pub tls: Option<Tls>,
    /// Whether the broker's certificate must be valid.
    pub ssl_verification: bool,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
}

/// The SASL credentials for a broker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sasl {
    /// The SASL mechanism.
    pub mechanism: Mechanism,
    /// The user name.
    pub username: Text,
    /// The password.
    pub password: Text,
}

/// A SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mechanism {
    /// Password in plain text.
    #[default]
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::ScramSha256 => "scramSha256",
            Self::ScramSha512 => "scramSha512",
        }
    }
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
    /// The URL.
    pub url: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// Credentials.
    pub auth: Option<Auth>,
    /// The certificates.
    pub tls: Option<Tls>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// The proxy's address; empty means that of the server's environment, `none` means none.
    pub proxy: Text,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
    /// The query.
    pub query: Text,
    /// Variables of the query.
    pub variables: Vec<(String, Text)>,
    /// The operation of the query to run; empty means the only one.
    pub operation_name: Text,
    /// The schema, for editors.
    pub schema: Text,
    /// Whether the server's schema is fetched first by introspection, to check the query against.
    pub introspection: bool,
}

/// A command on the server's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exec {
    /// The command.
    pub command: Command,
    /// Environment variables, beside those of the server and those that carry the trace context.
    pub env: Vec<(String, Text)>,
    /// The working directory; empty means that of the server.
    pub working_directory: Text,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
}

/// The command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments.
    Words(Vec<Text>),
    /// A command line for the shell.
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

/// Another test tool, which sends the requests and passes the trace id.
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

    /// The expression for the trace id: the tools start their runs with this variable.
    pub const TRACE: &'static str = "${env:TRACE_ID}";

    /// Returns the name used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cypress => "cypress",
            Self::Playwright => "playwright",
            Self::Artillery => "artillery",
            Self::K6 => "k6",
        }
    }
}
