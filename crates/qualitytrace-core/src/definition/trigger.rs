//! What sets the system under test in motion.
//!
//! Texts in triggers may hold `${...}` expressions, which are resolved when the test runs.

mod files;
mod read;
mod resolve;

pub use files::FileUse;
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
    /// What it carries.
    pub body: Body,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Which answers that point elsewhere are followed.
    pub redirects: Redirects,
    /// The version of HTTP; `None` lets both sides agree on one.
    pub version: Option<HttpVersion>,
    /// Whom to trust, and who we are.
    pub tls: Option<Tls>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// The proxy's address; empty means as the server's environment says, `none` means none.
    pub proxy: Text,
    /// How long to wait for the answer; `None` means the server's default.
    pub timeout: Option<Period>,
}

/// What an HTTP request carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A text; empty means nothing.
    Text(Text),
    /// A file: its path, or its bytes as a `data:` address once the command line has read it.
    File(Text),
    /// Fields, as a page's form sends them.
    Form(Vec<Header>),
    /// Parts, each with a type of its own.
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
    /// What it says, unless it is a file.
    pub value: Text,
    /// A file: its path, or its bytes as a `data:` address once the command line has read it.
    pub file: Text,
    /// The name that the receiver sees; empty means the file's own.
    pub filename: Text,
    /// The type of its content; empty means that the receiver is not told.
    pub content_type: Text,
}

/// Which answers that point elsewhere are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Redirects {
    /// So many, one after the other; one more is a failure.
    Follow(u8),
    /// None: the answer that points elsewhere is the answer.
    Stay,
}

impl Redirects {
    /// How many are followed unless the test says otherwise.
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
    /// HTTP/2, without asking first where there is no TLS.
    Two,
}

impl HttpVersion {
    /// The word that files use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::One => "1.1",
            Self::Two => "2",
        }
    }
}

/// Certificates of a connection with TLS. Each is PEM text, or the path of a file that the command line reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// The authorities to trust; empty means those of the server's system.
    pub ca: Text,
    /// Our own certificate; empty means none.
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
    /// A token that is fetched first, with the credentials of a client.
    OAuth2(Box<OAuth2>),
}

/// How to fetch a token: the client credentials grant of OAuth 2.0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OAuth2 {
    /// Who gives out tokens.
    pub token_url: Text,
    /// The client.
    pub client_id: Text,
    /// Its secret.
    pub client_secret: Text,
    /// What the token is to allow.
    pub scopes: Vec<Text>,
    /// Whom the token is for; empty means that this is not said.
    pub audience: Text,
    /// Where the client's credentials go.
    pub place: ClientPlace,
}

/// Where the credentials of an OAuth client go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientPlace {
    /// Into the `Authorization` header.
    #[default]
    Header,
    /// Into the body.
    Body,
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
    /// A compiled protocol, a `FileDescriptorSet` in base64; files may name a path. Empty means none.
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
    /// Whether to use TLS, and with which certificates.
    pub tls: Option<Tls>,
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
    /// Credentials.
    pub authentication: Option<Sasl>,
    /// Whether to use TLS, and with which certificates; checked certificates mean TLS too.
    pub tls: Option<Tls>,
    /// Whether the broker's certificate must be valid.
    pub ssl_verification: bool,
    /// How long to wait for the answer; `None` means the server's default.
    pub timeout: Option<Period>,
}

/// User and password for a broker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sasl {
    /// How they are shown to it.
    pub mechanism: Mechanism,
    /// The user.
    pub username: Text,
    /// The password.
    pub password: Text,
}

/// How user and password are shown to a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mechanism {
    /// As they are.
    #[default]
    Plain,
    /// As proof of knowing the password, with SHA-256.
    ScramSha256,
    /// The same with SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// The word that files use.
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
    /// Where to.
    pub url: Text,
    /// Headers in order.
    pub headers: Vec<Header>,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Whom to trust, and who we are.
    pub tls: Option<Tls>,
    /// Whether the server's certificate must be valid.
    pub ssl_verification: bool,
    /// The proxy's address; empty means as the server's environment says, `none` means none.
    pub proxy: Text,
    /// How long to wait for the answer; `None` means the server's default.
    pub timeout: Option<Period>,
    /// The query.
    pub query: Text,
    /// Variables of the query.
    pub variables: Vec<(String, Text)>,
    /// Which operation of the query to run; empty means the only one.
    pub operation_name: Text,
    /// The schema, for editors.
    pub schema: Text,
    /// Whether the server is asked for its schema first, to check the query against.
    pub introspection: bool,
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
