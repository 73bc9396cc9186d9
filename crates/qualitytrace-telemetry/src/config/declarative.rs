//! The OpenTelemetry declarative file (`OTEL_CONFIG_FILE`, format 1.x).
//!
//! Each OTLP exporter of a provider becomes a sink of its own. Names that end in `/development`
//! carry no promise; they are named in a warning and have no effect.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::{
    Config, Sampler, Signal, Sink, Transport,
    diagnostic::{Origin, Report, Severity},
    endpoint, settings,
    text::{self, Kind, Node},
    value,
};

pub(crate) fn read_file(
    path: &str,
    environment: &BTreeMap<String, String>,
    config: &mut Config,
    report: &mut Report,
) {
    match std::fs::read_to_string(path) {
        Ok(text) => read(path, &text, environment, config, report),
        Err(error) => {
            let origin = Origin::Environment("OTEL_CONFIG_FILE".to_owned());
            report.error(
                &origin,
                "OTEL_CONFIG_FILE",
                format!("`{path}` cannot be read: {error}"),
                None,
            );
        }
    }
}

pub(crate) fn read(
    path: &str,
    text: &str,
    environment: &BTreeMap<String, String>,
    config: &mut Config,
    report: &mut Report,
) {
    let Some(mut root) = text::yaml(path, text, report) else {
        return;
    };
    substitute(&mut root, environment, report);
    let mut reader = Declarative { report };
    reader.keys(
        &root,
        "",
        &[
            "file_format",
            "disabled",
            "log_level",
            "attribute_limits",
            "resource",
            "propagator",
            "tracer_provider",
            "meter_provider",
            "logger_provider",
            "distribution",
        ],
    );
    match reader.scalar(&root, "file_format") {
        Some((version, _)) if version == "1" || version.starts_with("1.") => {}
        Some((version, origin)) => {
            reader
                .report
                .bad_value(Severity::Error, &origin, "file_format", &version, "1.0|1.1");
        }
        None => reader.report.error(
            &root.origin,
            "file_format",
            "`file_format` is missing".to_owned(),
            Some("set it to `1.1`".to_owned()),
        ),
    }
    if let Some((true, _)) = reader.parsed(&root, "disabled", "true|false", value::boolean) {
        config.enabled = false;
    }
    if let Some(resource) = root.get("resource") {
        reader.resource(resource, config);
    }
    reader.propagators(&root);
    reader.provider(&root, "tracer_provider", Signal::Traces, config);
    reader.provider(&root, "logger_provider", Signal::Logs, config);
    reader.meter_provider(&root, config);
}

struct Declarative<'a> {
    report: &'a mut Report,
}

