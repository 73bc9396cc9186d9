//! The standard `OTEL_*` variables.
//!
//! They describe one sink per signal and protocol, named `otel`, and defaults of the resource. An empty variable counts
//! as unset; an invalid value is ignored with a warning, as the specification asks. Without an endpoint or an exporter
//! named `otlp` they switch nothing on.

mod known;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use qualitytrace_config::{Origin, Report, Severity};

use super::{
    Compression, Config, DefaultHistogram, ExemplarFilter, Level, Sampler, Signal, Sink, Temporality,
    Transport, endpoint, metrics, propagators, value,
};

pub(crate) use known::{config_file, ignored, unknown};

struct Variables<'a> {
    map: &'a BTreeMap<String, String>,
    report: &'a mut Report,
}

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<(String, Origin)> {
        let text = self.map.get(name)?.trim();
        (!text.is_empty()).then(|| (text.to_owned(), Origin::Environment(name.to_owned())))
    }

    /// The variable of the signal, or the common one.
    fn signal(&self, signal: Signal, name: &str) -> Option<(String, Origin)> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_{name}", signal.name().to_ascii_uppercase());
        self.get(&own).or_else(|| self.get(&format!("OTEL_EXPORTER_OTLP_{name}")))
    }

    fn warn(&mut self, origin: &Origin, value: &str, allowed: &str) {
        let Origin::Environment(name) = origin else { return };
        let name = name.clone();
        self.report.bad_value(Severity::Warning, origin, &name, value, allowed);
    }

    fn parsed<T>(
        &mut self,
        found: Option<(String, Origin)>,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<(T, Origin)> {
        let (text, origin) = found?;
        if let Some(value) = parse(&text) {
            return Some((value, origin));
        }
        self.warn(&origin, &text, allowed);
        None
    }
}

const LOG_LEVEL: &str = "trace|debug|info|warn|error|none";
const MILLISECONDS: &str = "a whole number of milliseconds";

fn milliseconds(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis)
}

pub(crate) fn read(map: &BTreeMap<String, String>, config: &mut Config, report: &mut Report) {
    let mut variables = Variables { map, report: &mut *report };
    let disabled = variables.get("OTEL_SDK_DISABLED");
    if let Some((true, _)) = variables.parsed(disabled, "true|false", value::boolean) {
        config.enabled = false;
    }
    if let Some((text, origin)) = variables.get("OTEL_PROPAGATORS") {
        let names = text.split(',').map(|name| (name.trim().to_owned(), origin.clone())).collect();
        propagators::read(names, "OTEL_PROPAGATORS", config, variables.report);
    }
    let found = variables.get("OTEL_LOG_LEVEL");
    if let Some((level, origin)) = variables.parsed(found, LOG_LEVEL, Level::parse_severity) {
        config.log_level = level;
        config.origins.insert("telemetry.log-level".to_owned(), origin);
    }
    limits(&mut variables, config);
    aggregation(&mut variables, config);
    resource(&mut variables, config);
    let before = config.sinks.len();
    let sampler = sampler(&mut variables);
    for signal in Signal::ALL {
        let exporter = variables.get(&format!("OTEL_{}_EXPORTER", signal.name().to_ascii_uppercase()));
        let named = match &exporter {
            None => false,
            Some((text, origin)) => {
                let mut otlp = false;
                for name in text.split(',').map(str::trim) {
                    match name {
                        "otlp" => otlp = true,
                        "none" => {}
                        _ => variables.warn(origin, name, "otlp|none"),
                    }
                }
                if !otlp {
                    continue;
                }
                true
            }
        };
        let address = variables.signal(signal, "ENDPOINT");
        if !named && address.is_none() {
            continue;
        }
        if let Some(mut sink) = sink(&mut variables, signal, address) {
            if let (Signal::Traces, Some((sampler, origin))) = (signal, &sampler) {
                sink.sampler = sampler.clone();
                sink.origins.insert("sampling".to_owned(), origin.clone());
            }
            config.sinks.push(sink);
        }
    }
    let set = |name: &str, text: &str| {
        name.starts_with("OTEL_EXPORTER_OTLP_") && !text.trim().is_empty() && known::is_known(name)
    };
    let idle = map.iter().find(|(name, text)| set(name, text));
    if let Some((name, _)) = idle.filter(|_| config.sinks.len() == before && config.enabled) {
        let off = Signal::ALL
            .iter()
            .any(|signal| map.contains_key(&format!("OTEL_{}_EXPORTER", signal.name().to_ascii_uppercase())));
        if !off {
            let origin = Origin::Environment(name.clone());
            let message =
                format!("`{name}` has no effect: no endpoint is set, and no exporter is named `otlp`");
            report.note(&origin, name, message);
        }
    }
}

