//! All settings of the server in one table: for files, variables, flags, `config show` and the documentation.
//!
//! A new setting is a field with a default (in [`Limits`](crate::base::limits::Limits) or [`Config`](super::Config)) and a
//! line here; docs/configuration.md gets a row, which a test checks. If the code that uses it reads
//! [`Live`](super::Live) each time, the line ends in `.live()`.

use super::draft::Draft;
use super::slot::{Slot, text};

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Its key: in files with dots for nesting, as a flag after `--`, as a variable in capitals after `QUALITYTRACE_`.
    /// Case, `-` and `_` are ignored.
    pub key: &'static str,
    /// Further keys with the same meaning.
    pub aliases: &'static [&'static str],
    /// The help text.
    pub help: &'static str,
    /// Whether a reload applies it; otherwise it needs a restart.
    pub live: bool,
    pub(super) slot: for<'d> fn(&'d mut Draft) -> Slot<'d>,
}

impl Setting {
    /// Returns the placeholder for its value in help texts.
    pub fn placeholder(&self) -> &'static str {
        (self.slot)(&mut Draft::new(None)).placeholder()
    }

    /// Whether it is a boolean.
    pub fn is_switch(&self) -> bool {
        matches!((self.slot)(&mut Draft::new(None)), Slot::Switch(_))
    }

    /// Formats its default; empty if that depends on other settings.
    pub fn default_text(&self) -> String {
        text(&(self.slot)(&mut Draft::new(None)).shown())
    }

    const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn live(mut self) -> Self {
        self.live = true;
        self
    }
}

const fn setting(
    key: &'static str,
    help: &'static str,
    slot: for<'d> fn(&'d mut Draft) -> Slot<'d>,
) -> Setting {
    Setting { key, aliases: &[], help, live: false, slot }
}

