//! The configuration model: sinks, limits, metrics and propagators, resolved from every input format.
//!
//! [`Sources::read`] turns files, variables and flags into a [`Config`] and diagnostics. Reading decides nothing about
//! delivery, and delivery never sees a text.

mod check;
mod declarative;
mod draft;
mod endpoint;
mod environment;
pub(crate) mod features;
mod given;
mod key;
mod metrics;
mod propagators;
mod settings;
mod slot;
mod sources;
mod table;
mod value;
mod views;
mod words;

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use crate::propagation::Propagators;

pub use check::Line;
pub(crate) use endpoint::shown;
pub use metrics::{
    Aggregation, AttributeKeys, CardinalityLimits, DefaultHistogram, ExemplarFilter, InstrumentType,
    MetricView, Metrics, Selector, Stream,
};
pub use qualitytrace_config::{Diagnostic, File, Origin, Report, Severity};
pub use sources::{Defaults, Reading, Sources};
pub use table::{PROCESS_SETTINGS, SETTINGS, Setting, VIEW_SETTINGS};

/// The resolved configuration of the crate.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// `false` when `OTEL_SDK_DISABLED` says so: nothing is recorded.
    pub enabled: bool,
    /// The service name of sinks without one of their own.
    pub service_name: String,
    /// The version of the service.
    pub service_version: Option<String>,
    /// Resource attributes that every sink sends.
    pub resource: Vec<(String, AttributeValue)>,
    /// The schema that the resource follows, if it is not the crate's own.
    pub schema_url: Option<String>,
    /// How much of a span or log record is kept.
    pub limits: RecordLimits,
    /// The folder of the spools, one folder per sink inside. Without it lossless sinks keep their
    /// items in memory only.
    pub spool_path: Option<PathBuf>,
    /// The least severe line that the crate writes to the log about itself.
    pub log_level: Level,
    /// Propagators for incoming and outgoing trace contexts.
    pub propagators: Propagators,
    /// Bounds of the recording side.
    pub recorder: Recorder,
    /// How measurements are aggregated into metrics.
    pub metrics: Metrics,
    /// Whether this telemetry is installed in `opentelemetry::global`, for spans, meters and headers of libraries. A
    /// program decides this, not its configuration; the telemetry that starts last wins.
    pub set_global: bool,
    /// Destinations of telemetry.
    pub sinks: Vec<Sink>,
    /// Where each process-wide setting came from; a missing entry is a default.
    pub origins: BTreeMap<String, Origin>,
}

/// Bounds of the recording side, shared by all sinks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorder {
    /// Items that may wait for the recorder thread.
    pub items: usize,
    /// The longest time that an item waits before it is encoded and spooled: what a `kill -9` may lose.
    pub linger: Duration,
    /// The longest time that the emitting thread waits for room; it waits only when a lossless sink wants the item.
    pub block: Duration,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { items: 65_536, linger: Duration::from_millis(10), block: Duration::from_millis(1) }
    }
}

impl Config {
    /// A configuration without sinks: spans and metrics exist, nothing leaves the process.
    pub fn new(service_name: impl Into<String>) -> Self {
        Self {
            enabled: true,
            service_name: service_name.into(),
            service_version: None,
            resource: Vec::new(),
            schema_url: None,
            limits: RecordLimits::default(),
            spool_path: None,
            log_level: Level::Info,
            propagators: Propagators::default(),
            recorder: Recorder::default(),
            metrics: Metrics::default(),
            set_global: false,
            sinks: Vec::new(),
            origins: BTreeMap::new(),
        }
    }

    /// Returns the settings that differ in `other` and that a reload does not change.
    pub fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let (now, then) = (&self.metrics, &other.metrics);
        let fixed = [
            ("telemetry.recorder", self.recorder != other.recorder),
            ("telemetry.views", now.views != then.views),
            ("telemetry.default-histogram-aggregation", now.default_histogram != then.default_histogram),
            ("telemetry.cardinality-limit", now.cardinality != then.cardinality),
            ("telemetry.exemplar-filter", now.exemplars != then.exemplars),
        ];
        fixed.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// The value of a resource attribute.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// Several values of one type.
    List(Vec<Self>),
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Limits on the number of attributes and on the length of their texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttributeLimits {
    /// Attributes; more are dropped and counted.
    pub count: u32,
    /// Characters of a text; the rest is cut off. Without a limit a text is cut at 16 KiB.
    pub length: u32,
}

impl Default for AttributeLimits {
    fn default() -> Self {
        Self { count: 128, length: u32::MAX }
    }
}

/// How much of a span or log record is kept. The defaults are those of the OpenTelemetry specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordLimits {
    /// Attributes of spans.
    pub span_attributes: AttributeLimits,
    /// Events of a span.
    pub events: u32,
    /// Links of a span.
    pub links: u32,
    /// Attributes of an event.
    pub event_attributes: u32,
    /// Attributes of log records.
    pub log_attributes: AttributeLimits,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            span_attributes: AttributeLimits::default(),
            events: 128,
            links: 128,
            event_attributes: 128,
            log_attributes: AttributeLimits::default(),
        }
    }
}