/// Reads the settings that apply to all sinks of metrics.
fn aggregation(variables: &mut Variables<'_>, config: &mut Config) {
    let found = variables.get("OTEL_METRICS_EXEMPLAR_FILTER");
    if let Some((filter, origin)) = variables.parsed(found, metrics::EXEMPLAR_FILTER, ExemplarFilter::parse) {
        config.metrics.exemplars = filter;
        config.origins.insert("telemetry.exemplar-filter".to_owned(), origin);
    }
    let found = variables.get("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION");
    let parse = DefaultHistogram::parse;
    if let Some((histogram, origin)) = variables.parsed(found, metrics::DEFAULT_HISTOGRAM, parse) {
        config.metrics.default_histogram = histogram;
        config.origins.insert("telemetry.default-histogram-aggregation".to_owned(), origin);
    }
}

/// Reads the general limits first, then those of spans and log records, which override them.
fn limits(variables: &mut Variables, config: &mut Config) {
    let limits = &mut config.limits;
    let mut read = |name: &str, targets: &mut [&mut u32]| {
        let found = variables.get(name);
        if let Some((limit, origin)) = variables.parsed(found, "a whole number", |text| text.parse().ok()) {
            for target in targets {
                **target = limit;
            }
            config.origins.insert(format!("telemetry.limits.{}", name.to_ascii_lowercase()), origin);
        }
    };
    read(
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
        &mut [&mut limits.span_attributes.length, &mut limits.log_attributes.length],
    );
    read(
        "OTEL_ATTRIBUTE_COUNT_LIMIT",
        &mut [
            &mut limits.span_attributes.count,
            &mut limits.log_attributes.count,
            &mut limits.event_attributes,
        ],
    );
    read("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", &mut [&mut limits.span_attributes.length]);
    read("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", &mut [&mut limits.span_attributes.count]);
    read("OTEL_SPAN_EVENT_COUNT_LIMIT", &mut [&mut limits.events]);
    read("OTEL_SPAN_LINK_COUNT_LIMIT", &mut [&mut limits.links]);
    read("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", &mut [&mut limits.event_attributes]);
    // Links have no attributes, so any limit holds.
    read("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", &mut []);
    read("OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", &mut [&mut limits.log_attributes.length]);
    read("OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", &mut [&mut limits.log_attributes.count]);
}

fn resource(variables: &mut Variables, config: &mut Config) {
    if let Some((text, origin)) = variables.get("OTEL_RESOURCE_ATTRIBUTES") {
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            match pair.split_once('=').and_then(|(k, v)| Some((k.trim(), value::percent_decode(v.trim())?))) {
                Some(("service.name", name)) => {
                    config.service_name = name;
                    config.origins.insert("telemetry.service-name".to_owned(), origin.clone());
                }
                Some((key, text)) if !key.is_empty() => config.resource.push((key.to_owned(), text.into())),
                Some(_) | None => variables.warn(&origin, pair, "key=value pairs, percent-encoded"),
            }
        }
    }
    if let Some((name, origin)) = variables.get("OTEL_SERVICE_NAME") {
        config.service_name = name;
        config.origins.insert("telemetry.service-name".to_owned(), origin);
    }
}