/// All settings, in the order of the documentation.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    setting("host", "Address to bind; loopback by default", |d| Slot::Host(&mut d.host)).alias(&["server.host"]),
    setting("server.httpPort", "Port of the REST API; it takes OTLP too", |d| Slot::Port(&mut d.http_port)),
    setting("server.pathPrefix", "Prefix of every path of the API", |d| Slot::Text(&mut d.config.path_prefix)),
    setting("server.hosts", "Host names that a server without tokens answers to, besides `localhost` and its own address: host names, addresses, `*.DOMAIN`", |d| Slot::Hosts(&mut d.config.safety.hosts)).live(),
    setting("otlpServer.enabled", "Take spans over OTLP", |d| Slot::Switch(&mut d.config.otlp)),
    setting("otlp-grpc-addr", "Further address for OTLP over gRPC", |d| Slot::Listen(&mut d.otlp_grpc)).alias(&["otlpServer.grpcAddr"]),
    setting("otlp-http-addr", "Further address for OTLP over HTTP", |d| Slot::Listen(&mut d.otlp_http)).alias(&["otlpServer.httpAddr"]),

    setting("data-dir", "Folder of all files of the server", |d| Slot::File(&mut d.config.data_dir)),
    setting("database-url", "Where traces and runs are kept: `sqlite::memory:`, `sqlite://FILE` or `postgres://USER:PASSWORD@HOST/NAME`", |d| Slot::Url(&mut d.database_url)),
    setting("postgres.host", "Host of a PostgreSQL server, or the folder of its socket", |d| Slot::Text(&mut d.postgres.host)),
    setting("postgres.port", "Port of the PostgreSQL server", |d| Slot::Port(&mut d.postgres.port)),
    setting("postgres.user", "User of the database", |d| Slot::Text(&mut d.postgres.user)),
    setting("postgres.password", "Password of that user", |d| Slot::Secret(&mut d.postgres.password)),
    setting("postgres.dbname", "Name of the database", |d| Slot::Text(&mut d.postgres.dbname)),
    setting("postgres.params", "Further parameters of the connection", |d| Slot::Parameters(&mut d.postgres.params)),

    setting("limits.bodyBytes", "Largest request body, as sent", |d| Slot::Size(&mut d.config.limits.body_bytes)).live(),
    setting("limits.decompressedBytes", "Largest request body, after decompression", |d| Slot::Size(&mut d.config.limits.decompressed_bytes)).live(),
    setting("limits.ingestBytes", "Bytes that may wait for the store at one time", |d| Slot::Size(&mut d.config.limits.ingest_bytes)).live(),
    setting("limits.apiBytes", "Memory that requests to the API and their answers may take at one time, and as much again for the traces of runs, and for the answers of data stores", |d| Slot::Size(&mut d.config.limits.api_bytes)).live(),
    setting("limits.spansPerTrace", "Spans kept of one trace", |d| Slot::Count(&mut d.config.limits.spans_per_trace)).live(),
    setting("limits.retainedBytes", "Bytes of traces and logs kept in total", |d| Slot::Size(&mut d.config.limits.retained_bytes)).live(),
    setting("limits.retention", "How long a trace is kept that belongs to no run", |d| Slot::Time(&mut d.config.limits.retention)).live(),
    setting("limits.evictableAfter", "Age from which such a trace may be removed early, to make room", |d| Slot::Time(&mut d.config.limits.evictable_after)).live(),
    setting("ingest.fsync", "Sync spans and log records to the disk before they are acknowledged; false risks losing the last seconds of them in a power cut", |d| Slot::Switch(&mut d.config.limits.ingest_fsync)).live(),
    setting("limits.headerBytes", "Largest head of a request", |d| Slot::Size(&mut d.config.limits.header_bytes)).live(),
    setting("limits.headers", "Headers of one request over HTTP/1.1", |d| Slot::Slots(&mut d.config.limits.headers)).live(),
    setting("limits.headerTimeout", "How long a client may take for the TLS handshake and the head of a request", |d| Slot::Time(&mut d.config.limits.header_timeout)).live(),
    setting("limits.progressTimeout", "How long a client may send nothing of a body, or read nothing of an answer", |d| Slot::Time(&mut d.config.limits.progress_timeout)).live(),
    setting("limits.requestTimeout", "How long a request may take, from its head to the head of the answer", |d| Slot::Time(&mut d.config.limits.request_timeout)).live(),
    setting("limits.connections", "Connections to one port at one time; further ones wait", |d| Slot::Slots(&mut d.config.limits.connections)).live(),
    setting("limits.retryAfter", "When a refused sender is asked to retry", |d| Slot::Time(&mut d.config.limits.retry_after)).live(),
    setting("limits.replyBytes", "How much of a trigger's answer is kept", |d| Slot::Size(&mut d.config.limits.reply_bytes)).live(),

    setting("runs.concurrency", "Triggers in progress at one time", |d| Slot::Slots(&mut d.config.limits.concurrent_runs)).live(),
    setting("runs.waiting", "Runs in progress at one time, including those that only wait for spans", |d| Slot::Slots(&mut d.config.limits.waiting_runs)).live(),
    setting("runs.queue", "Runs that may wait in the queue; further ones are refused", |d| Slot::Count(&mut d.config.limits.queued_runs)).live(),
    setting("runs.retention", "How long a run of a test or suite is kept with its traces; 0 for as long as its test or suite", |d| Slot::Time(&mut d.config.limits.run_retention)).live(),
    setting("runs.perTest", "Runs kept of one test or suite; the oldest are removed first", |d| Slot::Count(&mut d.config.limits.runs_per_test)).live(),
    setting("runs.lateWindow", "How long after a verdict late spans are accepted", |d| Slot::Time(&mut d.config.limits.late_window)).live(),
    setting("runs.uninstrumented", "Services that send no spans, for every test: hosts, addresses, `*.DOMAIN`, destinations", |d| Slot::List(&mut d.config.limits.uninstrumented)).live(),
    setting("runs.commands", "Let tests run commands on this machine (triggers of type `exec` and `playwrightengine`)", |d| Slot::Switch(&mut d.config.limits.commands)).live(),

    setting("audit.retention", "How long an entry of the audit log is kept; 0 for as long as there is room", |d| Slot::Time(&mut d.config.limits.audit_retention)).live(),
    setting("audit.entries", "Entries of the audit log; the oldest are removed first", |d| Slot::Count(&mut d.config.limits.audit_entries)).live(),

    setting("provisioning-file", "Definitions to store when the database is new: a YAML stream", |d| Slot::File(&mut d.config.provisioning.file)),
    setting("provisioning", "The same stream itself, in base64", |d| Slot::Secret(&mut d.config.provisioning.text)),
    setting("provision-always", "Store them at every start", |d| Slot::Switch(&mut d.config.provisioning.always)),
    setting("secrets.key", "Key that encrypts secrets, 32 bytes in base64; better given by its variable than on the command line", |d| Slot::Secret(&mut d.secrets_key)),
    setting("secrets.keyFile", "File with the key that encrypts secrets; created when it is needed", |d| Slot::File(&mut d.secrets_key_file)),
    setting("secrets.previousKey", "Previous key: what it encrypted is encrypted with the new key in the background", |d| Slot::Secret(&mut d.previous_key)),
    setting("secrets.previousKeyFile", "File with that key", |d| Slot::File(&mut d.previous_key_file)),
    setting("auth.tokens", "Tokens that clients must send: `full:`, `read:` or `ingest:` and `sha256:HEX`, or the token itself", |d| Slot::Tokens(&mut d.config.safety.access.tokens)).live(),
    setting("auth.otlp", "Require a token for OTLP, too", |d| Slot::Switch(&mut d.config.safety.access.otlp)),
    setting("server.tls.certFile", "Certificate of the main port, in PEM", |d| Slot::File(&mut d.tls.certificate)).live(),
    setting("server.tls.keyFile", "Its key, in PEM", |d| Slot::File(&mut d.tls.key)).live(),
    setting("otlpServer.tls.certFile", "Certificate of the ports for OTLP, in PEM", |d| Slot::File(&mut d.otlp_tls.certificate)).live(),
    setting("otlpServer.tls.keyFile", "Its key, in PEM", |d| Slot::File(&mut d.otlp_tls.key)).live(),
    setting("dataStores.files", "Folder of the certificates and keys that data stores may name as files of this machine; without it they name none", |d| Slot::File(&mut d.data_store_files)).live(),
    setting("trigger.deny", "Addresses that no trigger may connect to: networks like `10.0.0.0/8`, addresses, host names, `*.DOMAIN`", |d| Slot::Deny(&mut d.config.limits.deny)).live(),
    setting("trigger.verifyCertificates", "Verify the certificate of every server that a trigger connects to over TLS, also where a test has no `sslVerification: true`", |d| Slot::Switch(&mut d.config.limits.verify_certificates)).live(),
    setting("redact.headers", "Request headers whose values are redacted in the server's own telemetry; `*` stands for any text", |d| Slot::List(&mut d.config.redact_headers)).live(),
];

