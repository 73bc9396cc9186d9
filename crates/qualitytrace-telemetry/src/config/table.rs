//! All settings of a sink in one table: for reading, for suggestions and for the documentation.

use qualitytrace_config::{layer::normalised, same_key};

use super::{Compression, Level, Sampler, Temporality, metrics};

/// Attribute keys that are redacted unless a sink's `redact` says otherwise.
pub(crate) const DEFAULT_REDACT: &[&str] = &[
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

/// One setting of a sink or of a view.
#[derive(Debug)]
pub struct Setting {
    /// Its name under `tracer.<id>.` or `telemetry.views.<name>.`; under `telemetry.exporters.<name>.` camel case
    /// works too.
    pub name: &'static str,
    /// The values that it accepts.
    pub expected: &'static str,
    /// Its default.
    pub default: &'static str,
}

const fn setting(name: &'static str, expected: &'static str, default: &'static str) -> Setting {
    Setting { name, expected, default }
}

const DURATION: &str = "a duration such as `1s` or `1m30s`";
const SIZE: &str = "a size such as `64MiB`";
const COUNT: &str = "a whole number above 0";
const BOOL: &str = "true|false";
pub(crate) const TEMPORALITY: &str = "cumulative|delta|lowmemory";

/// All settings of a sink, in the order of the documentation.
pub const SETTINGS: &[Setting] = &[
    setting("type", "collector (exporters), open-telemetry|otel (tracers)", "required"),
    setting(
        "transport",
        "grpc|http (metrics: also disable)",
        "grpc for exporters; required for tracers; disable for metrics",
    ),
    setting("endpoint", "`host:port` or a URL", "http://localhost:4317 for gRPC; required otherwise"),
    setting("endpoint.traces", "a URL, used as written", "from `endpoint`"),
    setting("endpoint.metrics", "a URL, used as written", "from `endpoint`"),
    setting("endpoint.logs", "a URL, used as written", "from `endpoint`"),
    setting("headers", "a list of `Name: value`, or a map", "none"),
    setting("enable", BOOL, "true"),
    setting("enable.span-exporter", BOOL, "true"),
    setting("enable.log-exporter", BOOL, "false"),
    setting("enable.metric-exporter", BOOL, "true for exporters; false for tracers"),
    setting("level", "trace|debug|info|warn|error|disable", "info"),
    setting("targets", "a list of `TARGET=LEVEL`, such as `h2=debug`", "the transport crates are `disable`"),
    setting("sampling", "a percentage between 0 and 100", "100"),
    setting("service-name", "a name", "the server's"),
    setting("throttle", DURATION, "1s (exporters: 100ms)"),
    setting("lossy", BOOL, "false"),
    setting("interval", "a duration such as `30s`, at least `10ms`", "1m (exporters: 10s)"),
    setting("temporality", TEMPORALITY, "cumulative"),
    setting("compression", "none|gzip|zstd", "none"),
    setting("timeout", DURATION, "10s"),
    setting("tls.ca", "a PEM file", "the system's authorities"),
    setting("tls.certificate", "a PEM file", "none"),
    setting("tls.key", "a PEM file", "none"),
    setting("tls.server-name", "a host name", "the endpoint's host"),
    setting("tls.insecure", BOOL, "true: an endpoint without a scheme is plain"),
    setting("tls.skip-verify", BOOL, "false"),
    setting("queue.items", COUNT, "65536"),
    setting("queue.bytes", SIZE, "64MiB"),
    setting("spool.enable", BOOL, "true"),
    setting("spool.bytes", SIZE, "1GiB"),
    setting("spool.age", DURATION, "24h"),
    setting("spool.sync", "never|interval|always", "interval"),
    setting("batch.items", COUNT, "2048"),
    setting("batch.bytes", SIZE, "4MB"),
    setting("batch.in-flight", COUNT, "4"),
    setting("retry.initial", DURATION, "1s"),
    setting("retry.max", DURATION, "30s"),
    setting("retry.circuit", COUNT, "3"),
    setting("retry.unauthorized", BOOL, "false"),
    setting(
        "redact",
        "a list of attribute keys, `*` stands for any text",
        "secret headers, passwords, tokens",
    ),
];

/// All settings of a view, in the order of the documentation.
pub const VIEW_SETTINGS: &[Setting] = &[
    setting("instrument-name", "a name, `*` and `?` stand for any text and any character", "any"),
    setting(
        "instrument-type",
        "counter|gauge|histogram|observable_counter|observable_gauge|observable_up_down_counter|up_down_counter",
        "any",
    ),
    setting("unit", "a unit", "any"),
    setting("meter-name", "a name", "any"),
    setting("meter-version", "a version", "any"),
    setting("meter-schema-url", "a URL", "any"),
    setting("name", "a name", "the instrument's"),
    setting("description", "a text", "the instrument's"),
    setting("aggregation", metrics::AGGREGATION, "default"),
    setting("boundaries", metrics::BOUNDARY_LIST, "those of the specification"),
    setting("max-size", metrics::MAX_SIZE, "160"),
    setting("max-scale", metrics::MAX_SCALE, "20"),
    setting("record-min-max", BOOL, "true"),
    setting("attributes.included", "a list of attribute keys, with `*` and `?`", "all"),
    setting("attributes.excluded", "a list of attribute keys, with `*` and `?`", "none"),
    setting("cardinality-limit", metrics::CARDINALITY, "`telemetry.cardinality-limit`"),
];

/// The name of a setting in the table: `serviceName`, `service_name` and `servicename` are all `service-name`.
pub(crate) fn canonical(path: &str) -> Option<&'static str> {
    let path = normalised(path);
    let path = match path.as_str() {
        "metricsreaderinterval" => "interval",
        "tls.cafile" => "tls.ca",
        "tls.certfile" => "tls.certificate",
        "tls.keyfile" => "tls.key",
        other => other,
    };
    SETTINGS.iter().map(|setting| setting.name).find(|name| normalised(name) == path)
}

