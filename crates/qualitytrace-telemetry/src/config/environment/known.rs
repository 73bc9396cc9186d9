//! The `OTEL_*` variables that have an effect, and the diagnostics about the others.

use std::collections::BTreeMap;

use qualitytrace_config::{Origin, Report, Severity, nearest};

/// The variable that names the declarative file, now and before it was stable.
const CONFIG_FILE: &str = "OTEL_CONFIG_FILE";
const OLD_CONFIG_FILE: &str = "OTEL_EXPERIMENTAL_CONFIG_FILE";

/// Variables that have an effect.
const KNOWN: &[&str] = &[
    CONFIG_FILE,
    OLD_CONFIG_FILE,
    "OTEL_SDK_DISABLED",
    "OTEL_LOG_LEVEL",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_PROPAGATORS",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BLRP_EXPORT_TIMEOUT",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
    "OTEL_METRICS_EXEMPLAR_FILTER",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT",
];

/// Suffixes after `OTEL_EXPORTER_OTLP_`, with or without a signal before them.
const OTLP: &[&str] = &[
    "ENDPOINT",
    "PROTOCOL",
    "HEADERS",
    "TIMEOUT",
    "COMPRESSION",
    "CERTIFICATE",
    "CLIENT_CERTIFICATE",
    "CLIENT_KEY",
    "INSECURE",
];

/// Variables of the specification that have no effect here.
const WITHOUT_EFFECT: &[&str] = &[
    "OTEL_ENTITIES",
    "OTEL_EXPORTER_PROMETHEUS_HOST",
    "OTEL_EXPORTER_PROMETHEUS_PORT",
    "OTEL_EXPORTER_ZIPKIN_ENDPOINT",
    "OTEL_EXPORTER_ZIPKIN_TIMEOUT",
    "OTEL_SEMCONV_STABILITY_OPT_IN",
];

/// Prefixes of variables that other languages and the Collector read.
const OTHERS: &[&str] = &[
    "OTEL_JAVA",
    "OTEL_JMX_",
    "OTEL_INSTRUMENTATION_",
    "OTEL_PYTHON_",
    "OTEL_NODE_",
    "OTEL_DOTNET_",
    "OTEL_GO_",
    "OTEL_PHP_",
    "OTEL_RUBY_",
    "OTEL_CPP_",
    "OTEL_SWIFT_",
    "OTEL_RUST_",
    "OTEL_COLLECTOR_",
    "OTEL_OPERATOR_",
    "OTEL_INJECTOR_",
];

/// Returns the declarative file, if a variable names one.
pub(crate) fn config_file(map: &BTreeMap<String, String>, report: &mut Report) -> Option<(String, Origin)> {
    let named = |name: &str| {
        let path = map.get(name).map(|path| path.trim()).filter(|path| !path.is_empty())?;
        Some((path.to_owned(), Origin::Environment(name.to_owned())))
    };
    let Some((old, origin)) = named(OLD_CONFIG_FILE) else { return named(CONFIG_FILE) };
    if let Some(found) = named(CONFIG_FILE) {
        let message =
            format!("`{OLD_CONFIG_FILE}` has no effect: `{CONFIG_FILE}` is set too, and overrides it");
        report.push(Severity::Warning, &origin, OLD_CONFIG_FILE, message, None);
        return Some(found);
    }
    let message = format!("`{OLD_CONFIG_FILE}` is the old name of `{CONFIG_FILE}`");
    report.push(Severity::Warning, &origin, OLD_CONFIG_FILE, message, Some("rename it".to_owned()));
    Some((old, origin))
}

/// Notes the variables that have no effect because a declarative file is read instead.
pub(crate) fn ignored(map: &BTreeMap<String, String>, origin: &Origin, texts: &[&str], report: &mut Report) {
    let mut names: Vec<&str> = set(map, texts).filter(|name| is_known(name)).collect();
    names.retain(|name| ![CONFIG_FILE, OLD_CONFIG_FILE].contains(name));
    unknown(map, texts, report);
    let Origin::Environment(file) = origin else { return };
    for name in names {
        let origin = Origin::Environment(name.to_owned());
        let message = format!("`{name}` has no effect: `{file}` is set, and overrides it");
        report.note(&origin, name, message);
    }
}

/// Warns of variables that have no effect, misspelt ones among them.
pub(crate) fn unknown(map: &BTreeMap<String, String>, texts: &[&str], report: &mut Report) {
    for name in set(map, texts) {
        if is_known(name) || OTHERS.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let origin = Origin::Environment(name.to_owned());
        if WITHOUT_EFFECT.contains(&name) {
            let message = format!("`{name}` has no effect here");
            report.push(Severity::Warning, &origin, name, message, None);
            continue;
        }
        let words = all();
        let guess = nearest(name, words.iter().map(String::as_str));
        let help = guess.map(|word| format!("did you mean `{word}`?"));
        report.push(Severity::Warning, &origin, name, format!("`{name}` is not a known variable"), help);
    }
}

/// The `OTEL_` variables that are set and that no configuration text refers to.
fn set<'a>(map: &'a BTreeMap<String, String>, texts: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    map.iter()
        .filter(|(name, text)| name.starts_with("OTEL_") && !text.trim().is_empty())
        .map(|(name, _)| name.as_str())
        .filter(|name| !texts.iter().any(|text| text.contains(name)))
}

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name) || all().iter().any(|known| known == name)
}

fn all() -> Vec<String> {
    let signals = ["", "TRACES_", "METRICS_", "LOGS_"];
    let otlp = signals
        .iter()
        .flat_map(|signal| OTLP.iter().map(move |name| format!("OTEL_EXPORTER_OTLP_{signal}{name}")));
    KNOWN.iter().map(|name| (*name).to_owned()).chain(otlp).collect()
}