/// What a sink carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// Spans.
    Traces,
    /// Data points.
    Metrics,
    /// Log records.
    Logs,
}

impl Signal {
    /// All signals, in a stable order.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Its name in OTLP paths.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// The unit in which items of the signal are counted.
    pub(crate) fn items(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "data points",
            Self::Logs => "log records",
        }
    }
}

/// The source of a sink's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The server's own spans, logs and metrics.
    Server,
    /// Only the spans of the application tracer.
    Application,
}

/// The OTLP transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Transport {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP over HTTP with protobuf bodies.
    Http,
}

/// How requests are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, which every OTLP server understands.
    Gzip,
    /// zstd, smaller and cheaper where the server understands it.
    Zstd,
}

/// Whether points of counters and histograms count from the start or from the previous point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Temporality {
    /// Since the start.
    Cumulative,
    /// Since the previous point.
    Delta,
    /// Since the previous point, except for observable counters.
    LowMemory,
}

/// The least severe level that a sink takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything.
    Trace,
    /// Debug and above.
    Debug,
    /// Info and above.
    Info,
    /// Warnings and errors.
    Warn,
    /// Errors only.
    Error,
    /// Nothing.
    Disable,
}

/// The level of a sink for spans and events of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// A target of `tracing`, most often a module path; it includes the targets below it.
    pub target: String,
    /// The least severe level that is taken.
    pub level: Level,
}

impl Target {
    /// Sets the level of a target.
    pub fn new(target: impl Into<String>, level: Level) -> Self {
        Self { target: target.into(), level }
    }
}

/// Which traces a sink takes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Sampler {
    /// All of them.
    AlwaysOn,
    /// None of them.
    AlwaysOff,
    /// This share of trace ids, between 0 and 1.
    Ratio(f64),
    /// Follows the caller's decision; the root sampler decides where there is no caller.
    ParentBased {
        /// For traces that begin here.
        root: Box<Sampler>,
        /// For traces whose caller sampled them.
        remote_sampled: Box<Sampler>,
        /// For traces that the caller did not sample.
        remote_not_sampled: Box<Sampler>,
    },
}

impl Sampler {
    /// The parent's decision, or `root` where there is no parent.
    pub fn parent_based(root: Self) -> Self {
        Self::ParentBased {
            root: Box::new(root),
            remote_sampled: Box::new(Self::AlwaysOn),
            remote_not_sampled: Box::new(Self::AlwaysOff),
        }
    }
}

/// A request header whose value is never shown.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The name, lower case.
    pub name: String,
    /// The value; secret.
    pub value: String,
}

impl Header {
    /// A header, or `None` if its name or value is invalid. Headers that frame a message (`content-length`,
    /// `content-type`, ...) are invalid: the transport sets them.
    pub fn new(name: &str, value: &str) -> Option<Self> {
        value::header(name, value).ok()
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

impl Tls {
    /// Returns the setting that is missing, and why it is needed.
    pub(crate) fn incomplete(&self) -> Option<(&'static str, String)> {
        let name = match (&self.certificate, &self.key) {
            (Some(_), None) => "tls.key",
            (None, Some(_)) => "tls.certificate",
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some((name, format!("`{name}` is missing: a certificate and its key go together")))
    }
}

/// TLS of a sink: which certificates of the peer are trusted, and the client certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tls {
    /// PEM file of authorities that replace the system's.
    pub ca: Option<PathBuf>,
    /// PEM file of our certificate chain.
    pub certificate: Option<PathBuf>,
    /// PEM file of our private key.
    pub key: Option<PathBuf>,
    /// The name to expect in the peer's certificate, when it is not the host of the endpoint.
    pub server_name: Option<String>,
    /// Accept any certificate.
    pub skip_verify: bool,
}

/// Bounds of a sink's memory and disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Items of each signal in memory.
    pub queue_items: usize,
    /// Bytes of each signal in memory.
    pub queue_bytes: usize,
    /// Whether a lossless sink spools to disk.
    pub spool: bool,
    /// Bytes on disk.
    pub spool_bytes: u64,
    /// How long an undelivered item is kept.
    pub spool_age: Duration,
    /// When spooled bytes are forced to the disk.
    pub spool_sync: Sync,
}

/// When spooled bytes are forced to the disk; a crash of the process alone never needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sync {
    /// When the kernel decides.
    Never,
    /// Every second, while something is undelivered.
    Interval,
    /// After each write.
    Always,
}