/// Flags of Tracetest and Qualitytrace without effect here. They are parsed, and reported when the configuration is read:
/// `postgresConnString` as an error, the others as warnings.
pub const OLD_FLAGS: &[&str] = &[
    "analytics.serverKey",
    "analytics.frontendKey",
    "dataStorePipelines.testConnection.enabled",
    "experimentalFeatures",
    "internalTelemetry.enabled",
    "internalTelemetry.otelCollectorEndpoint",
    "postgresConnString",
    "testPipelines.traceFetch.enabled",
    "testPipelines.triggerExecute.enabled",
];

/// Keys of Tracetest and Qualitytrace without effect here, and why. A dot at the end covers all keys below.
pub(super) const OBSOLETE: &[(&str, &str)] = &[
    ("poolingConfig.", "traces are waited for, not polled; see docs/waiting.md"),
    ("googleAnalytics.", "usage is not reported"),
    ("analytics.", "usage is not reported"),
    ("internalTelemetry.", "the server's own telemetry is set under `telemetry`"),
    ("testPipelines.", "all parts of a run are always on"),
    ("dataStorePipelines.", "all parts of a run are always on"),
    ("experimentalFeatures", "there are none"),
    ("nats.", "servers meet in their database"),
    ("demo.", "`qualitytrace demo` brings its own shop"),
];