impl Declarative<'_> {
    /// Complains about keys that are not known here.
    fn keys(&mut self, node: &Node, path: &str, known: &[&str]) {
        let Kind::Map(pairs) = &node.kind else { return };
        for (key, origin, _) in pairs {
            if known.contains(&key.as_str()) {
                continue;
            }
            let full = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            if key.ends_with("/development") {
                self.report.push(
                    Severity::Warning,
                    origin,
                    &full,
                    format!("`{full}` is not stable and has no effect here"),
                    None,
                );
            } else {
                let help = super::diagnostic::nearest(key, known.iter().copied()).map_or_else(
                    || format!("expected {}", known.join("|")),
                    |word| format!("did you mean `{word}`?"),
                );
                self.report.error(
                    origin,
                    &full,
                    format!("`{full}` is not a known setting"),
                    Some(help),
                );
            }
        }
    }

    fn scalar(&mut self, node: &Node, key: &str) -> Option<(String, Origin)> {
        let found = node.get(key)?;
        match &found.kind {
            Kind::Scalar(text) => Some((text.clone(), found.origin.clone())),
            Kind::Null => None,
            Kind::List(_) | Kind::Map(_) => {
                self.report
                    .error(&found.origin, key, format!("`{key}` is a single value"), None);
                None
            }
        }
    }

    fn parsed<T>(
        &mut self,
        node: &Node,
        key: &str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<(T, Origin)> {
        let (text, origin) = self.scalar(node, key)?;
        let parsed = parse(&text);
        if parsed.is_none() {
            self.report
                .bad_value(Severity::Error, &origin, key, &text, allowed);
        }
        Some((parsed?, origin))
    }

    fn resource(&mut self, node: &Node, config: &mut Config) {
        self.keys(node, "resource", &["attributes", "attributes_list", "schema_url"]);
        if let Some((list, origin)) = self.scalar(node, "attributes_list") {
            for pair in list.split(',').filter(|pair| !pair.trim().is_empty()) {
                match pair
                    .split_once('=')
                    .and_then(|(k, v)| Some((k.trim().to_owned(), value::percent_decode(v.trim())?)))
                {
                    Some((key, text)) => put(config, key, text),
                    None => self.report.bad_value(
                        Severity::Error,
                        &origin,
                        "resource.attributes_list",
                        pair,
                        "key=value pairs",
                    ),
                }
            }
        }
        let Some(Kind::List(items)) = node.get("attributes").map(|node| &node.kind) else {
            return;
        };
        for item in items {
            self.keys(item, "resource.attributes", &["name", "value", "type"]);
            let name = self.scalar(item, "name");
            let text = match item.get("value").map(|node| &node.kind) {
                Some(Kind::List(values)) => Some(
                    values
                        .iter()
                        .filter_map(|v| {
                            if let Kind::Scalar(s) = &v.kind {
                                Some(s.as_str())
                            } else {
                                None
                            }
                        })
                        .collect::<Vec<_>>()
                        .join(","),
                ),
                _ => self.scalar(item, "value").map(|(text, _)| text),
            };
            match (name, text) {
                (Some((name, _)), Some(text)) => put(config, name, text),
                _ => self.report.error(
                    &item.origin,
                    "resource.attributes",
                    "a resource attribute needs `name` and `value`".to_owned(),
                    None,
                ),
            }
        }
    }

    fn propagators(&mut self, root: &Node) {
        let Some(node) = root.get("propagator") else {
            return;
        };
        self.keys(node, "propagator", &["composite", "composite_list"]);
        let mut names: Vec<(String, Origin)> = Vec::new();
        if let Some(Kind::List(items)) = node.get("composite").map(|node| &node.kind) {
            for item in items {
                if let Kind::Map(pairs) = &item.kind {
                    names.extend(
                        pairs
                            .iter()
                            .map(|(name, origin, _)| (name.clone(), origin.clone())),
                    );
                }
            }
        }
        if let Some((list, origin)) = self.scalar(node, "composite_list") {
            names.extend(
                list.split(',')
                    .map(|name| (name.trim().to_owned(), origin.clone())),
            );
        }
        for (name, origin) in names {
            if !["tracecontext", "baggage", "none", ""].contains(&name.as_str()) {
                let message = format!(
                    "the propagator `{name}` is not supported; W3C trace context and baggage are always used"
                );
                self.report
                    .push(Severity::Warning, &origin, "propagator", message, None);
            }
        }
    }

    fn provider(&mut self, root: &Node, name: &str, signal: Signal, config: &mut Config) {
        let Some(provider) = root.get(name) else { return };
        self.keys(
            provider,
            name,
            &["processors", "limits", "sampler", "id_generator"],
        );
        let sampler = provider.get("sampler").and_then(|node| {
            self.sampler(node, 0)
                .map(|sampler| (sampler, node.origin.clone()))
        });
        let Some(Kind::List(processors)) = provider.get("processors").map(|node| &node.kind) else {
            self.report.error(
                &provider.origin,
                name,
                format!("`{name}` needs `processors`"),
                None,
            );
            return;
        };
        for (index, processor) in processors.iter().enumerate() {
            self.keys(processor, "processors", &["batch", "simple"]);
            let (body, batch) = match (processor.get("batch"), processor.get("simple")) {
                (Some(body), _) => (body, true),
                (None, Some(body)) => (body, false),
                (None, None) => continue,
            };
            let known: &[&str] = if batch {
                &[
                    "schedule_delay",
                    "export_timeout",
                    "max_queue_size",
                    "max_export_batch_size",
                    "exporter",
                ]
            } else {
                &["exporter"]
            };
            self.keys(body, "batch", known);
            let id = format!("declarative.{}.{index}", signal.name());
            let Some(mut sink) = body
                .get("exporter")
                .and_then(|node| self.exporter(node, signal, id))
            else {
                continue;
            };
            sink.delivery.throttle = if batch {
                Duration::from_secs(if signal == Signal::Traces { 5 } else { 1 })
            } else {
                Duration::from_millis(1)
            };
            self.milliseconds(
                body,
                "schedule_delay",
                "throttle",
                &mut sink.origins,
                &mut sink.delivery.throttle,
            );
            let count = |text: &str| text.parse::<usize>().ok().filter(|count| *count > 0);
            if let Some((items, origin)) =
                self.parsed(body, "max_queue_size", "a whole number above 0", count)
            {
                sink.limits.queue_items = items;
                sink.origins.insert("queue.items".to_owned(), origin);
            }
            if let Some((items, origin)) =
                self.parsed(body, "max_export_batch_size", "a whole number above 0", count)
            {
                sink.delivery.batch_items = items;
                sink.origins.insert("batch.items".to_owned(), origin);
            }
            if let Some((sampler, origin)) = &sampler {
                sink.sampler = sampler.clone();
                sink.origins.insert("sampling".to_owned(), origin.clone());
            }
            sink.level = super::Level::Trace;
            config.sinks.push(sink);
        }
    }

    fn meter_provider(&mut self, root: &Node, config: &mut Config) {
        let Some(provider) = root.get("meter_provider") else {
            return;
        };
        self.keys(
            provider,
            "meter_provider",
            &["readers", "views", "exemplar_filter"],
        );
        let Some(Kind::List(readers)) = provider.get("readers").map(|node| &node.kind) else {
            return;
        };
        for (index, reader) in readers.iter().enumerate() {
            self.keys(reader, "readers", &["periodic", "pull"]);
            if let Some(pull) = reader.get("pull") {
                let message = "`pull` has no effect here: metrics are served at `/metrics`".to_owned();
                self.report
                    .push(Severity::Warning, &pull.origin, "readers.pull", message, None);
            }
            let Some(body) = reader.get("periodic") else {
                continue;
            };
            self.keys(
                body,
                "periodic",
                &[
                    "interval",
                    "timeout",
                    "exporter",
                    "cardinality_limits",
                    "producers",
                ],
            );
            let id = format!("declarative.metrics.{index}");
            let Some(mut sink) = body
                .get("exporter")
                .and_then(|node| self.exporter(node, Signal::Metrics, id))
            else {
                continue;
            };
            self.milliseconds(
                body,
                "interval",
                "interval",
                &mut sink.origins,
                &mut sink.interval,
            );
            config.sinks.push(sink);
        }
    }

    fn milliseconds(
        &mut self,
        node: &Node,
        key: &str,
        setting: &str,
        origins: &mut BTreeMap<String, Origin>,
        target: &mut Duration,
    ) {
        let parse = |text: &str| text.parse().ok().map(|ms: u64| Duration::from_millis(ms.max(1)));
        if let Some((duration, origin)) = self.parsed(node, key, "a whole number of milliseconds", parse) {
            *target = duration;
            origins.insert(setting.to_owned(), origin);
        }
    }

    fn exporter(&mut self, node: &Node, signal: Signal, id: String) -> Option<Sink> {
        self.keys(node, "exporter", &["otlp_http", "otlp_grpc", "console"]);
        if let Some(console) = node.get("console") {
            let message = "`console` has no effect here: the server writes its log itself".to_owned();
            self.report.push(
                Severity::Warning,
                &console.origin,
                "exporter.console",
                message,
                None,
            );
            return None;
        }
        let (body, transport) = match (node.get("otlp_http"), node.get("otlp_grpc")) {
            (Some(body), _) => (body, Transport::Http),
            (None, Some(body)) => (body, Transport::Grpc),
            (None, None) => return None,
        };
        self.keys(
            body,
            "otlp",
            &[
                "endpoint",
                "tls",
                "headers",
                "headers_list",
                "compression",
                "timeout",
                "encoding",
                "temporality_preference",
                "default_histogram_aggregation",
            ],
        );
        let mut sink = Sink::new(id, transport);
        sink.origins.insert("transport".to_owned(), node.origin.clone());
        let address = self.scalar(body, "endpoint");
        let resolved = match &address {
            Some((text, _)) => endpoint::verbatim(transport, text),
            None => endpoint::resolve(transport, endpoint::default(transport), signal),
        };
        match (resolved, address) {
            (Ok(resolved), address) => {
                sink.endpoints.insert(signal, resolved.url);
                sink.origins
                    .extend(address.map(|(_, origin)| ("endpoint".to_owned(), origin)));
            }
            (Err(why), Some((text, origin))) => {
                self.report.error(
                    &origin,
                    "endpoint",
                    format!("`endpoint` cannot be `{text}`: {why}"),
                    None,
                );
                return None;
            }
            (Err(_), None) => return None,
        }
        if let Some((compression, origin)) =
            self.parsed(body, "compression", "none|gzip|zstd", settings::compression)
        {
            sink.compression = compression;
            sink.origins.insert("compression".to_owned(), origin);
        }
        if let Some((preference, origin)) = self.scalar(body, "temporality_preference")
            && preference != "cumulative"
        {
            let message = format!(
                "`temporality_preference: {preference}` is not supported; cumulative points are sent"
            );
            self.report.push(
                Severity::Warning,
                &origin,
                "temporality_preference",
                message,
                None,
            );
        }
        self.milliseconds(
            body,
            "timeout",
            "timeout",
            &mut sink.origins,
            &mut sink.delivery.timeout,
        );
        self.headers(body, &mut sink);
        if let Some(tls) = body.get("tls") {
            self.keys(tls, "tls", &["ca_file", "key_file", "cert_file", "insecure"]);
            sink.tls.ca = self.scalar(tls, "ca_file").map(|(path, _)| PathBuf::from(path));
            sink.tls.key = self.scalar(tls, "key_file").map(|(path, _)| PathBuf::from(path));
            sink.tls.certificate = self.scalar(tls, "cert_file").map(|(path, _)| PathBuf::from(path));
        }
        Some(sink)
    }

    fn headers(&mut self, body: &Node, sink: &mut Sink) {
        if let Some((list, origin)) = self.scalar(body, "headers_list") {
            for pair in list.split(',').filter(|pair| !pair.trim().is_empty()) {
                match pair
                    .split_once('=')
                    .and_then(|(name, text)| value::header(name, &value::percent_decode(text.trim())?))
                {
                    Some(header) => sink.headers.push(header),
                    None => self.report.error(
                        &origin,
                        "headers_list",
                        "an entry of `headers_list` is not `name=value`".to_owned(),
                        None,
                    ),
                }
            }
            sink.origins.insert("headers".to_owned(), origin);
        }
        let Some(node) = body.get("headers") else { return };
        if let Kind::List(items) = &node.kind {
            for item in items {
                let name = self.scalar(item, "name");
                let text = self.scalar(item, "value");
                match name
                    .zip(text)
                    .and_then(|((name, _), (text, _))| value::header(&name, &text))
                {
                    Some(header) => {
                        sink.headers.retain(|other| other.name != header.name);
                        sink.headers.push(header);
                    }
                    None => self.report.error(
                        &item.origin,
                        "headers",
                        "a header needs `name` and `value`".to_owned(),
                        None,
                    ),
                }
            }
            sink.origins.insert("headers".to_owned(), node.origin.clone());
        }
    }

    fn sampler(&mut self, node: &Node, depth: usize) -> Option<Sampler> {
        self.keys(
            node,
            "sampler",
            &["always_on", "always_off", "parent_based", "trace_id_ratio_based"],
        );
        let Kind::Map(pairs) = &node.kind else { return None };
        let (name, _, body) = pairs.first()?;
        match name.as_str() {
            "always_on" => Some(Sampler::AlwaysOn),
            "always_off" => Some(Sampler::AlwaysOff),
            "trace_id_ratio_based" => {
                let parse = |text: &str| {
                    text.parse::<f64>()
                        .ok()
                        .filter(|share| (0.0..=1.0).contains(share))
                };
                let share = self.parsed(body, "ratio", "a number between 0 and 1", parse);
                Some(value::ratio(share.map_or(1.0, |(share, _)| share)))
            }
            "parent_based" if depth < 8 => {
                let slots = [
                    "root",
                    "remote_parent_sampled",
                    "remote_parent_not_sampled",
                    "local_parent_sampled",
                    "local_parent_not_sampled",
                ];
                self.keys(body, "parent_based", &slots);
                let mut slot = |name: &str, default: Sampler| {
                    Box::new(
                        body.get(name)
                            .and_then(|node| self.sampler(node, depth + 1))
                            .unwrap_or(default),
                    )
                };
                Some(Sampler::ParentBased {
                    root: slot("root", Sampler::AlwaysOn),
                    remote_sampled: slot("remote_parent_sampled", Sampler::AlwaysOn),
                    remote_not_sampled: slot("remote_parent_not_sampled", Sampler::AlwaysOff),
                })
            }
            _ => None,
        }
    }
}

