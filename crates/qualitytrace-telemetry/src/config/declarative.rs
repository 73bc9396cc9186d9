//! The OpenTelemetry declarative file (`OTEL_CONFIG_FILE`, format 1.x).
//!
//! Each OTLP exporter of a provider becomes a sink of its own. Names that end in `/development` are not stable; they
//! are reported in a warning and have no effect.

mod exporter;
mod limits;
mod meter;
mod reference;
mod resource;
mod shape;
mod views;

use std::{collections::BTreeMap, time::Duration};

use qualitytrace_config::{Kind, Located, Origin, Report, Severity};

use super::{Config, Level, Signal, propagators, value};

/// The timeout where the file sets no limit.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);

/// Reads the file that a variable names, and returns its text.
pub(crate) fn read_file(
    path: &str,
    origin: &Origin,
    environment: &BTreeMap<String, String>,
    config: &mut Config,
    report: &mut Report,
) -> Option<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            read(path, &text, environment, config, report);
            Some(text)
        }
        Err(error) => {
            let key = origin.to_string();
            report.error(
                origin,
                key.trim_start_matches('$'),
                format!("`{path}` cannot be read: {error}"),
                None,
            );
            None
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
    let Some(mut root) = Located::from_yaml(path, text, report) else {
        return;
    };
    reference::substitute(&mut root, environment, report);
    let mut reader = Declarative { report };
    reader.map(
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
            reader.report.bad_value(Severity::Error, &origin, "file_format", &version, "1.0|1.1");
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
    let allowed = "trace|debug|info|warn|error|fatal";
    if let Some((level, origin)) = reader.parsed(&root, "log_level", allowed, Level::parse_severity) {
        config.log_level = level;
        config.origins.insert("telemetry.log-level".to_owned(), origin);
    }
    if let Some(distribution) = root.get("distribution") {
        let message = "`distribution` has no effect here".to_owned();
        reader.report.push(Severity::Warning, &distribution.origin, "distribution", message, None);
    }
    reader.limits(&root, config);
    if let Some(resource) = root.get("resource") {
        reader.resource(resource, config);
    }
    reader.propagators(&root, config);
    reader.provider(&root, "tracer_provider", Signal::Traces, config);
    reader.provider(&root, "logger_provider", Signal::Logs, config);
    reader.meter_provider(&root, config);
}

struct Declarative<'a> {
    report: &'a mut Report,
}

impl Declarative<'_> {
    fn propagators(&mut self, root: &Located, config: &mut Config) {
        let Some(node) = root.get("propagator") else {
            return;
        };
        self.map(node, "propagator", &["composite", "composite_list"]);
        let mut names: Vec<(String, Origin)> = Vec::new();
        if let Some(composite) = node.get("composite") {
            for (index, item) in self.list(composite, "propagator.composite").iter().enumerate() {
                let pairs = self.pairs(item, &format!("propagator.composite.{index}"));
                names.extend(pairs.iter().map(|(name, origin, _)| (name.clone(), origin.clone())));
            }
        }
        if let Some((list, origin)) = self.scalar(node, "composite_list") {
            names.extend(list.split(',').map(|name| (name.trim().to_owned(), origin.clone())));
        }
        if !names.is_empty() {
            propagators::read(names, "propagator", config, self.report);
        }
    }

    fn provider(&mut self, root: &Located, name: &str, signal: Signal, config: &mut Config) {
        let Some(provider) = root.get(name) else { return };
        self.map(provider, name, &["processors", "limits", "sampler", "id_generator"]);
        if signal == Signal::Traces {
            self.id_generator(provider);
        } else {
            for key in ["sampler", "id_generator"] {
                self.without_effect(provider, key, &format!("{name}.{key}"));
            }
        }
        let sampler = provider
            .get("sampler")
            .filter(|_| signal == Signal::Traces)
            .and_then(|node| self.sampler(node, 0).map(|sampler| (sampler, node.origin.clone())));
        let Some(processors) = provider.get("processors") else {
            if matches!(provider.kind, Kind::Map(_) | Kind::Null) {
                self.report.error(&provider.origin, name, format!("`{name}` needs `processors`"), None);
            }
            return;
        };
        for (index, processor) in self.list(processors, &format!("{name}.processors")).iter().enumerate() {
            let Some((kind, body)) = self.one_of(processor, "processors", &["batch", "simple"]) else {
                continue;
            };
            let batch = kind == "batch";
            let known: &[&str] = if batch {
                &["schedule_delay", "export_timeout", "max_queue_size", "max_export_batch_size", "exporter"]
            } else {
                &["exporter"]
            };
            self.map(body, kind, known);
            let id = format!("declarative.{}.{index}", signal.name());
            let Some(exporter) = body.get("exporter") else {
                self.report.error(&body.origin, kind, format!("`{kind}` needs an `exporter`"), None);
                continue;
            };
            let Some(mut sink) = self.exporter(exporter, signal, id) else { continue };
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
            if let Some((timeout, origin)) = self.timeout(body, "export_timeout") {
                sink.limit_timeout(timeout, origin);
            }
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
            sink.check_batch(self.report);
            if let Some((sampler, origin)) = &sampler {
                sink.sampler = sampler.clone();
                sink.origins.insert("sampling".to_owned(), origin.clone());
            }
            config.sinks.push(sink);
        }
    }

    /// Warns of any generator but `random`: ids are always random.
    fn id_generator(&mut self, provider: &Located) {
        let Some(node) = provider.get("id_generator") else { return };
        let pairs = self.pairs(node, "tracer_provider.id_generator");
        for (name, origin, _) in pairs.iter().filter(|(name, _, _)| name != "random") {
            let key = format!("tracer_provider.id_generator.{name}");
            let message = format!("`{key}` has no effect here: ids are random");
            self.report.push(Severity::Warning, origin, &key, message, None);
        }
    }

    /// Warns of a setting that the schema knows and that has no effect here.
    fn without_effect(&mut self, node: &Located, key: &str, full: &str) {
        if let Some(found) = node.get(key) {
            let message = format!("`{full}` has no effect here");
            self.report.push(Severity::Warning, &found.origin, full, message, None);
        }
    }

    /// Reads a timeout in milliseconds. 0 means no limit and becomes `LONGEST_TIMEOUT`.
    fn timeout(&mut self, node: &Located, key: &str) -> Option<(Duration, Origin)> {
        let parse = |text: &str| text.parse().ok().map(Duration::from_millis);
        let (timeout, origin) = self.parsed(node, key, "a whole number of milliseconds", parse)?;
        if !timeout.is_zero() {
            return Some((timeout, origin));
        }
        let message = format!("`{key}` is 0, which means no limit: an answer is waited for an hour at most");
        self.report.note(&origin, key, message);
        Some((LONGEST_TIMEOUT, origin))
    }

    fn milliseconds(
        &mut self,
        node: &Located,
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
}