/// Batching, timeouts and retries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// Items in a request.
    pub batch_items: usize,
    /// Bytes in a request, before compression.
    pub batch_bytes: usize,
    /// Concurrent requests of each signal.
    pub in_flight: usize,
    /// The longest time that an item waits for its batch to fill.
    pub throttle: Duration,
    /// Timeout of a request.
    pub timeout: Duration,
    /// The first backoff after a failure; it doubles with each further failure.
    pub retry_initial: Duration,
    /// The longest backoff.
    pub retry_max: Duration,
    /// Failures in a row that open the circuit.
    pub retry_circuit: u32,
    /// Whether items are kept that the receiver refuses for lack of authorization (401, 403), until it accepts them.
    pub retry_unauthorized: bool,
}

/// A sink: one destination of telemetry.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sink {
    /// Its name: `collector`, `collector/application`, `tracer.otel`, `metrics.open-telemetry`, `otel`, ...
    pub id: String,
    /// The source of its records.
    pub role: Role,
    /// The OTLP transport.
    pub transport: Transport,
    /// Where each signal goes; a signal without an address is not sent. For gRPC the address has no path.
    pub endpoints: BTreeMap<Signal, String>,
    /// Sent with each request.
    pub headers: Vec<Header>,
    /// The service name in its resource; `None` takes the process-wide one.
    pub service_name: Option<String>,
    /// Which traces it takes.
    pub sampler: Sampler,
    /// Which spans and logs it takes.
    pub level: Level,
    /// The levels of single targets, which override `level`.
    pub targets: Vec<Target>,
    /// Whether new items are dropped when the memory queue is full, instead of being spooled.
    pub lossy: bool,
    /// How often metrics are collected for it.
    pub interval: Duration,
    /// The temporality of its data points.
    pub temporality: Temporality,
    /// How requests are compressed.
    pub compression: Compression,
    /// TLS settings.
    pub tls: Tls,
    /// Bounds of memory and disk.
    pub limits: Limits,
    /// Batches and retries.
    pub delivery: Delivery,
    /// Patterns of attribute keys whose values are redacted; `*` matches any text.
    pub redact: Vec<String>,
    /// Where each setting came from; a missing entry is a default.
    pub origins: BTreeMap<String, Origin>,
}

/// Attribute keys that are redacted unless a sink's `redact` says otherwise.
const REDACT: [&str; 9] = [
    "http.request.header.authorization",
    "http.request.header.proxy-authorization",
    "http.request.header.cookie",
    "http.response.header.set-cookie",
    "*.header.x-api-key",
    "*password*",
    "*secret*",
    "*api_key*",
    "*access_token*",
];

impl Sink {
    /// A sink with the documented defaults and no signal.
    pub fn new(id: impl Into<String>, transport: Transport) -> Self {
        Self {
            id: id.into(),
            role: Role::Server,
            transport,
            endpoints: BTreeMap::new(),
            headers: Vec::new(),
            service_name: None,
            sampler: Sampler::parent_based(Sampler::AlwaysOn),
            level: Level::Info,
            targets: Vec::new(),
            lossy: false,
            interval: Duration::from_mins(1),
            temporality: Temporality::Cumulative,
            compression: Compression::None,
            tls: Tls::default(),
            limits: Limits {
                queue_items: 65_536,
                queue_bytes: 64 << 20,
                spool: true,
                spool_bytes: 1 << 30,
                spool_age: Duration::from_hours(24),
                spool_sync: Sync::Interval,
            },
            delivery: Delivery {
                batch_items: 2_048,
                batch_bytes: 4_000_000,
                in_flight: 4,
                throttle: Duration::from_secs(1),
                timeout: Duration::from_secs(10),
                retry_initial: Duration::from_secs(1),
                retry_max: Duration::from_secs(30),
                retry_circuit: 3,
                retry_unauthorized: false,
            },
            redact: REDACT.map(str::to_owned).to_vec(),
            origins: BTreeMap::new(),
        }
    }

    /// Lowers the timeout to this value if it is larger.
    pub(crate) fn limit_timeout(&mut self, timeout: Duration, origin: Origin) {
        if timeout < self.delivery.timeout {
            self.delivery.timeout = timeout;
            self.origins.insert("timeout".to_owned(), origin);
        }
    }

    /// Warns of a batch that is larger than the queue.
    pub(crate) fn check_batch(&self, report: &mut Report) {
        let (batch, queue) = (self.delivery.batch_items, self.limits.queue_items);
        if let Some(origin) = self.origins.get("batch.items").filter(|_| batch > queue) {
            let message = format!("a batch of {batch} items is larger than the queue, which holds {queue}");
            let help = Some("set a larger queue, or a smaller batch".to_owned());
            report.push(Severity::Warning, origin, "batch.items", message, help);
        }
    }

    /// Whether the two are equal apart from the origins of their settings.
    pub(crate) fn same_settings(&self, other: &Self) -> bool {
        let bare = |sink: &Self| Self { origins: BTreeMap::new(), ..sink.clone() };
        bare(self) == bare(other)
    }
}