fn sampler(variables: &mut Variables) -> Option<(Sampler, Origin)> {
    let argument = variables.get("OTEL_TRACES_SAMPLER_ARG");
    let Some((name, origin)) = variables.get("OTEL_TRACES_SAMPLER") else {
        if let Some((_, origin)) = argument {
            let key = "OTEL_TRACES_SAMPLER_ARG";
            let message = format!("`{key}` has no effect: `OTEL_TRACES_SAMPLER` is not set");
            variables.report.push(Severity::Warning, &origin, key, message, None);
        }
        return None;
    };
    let share = variables
        .parsed(argument, "a number between 0 and 1", |text| {
            text.parse().ok().filter(|x| (0.0..=1.0).contains(x))
        })
        .map_or(1.0, |(share, _)| share);
    let sampler = match name.as_str() {
        "always_on" => Sampler::AlwaysOn,
        "always_off" => Sampler::AlwaysOff,
        "traceidratio" => value::ratio(share),
        "parentbased_always_on" => Sampler::parent_based(Sampler::AlwaysOn),
        "parentbased_always_off" => Sampler::parent_based(Sampler::AlwaysOff),
        "parentbased_traceidratio" => Sampler::parent_based(value::ratio(share)),
        _ => {
            variables.warn(
                &origin,
                &name,
                "always_on|always_off|traceidratio|parentbased_always_on|parentbased_always_off|parentbased_traceidratio",
            );
            return None;
        }
    };
    Some((sampler, origin))
}

fn sink(variables: &mut Variables, signal: Signal, address: Option<(String, Origin)>) -> Option<Sink> {
    let found = variables.signal(signal, "PROTOCOL");
    if let Some((_, origin)) = found.as_ref().filter(|(text, _)| text == "http/json") {
        let message = "`http/json` is sent as `http/protobuf`, which every receiver takes".to_owned();
        variables.report.note(origin, &origin.to_string(), message);
    }
    let protocol = variables.parsed(found, "grpc|http/protobuf", |text| match text {
        "grpc" => Some(Transport::Grpc),
        "http/protobuf" | "http/json" => Some(Transport::Http),
        _ => None,
    });
    let transport = protocol.as_ref().map_or(Transport::Http, |(transport, _)| *transport);
    let mut sink = Sink::new(format!("otel.{}", signal.name()), transport);
    if let Some((_, origin)) = protocol {
        sink.origins.insert("transport".to_owned(), origin);
    }
    let found = variables.signal(signal, "INSECURE");
    let insecure =
        variables.parsed(found, "true|false", value::boolean).is_some_and(|(insecure, _)| insecure);
    let resolved = match &address {
        None => endpoint::resolve(transport, endpoint::default(transport), signal),
        Some((text, origin)) => {
            let own = matches!(origin, Origin::Environment(name) if name != "OTEL_EXPORTER_OTLP_ENDPOINT");
            let secure = transport == Transport::Grpc && !insecure && !text.contains("://");
            let text = if secure { format!("https://{text}") } else { text.clone() };
            if own {
                endpoint::verbatim(transport, &text)
            } else {
                endpoint::appended(transport, &text, signal)
            }
        }
    };
    match (resolved, &address) {
        (Ok(resolved), _) => {
            if let (Some(path), Some((_, origin))) = (&resolved.ignored_path, &address) {
                variables.report.note(
                    origin,
                    &origin.to_string(),
                    format!("the path `{path}` is ignored: gRPC has none"),
                );
            }
            sink.endpoints.insert(signal, resolved.url);
        }
        (Err(why), Some((text, origin))) => {
            // Without a usable address nothing can be sent; to start anyway would hide that.
            variables.report.error(
                origin,
                &origin.to_string(),
                format!("`{}` is no endpoint: {why}", endpoint::shown(text)),
                None,
            );
            return None;
        }
        (Err(_), None) => return None,
    }
    if let Some((_, origin)) = address {
        sink.origins.insert("endpoint".to_owned(), origin);
    }
    options(variables, signal, &mut sink);
    Some(sink)
}