fn put(config: &mut Config, key: String, text: String) {
    match key.as_str() {
        "service.name" => config.service_name = text,
        "service.version" => config.service_version = Some(text),
        _ => config.resource.push((key, text)),
    }
}

/// `${NAME}`, `${env:NAME}` and `${NAME:-default}`; `$$` is a dollar.
fn substitute(node: &mut Node, environment: &BTreeMap<String, String>, report: &mut Report) {
    match &mut node.kind {
        Kind::Null => {}
        Kind::List(items) => items
            .iter_mut()
            .for_each(|item| substitute(item, environment, report)),
        Kind::Map(pairs) => pairs
            .iter_mut()
            .for_each(|(_, _, item)| substitute(item, environment, report)),
        Kind::Scalar(text) => {
            if !text.contains('$') {
                return;
            }
            match expand(text, environment) {
                Some(done) if done.is_empty() => node.kind = Kind::Null,
                Some(done) => *text = done,
                None => {
                    let message = format!("`{text}` is not a reference such as `${{NAME:-default}}`");
                    report.error(&node.origin, "", message, None);
                }
            }
        }
    }
}

fn expand(text: &str, environment: &BTreeMap<String, String>) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix("${") {
            let end = inner.find('}')?;
            let reference = inner[..end].strip_prefix("env:").unwrap_or(&inner[..end]);
            let (name, default) = reference.split_once(":-").unwrap_or((reference, ""));
            let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(good) {
                return None;
            }
            out.push_str(
                environment
                    .get(name)
                    .filter(|found| !found.is_empty())
                    .map_or(default, String::as_str),
            );
            rest = &inner[end + 1..];
        } else {
            out.push('$');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Some(out)
}