/// The name of a view's setting in the table, for any spelling.
pub(crate) fn canonical_of_view(path: &str) -> Option<&'static str> {
    VIEW_SETTINGS.iter().map(|setting| setting.name).find(|name| same_key(name, path))
}

pub(crate) fn compression(text: &str) -> Option<Compression> {
    Some(match text {
        "none" => Compression::None,
        "gzip" => Compression::Gzip,
        "zstd" => Compression::Zstd,
        _ => return None,
    })
}

/// Parses a temporality; `low_memory` is the spelling of the declarative file.
pub(crate) fn temporality(text: &str) -> Option<Temporality> {
    Some(match text.to_ascii_lowercase().as_str() {
        "cumulative" => Temporality::Cumulative,
        "delta" => Temporality::Delta,
        "lowmemory" | "low_memory" => Temporality::LowMemory,
        _ => return None,
    })
}

pub(crate) fn temporality_name(temporality: Temporality) -> &'static str {
    match temporality {
        Temporality::Cumulative => "cumulative",
        Temporality::Delta => "delta",
        Temporality::LowMemory => "lowmemory",
    }
}

pub(crate) fn expected(name: &str) -> &'static str {
    let all = SETTINGS.iter().chain(VIEW_SETTINGS);
    all.into_iter().find(|setting| setting.name == name).map_or("", |setting| setting.expected)
}

/// Describes a sampler for `check` and the documentation.
pub(crate) fn describe(sampler: &Sampler) -> String {
    match sampler {
        Sampler::AlwaysOn => "100%".to_owned(),
        Sampler::AlwaysOff => "0%".to_owned(),
        Sampler::Ratio(share) => format!("{}%", (share * 1e8).round() / 1e6),
        Sampler::ParentBased { root, .. } => {
            format!("{} of new traces, else as the caller decided", describe(root))
        }
    }
}

pub(crate) fn level_name(level: Level) -> &'static str {
    match level {
        Level::Trace => "trace",
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
        Level::Disable => "disable",
    }
}
