//! The standard `OTEL_*` variables.
//!
//! They describe one sink per signal and protocol, named `otel`, and defaults of the resource. An
//! empty variable is an unset one; a value that makes no sense is a warning and is ignored, as the
//! specification asks. Without an endpoint or an exporter named `otlp` they switch nothing on.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::{
    Config, Sampler, Signal, Sink, Transport,
    diagnostic::{Origin, Report, Severity},
    endpoint, propagators, table, value,
};

struct Variables<'a> {
    map: &'a BTreeMap<String, String>,
    report: &'a mut Report,
}

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<(String, Origin)> {
        let text = self.map.get(name)?.trim();
        (!text.is_empty()).then(|| (text.to_owned(), Origin::Environment(name.to_owned())))
    }

    /// The variable of the signal, else the common one.
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

const MILLISECONDS: &str = "a whole number of milliseconds";

fn milliseconds(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis)
}

pub(crate) fn read(map: &BTreeMap<String, String>, config: &mut Config, report: &mut Report) {
    let mut variables = Variables { map, report };
    let disabled = variables.get("OTEL_SDK_DISABLED");
    if let Some((true, _)) = variables.parsed(disabled, "true|false", value::boolean) {
        config.enabled = false;
    }
    if let Some((text, origin)) = variables.get("OTEL_PROPAGATORS") {
        let names = text.split(',').map(|name| (name.trim().to_owned(), origin.clone())).collect();
        propagators::read(names, "OTEL_PROPAGATORS", config, variables.report);
    }
    resource(&mut variables, config);
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
}

fn resource(variables: &mut Variables, config: &mut Config) {
    if let Some((text, origin)) = variables.get("OTEL_RESOURCE_ATTRIBUTES") {
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            match pair.split_once('=').and_then(|(k, v)| Some((k.trim(), value::percent_decode(v.trim())?))) {
                Some(("service.name", name)) => config.service_name = name,
                Some((key, text)) if !key.is_empty() => config.resource.push((key.to_owned(), text)),
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
    let (name, origin) = variables.get("OTEL_TRACES_SAMPLER")?;
    let argument = variables.get("OTEL_TRACES_SAMPLER_ARG");
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
            // Without a usable address nothing could be sent; to start anyway would hide that.
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
            let header = pair
                .split_once('=')
                .and_then(|(name, text)| value::header(name, &value::percent_decode(text.trim())?));
            match header {
                Some(header) => sink.headers.push(header),
                None => variables.warn(&origin, "(a header)", "key=value pairs, percent-encoded"),
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
    if let Some((compression, origin)) = variables.parsed(found, "none|gzip|zstd", table::compression) {
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
    let delay = match signal {
        Signal::Traces => Some("OTEL_BSP_SCHEDULE_DELAY"),
        Signal::Logs => Some("OTEL_BLRP_SCHEDULE_DELAY"),
        Signal::Metrics => None,
    };
    let found = delay.and_then(|name| variables.get(name));
    if let Some((delay, origin)) = variables.parsed(found, MILLISECONDS, milliseconds) {
        sink.delivery.throttle = delay;
        sink.origins.insert("throttle".to_owned(), origin);
    }
    let found = variables
        .get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")
        .filter(|_| signal == Signal::Metrics);
    if let Some((temporality, origin)) = variables.parsed(found, table::TEMPORALITY, table::temporality) {
        sink.temporality = temporality;
        sink.origins.insert("temporality".to_owned(), origin);
    }
    let found = variables.get("OTEL_METRIC_EXPORT_INTERVAL").filter(|_| signal == Signal::Metrics);
    if let Some((interval, origin)) = variables.parsed(found, MILLISECONDS, milliseconds) {
        sink.interval = interval;
        sink.origins.insert("interval".to_owned(), origin);
    }
}