fn options(variables: &mut Variables, signal: Signal, sink: &mut Sink) {
    if let Some((text, origin)) = variables.signal(signal, "HEADERS") {
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            match value::header_pair(pair) {
                Ok(header) => sink.headers.push(header),
                Err(why) => {
                    let name = origin.to_string();
                    let message = format!("a header of `{}` is not sent", name.trim_start_matches('$'));
                    variables.report.push(Severity::Warning, &origin, &name, message, Some(why));
                }
            }
        }
        sink.origins.insert("headers".to_owned(), origin);
    }
    let found = variables.signal(signal, "TIMEOUT");
    if let Some((timeout, origin)) = variables.parsed(found, MILLISECONDS, milliseconds) {
        sink.delivery.timeout = timeout;
        sink.origins.insert("timeout".to_owned(), origin);
    }
    let found = variables.signal(signal, "COMPRESSION");
    if let Some((compression, origin)) = variables.parsed(found, Compression::WORDS, Compression::parse) {
        sink.compression = compression;
        sink.origins.insert("compression".to_owned(), origin);
    }
    let files = [
        ("CERTIFICATE", "tls.ca", &mut sink.tls.ca),
        ("CLIENT_CERTIFICATE", "tls.certificate", &mut sink.tls.certificate),
        ("CLIENT_KEY", "tls.key", &mut sink.tls.key),
    ];
    for (name, setting, target) in files {
        if let Some((path, origin)) = variables.signal(signal, name) {
            *target = Some(PathBuf::from(path));
            sink.origins.insert(setting.to_owned(), origin);
        }
    }
    if let Some((name, message)) = sink.tls.incomplete() {
        let given = if name == "tls.key" { "tls.certificate" } else { "tls.key" };
        let origin = sink.origins.get(given).cloned().unwrap_or(Origin::Default);
        variables.report.push(Severity::Warning, &origin, name, message, None);
    }
    processor(variables, signal, sink);
    let found = variables
        .get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")
        .filter(|_| signal == Signal::Metrics);
    if let Some((temporality, origin)) = variables.parsed(found, Temporality::WORDS, Temporality::parse) {
        sink.temporality = temporality;
        sink.origins.insert("temporality".to_owned(), origin);
    }
    let found = variables.get("OTEL_METRIC_EXPORT_INTERVAL").filter(|_| signal == Signal::Metrics);
    let interval = |text: &str| milliseconds(text).filter(|_| value::interval(text).is_some());
    let allowed = "a whole number of milliseconds, at least 10";
    if let Some((interval, origin)) = variables.parsed(found, allowed, interval) {
        sink.interval = interval;
        sink.origins.insert("interval".to_owned(), origin);
    }
}

/// The settings of the batch processors and of the metric reader.
fn processor(variables: &mut Variables, signal: Signal, sink: &mut Sink) {
    let prefix = match signal {
        Signal::Traces => "OTEL_BSP",
        Signal::Logs => "OTEL_BLRP",
        Signal::Metrics => "OTEL_METRIC",
    };
    let found = variables.get(&format!("{prefix}_EXPORT_TIMEOUT"));
    if let Some((timeout, origin)) = variables.parsed(found, MILLISECONDS, milliseconds) {
        sink.limit_timeout(timeout, origin);
    }
    if signal == Signal::Metrics {
        return;
    }
    let found = variables.get(&format!("{prefix}_SCHEDULE_DELAY"));
    if let Some((delay, origin)) = variables.parsed(found, MILLISECONDS, milliseconds) {
        sink.delivery.throttle = delay;
        sink.origins.insert("throttle".to_owned(), origin);
    }
    let count = |text: &str| text.parse::<usize>().ok().filter(|count| *count > 0);
    let targets = [
        ("MAX_QUEUE_SIZE", "queue.items", &mut sink.limits.queue_items),
        ("MAX_EXPORT_BATCH_SIZE", "batch.items", &mut sink.delivery.batch_items),
    ];
    for (name, setting, target) in targets {
        let found = variables.get(&format!("{prefix}_{name}"));
        if let Some((number, origin)) = variables.parsed(found, "a whole number above 0", count) {
            *target = number;
            sink.origins.insert(setting.to_owned(), origin);
        }
    }
    sink.check_batch(variables.report);
}
