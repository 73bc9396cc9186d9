//! Turns the settings of a sink into a [`Sink`], or into diagnostics.

use std::{collections::BTreeMap, path::PathBuf};

use qualitytrace_config::{Given, Kind, Macros, Origin, Report, Severity};

use super::{
    Header, Level, Role, Signal, Sink, Sync, Target, Tls, Transport, endpoint,
    table::{canonical, canonical_of_view, compression, expected, temporality},
    value,
};

/// The format that a sink is written in; the defaults differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `telemetry.exporters.<name>`
    Exporter,
    /// `tracer.<id>`
    Tracer,
    /// `metrics.open-telemetry`
    Metrics,
}

/// The settings of one sink before they are parsed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub(crate) settings: BTreeMap<&'static str, Given>,
    pub(crate) headers: BTreeMap<String, Given>,
}

impl Draft {
    /// Adds a setting; returns `false` for an unknown name.
    pub(crate) fn take(&mut self, path: &str, given: Given) -> bool {
        if let Some(name) = path.strip_prefix("headers.") {
            self.headers.insert(name.to_ascii_lowercase(), given);
            return true;
        }
        let Some(name) = canonical(path) else { return false };
        self.settings.insert(name, given);
        true
    }

    /// Adds a setting of a view; returns `false` for an unknown name.
    pub(crate) fn take_view(&mut self, path: &str, given: Given) -> bool {
        let Some(name) = canonical_of_view(path) else { return false };
        self.settings.insert(name, given);
        true
    }
}

/// Parses the settings of one sink and reports each that is invalid.
pub(crate) struct Reader<'a> {
    pub(crate) draft: &'a Draft,
    pub(crate) report: &'a mut Report,
    pub(crate) macros: Macros<'a>,
    pub(crate) origins: BTreeMap<String, Origin>,
}

impl Reader<'_> {
    pub(super) fn text(&mut self, name: &'static str) -> Option<(String, Given)> {
        let given = self.draft.settings.get(name)?.clone();
        let text = match &given.value.kind {
            Kind::Scalar(text) => text.clone(),
            Kind::Null => return None,
            Kind::List(_) | Kind::Map(_) => {
                self.report.bad_value(
                    Severity::Error,
                    &given.value.origin,
                    &given.key,
                    "a list or map",
                    expected(name),
                );
                return None;
            }
        };
        let text = given.expand(&text, self.macros, self.report)?;
        self.origins.insert(name.to_owned(), given.value.origin.clone());
        Some((text, given))
    }

    /// Parses a value; reports one that cannot be parsed.
    pub(super) fn parsed<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (text, given) = self.text(name)?;
        let parsed = parse(&text);
        if parsed.is_none() {
            self.report.bad_value(Severity::Error, &given.value.origin, &given.key, &text, expected(name));
        }
        parsed
    }

    /// Reports an invalid value.
    pub(super) fn bad(&mut self, name: &'static str, text: &str) {
        if let Some(given) = self.draft.settings.get(name) {
            self.report.bad_value(Severity::Error, &given.value.origin, &given.key, text, expected(name));
        }
    }

    fn set<T>(&mut self, target: &mut T, name: &'static str, parse: impl Fn(&str) -> Option<T>) {
        if let Some(value) = self.parsed(name, parse) {
            *target = value;
        }
    }

    /// A file name, relative to the file that names it.
    fn file(&mut self, name: &'static str) -> Option<PathBuf> {
        let (text, given) = self.text(name)?;
        Some(given.base.map_or_else(|| PathBuf::from(&text), |base| base.join(&text)))
    }

    fn headers(&mut self) -> Vec<Header> {
        let mut headers = Vec::new();
        if let Some(given) = self.draft.settings.get("headers").cloned() {
            self.origins.insert("headers".to_owned(), given.value.origin.clone());
            let lines = match &given.value.kind {
                Kind::List(items) => items.clone(),
                Kind::Scalar(_) => vec![given.value.clone()],
                Kind::Null | Kind::Map(_) => Vec::new(),
            };
            for line in lines {
                let Kind::Scalar(text) = &line.kind else {
                    let message = format!("an entry of `{}` is not a header", given.key);
                    let help = Some("write it as `Name: value`".to_owned());
                    self.report.error(&line.origin, &given.key, message, help);
                    continue;
                };
                let given = Given { value: line.clone(), ..given.clone() };
                let Some(text) = given.expand(text, self.macros, self.report) else {
                    continue;
                };
                match value::header_line(&text) {
                    Ok(header) => headers.push(header),
                    Err(why) => {
                        let message = format!("an entry of `{}` is not a header that can be sent", given.key);
                        self.report.error(&line.origin, &given.key, message, Some(why));
                    }
                }
            }
        }
        for (name, given) in &self.draft.headers {
            let Kind::Scalar(text) = &given.value.kind else {
                continue;
            };
            let Some(text) = given.expand(text, self.macros, self.report) else {
                continue;
            };
            self.origins.insert("headers".to_owned(), given.value.origin.clone());
            match value::header(name, &text) {
                Ok(header) => headers.push(header),
                Err(why) => {
                    let message = format!("`{}` is not a header that can be sent", given.key);
                    self.report.error(&given.value.origin, &given.key, message, Some(why));
                }
            }
        }
        headers
    }

    pub(super) fn list(&mut self, name: &'static str) -> Option<Vec<String>> {
        let given = self.draft.settings.get(name)?.clone();
        self.origins.insert(name.to_owned(), given.value.origin.clone());
        Some(match given.value.kind {
            Kind::List(items) => items
                .into_iter()
                .filter_map(|item| match item.kind {
                    Kind::Scalar(text) => Some(text),
                    Kind::Null | Kind::List(_) | Kind::Map(_) => None,
                })
                .collect(),
            Kind::Scalar(text) => text.split(',').map(|part| part.trim().to_owned()).collect(),
            Kind::Null | Kind::Map(_) => Vec::new(),
        })
    }

    fn targets(&mut self) -> Vec<Target> {
        let mut targets = Vec::new();
        for text in self.list("targets").unwrap_or_default() {
            let parsed = text.split_once('=').and_then(|(target, level)| {
                let target = Some(target.trim().to_owned()).filter(|target| !target.is_empty())?;
                Some(Target { target, level: value::level(level.trim())? })
            });
            match parsed {
                Some(target) => targets.push(target),
                None => self.bad("targets", &text),
            }
        }
        targets
    }

    /// The sink, or `None` when it is disabled or invalid.
    pub(crate) fn sink(mut self, id: &str, role: Role, dialect: Dialect) -> Option<Sink> {
        let transport = self.transport(id, dialect)?;
        let enabled = self.parsed("enable", value::boolean).unwrap_or(true);
        let mut sink = Sink::new(id, transport);
        sink.role = role;
        if dialect == Dialect::Exporter {
            sink.interval = std::time::Duration::from_secs(10);
            sink.delivery.throttle = std::time::Duration::from_millis(100);
        }
        sink.headers = self.headers();
        sink.service_name = self.text("service-name").map(|(name, _)| name);
        self.set(&mut sink.level, "level", value::level);
        sink.targets = self.targets();
        self.set(&mut sink.sampler, "sampling", value::percent);
        self.set(&mut sink.lossy, "lossy", value::boolean);
        self.set(&mut sink.interval, "interval", value::interval);
        self.set(&mut sink.temporality, "temporality", temporality);
        self.set(&mut sink.compression, "compression", compression);
        self.limits(&mut sink);
        sink.tls = self.tls();
        if let Some(redact) = self.list("redact") {
            sink.redact = redact;
        }
        let said = self.report.diagnostics.len();
        self.endpoints(&mut sink, dialect);
        if sink.endpoints.is_empty() && self.report.diagnostics.len() == said && enabled {
            let origin = self.anywhere();
            let message = format!("`{id}` sends nothing: all its signals are switched off");
            let help = Some("set `enable.span-exporter`, `enable.log-exporter` or `enable.metric-exporter` to `true`, or `enable` to `false`".to_owned());
            self.report.push(Severity::Warning, &origin, id, message, help);
            return None;
        }
        let is_of_levels = sink.targets.is_empty() && !sink.endpoints.contains_key(&Signal::Metrics);
        if sink.level == Level::Disable && is_of_levels && enabled {
            let origin = self.origins.get("level").cloned().unwrap_or_else(|| self.anywhere());
            let message = format!("`{id}` sends nothing: its `level` is `disable`");
            let help = Some("set another `level`, or `enable` to `false`".to_owned());
            self.report.push(Severity::Warning, &origin, "level", message, help);
        }
        sink.origins = self.origins;
        enabled.then_some(sink)
    }

    fn transport(&mut self, id: &str, dialect: Dialect) -> Option<Transport> {
        let types: &[&str] = match dialect {
            Dialect::Exporter => &["collector"],
            Dialect::Tracer => &["open-telemetry", "otel"],
            Dialect::Metrics => &[],
        };
        match self.text("type") {
            Some((kind, given)) if !types.contains(&kind.as_str()) => {
                self.report.bad_value(
                    Severity::Error,
                    &given.value.origin,
                    &given.key,
                    &kind,
                    &types.join("|"),
                );
                return None;
            }
            None if dialect == Dialect::Tracer => {
                let origin = self.anywhere();
                self.report.error(
                    &origin,
                    id,
                    format!("`{id}` has no `type`"),
                    Some("set it to `open-telemetry`".to_owned()),
                );
                return None;
            }
            Some(_) | None => {}
        }
        let Some((text, given)) = self.text("transport") else {
            return match dialect {
                Dialect::Exporter => Some(Transport::Grpc),
                Dialect::Metrics => {
                    self.without_transport(id);
                    None
                }
                Dialect::Tracer => {
                    let origin = self.anywhere();
                    self.report.error(
                        &origin,
                        id,
                        format!("`{id}` has no `transport`"),
                        Some("set it to `grpc` or `http`".to_owned()),
                    );
                    None
                }
            };
        };
        match text.to_ascii_lowercase().as_str() {
            "grpc" => Some(Transport::Grpc),
            "http" | "https" => Some(Transport::Http),
            "disable" | "disabled" if dialect == Dialect::Metrics => None,
            _ => {
                let allowed = if dialect == Dialect::Metrics { "grpc|http|disable" } else { "grpc|http" };
                self.report.bad_value(Severity::Error, &given.value.origin, &given.key, &text, allowed);
                None
            }
        }
    }

    /// Warns of an endpoint without a transport: most likely a mistake.
    fn without_transport(&mut self, id: &str) {
        let names = ["endpoint", "endpoint.metrics"];
        let Some(given) = names.iter().find_map(|name| self.draft.settings.get(name)) else { return };
        let message = format!("`{}` has no effect: `{id}` has no `transport`", given.key);
        let help = Some("set it to `grpc` or `http`, or to `disable`".to_owned());
        self.report.push(Severity::Warning, &given.value.origin, &given.key, message, help);
    }

    /// The position of the first setting of this sink, for diagnostics about missing ones.
    pub(super) fn anywhere(&self) -> Origin {
        self.draft.settings.values().map(|given| given.value.origin.clone()).min().unwrap_or(Origin::Default)
    }

    fn limits(&mut self, sink: &mut Sink) {
        let size = |text: &str| value::bytes(text).and_then(|bytes| usize::try_from(bytes).ok());
        let number = |text: &str| text.parse::<usize>().ok().filter(|count| *count > 0);
        self.set(&mut sink.limits.queue_items, "queue.items", number);
        self.set(&mut sink.limits.queue_bytes, "queue.bytes", size);
        self.set(&mut sink.limits.spool, "spool.enable", value::boolean);
        self.set(&mut sink.limits.spool_bytes, "spool.bytes", value::bytes);
        self.set(&mut sink.limits.spool_age, "spool.age", value::duration);
        self.set(&mut sink.limits.spool_sync, "spool.sync", |text| match text {
            "never" => Some(Sync::Never),
            "interval" => Some(Sync::Interval),
            "always" => Some(Sync::Always),
            _ => None,
        });
        let delivery = &mut sink.delivery;
        self.set(&mut delivery.batch_items, "batch.items", number);
        self.set(&mut delivery.batch_bytes, "batch.bytes", size);
        self.set(&mut delivery.in_flight, "batch.in-flight", number);
        self.set(&mut delivery.throttle, "throttle", value::pause);
        self.set(&mut delivery.timeout, "timeout", value::pause);
        self.set(&mut delivery.retry_initial, "retry.initial", value::pause);
        self.set(&mut delivery.retry_max, "retry.max", value::pause);
        self.set(&mut delivery.retry_unauthorized, "retry.unauthorized", value::boolean);
        self.set(&mut delivery.retry_circuit, "retry.circuit", |text| {
            text.parse().ok().filter(|count| *count > 0)
        });
    }

    fn tls(&mut self) -> Tls {
        let tls = Tls {
            ca: self.file("tls.ca"),
            certificate: self.file("tls.certificate"),
            key: self.file("tls.key"),
            server_name: self.text("tls.server-name").map(|(name, _)| name),
            skip_verify: self.parsed("tls.skip-verify", value::boolean).unwrap_or(false),
        };
        if let Some((name, message)) = tls.incomplete() {
            let origin = self.anywhere();
            self.report.error(&origin, name, message, None);
        }
        tls
    }

    fn endpoints(&mut self, sink: &mut Sink, dialect: Dialect) {
        let spans = self.parsed("enable.span-exporter", value::boolean).unwrap_or(true);
        let logs = self.parsed("enable.log-exporter", value::boolean).unwrap_or(false);
        let metrics =
            self.parsed("enable.metric-exporter", value::boolean).unwrap_or(dialect == Dialect::Exporter);
        let wanted = match dialect {
            Dialect::Metrics => vec![Signal::Metrics],
            Dialect::Exporter | Dialect::Tracer if sink.role == Role::Application => vec![Signal::Traces],
            Dialect::Exporter | Dialect::Tracer => {
                let pairs = [(Signal::Traces, spans), (Signal::Metrics, metrics), (Signal::Logs, logs)];
                pairs.into_iter().filter(|(_, on)| *on).map(|(signal, _)| signal).collect()
            }
        };
        let insecure = self.parsed("tls.insecure", value::boolean).unwrap_or(true);
        let common = self.text("endpoint");
        if common.is_none() && (sink.transport == Transport::Http || dialect == Dialect::Exporter) {
            let explicit = wanted.iter().all(|signal| self.draft.settings.contains_key(own(*signal)));
            if !explicit {
                let origin = self.anywhere();
                self.report.error(&origin, "endpoint", format!("`{}` has no `endpoint`", sink.id), None);
                return;
            }
        }
        let mut noted = false;
        for &signal in &wanted {
            let specific = self.text(own(signal));
            let (text, given, specific) = match (specific, &common) {
                (Some((text, given)), _) => (text, Some(given), true),
                (None, Some((text, given))) => (text.clone(), Some(given.clone()), false),
                (None, None) => (endpoint::default(sink.transport).to_owned(), None, false),
            };
            let schemed =
                if !insecure && !text.contains("://") { format!("https://{text}") } else { text.clone() };
            let resolved = if specific {
                endpoint::verbatim(sink.transport, &schemed)
            } else {
                endpoint::resolve(sink.transport, &schemed, signal)
            };
            let (origin, key) = given
                .map_or((Origin::Default, "endpoint".to_owned()), |given| (given.value.origin, given.key));
            match resolved {
                Err(why) => {
                    let shown = endpoint::shown(&text);
                    self.report.error(&origin, &key, format!("`{key}` cannot be `{shown}`: {why}"), None);
                    return;
                }
                Ok(resolved) => {
                    if let Some(path) = resolved.ignored_path.filter(|_| !noted) {
                        noted = true;
                        self.report.note(
                            &origin,
                            &key,
                            format!("the path `{path}` of `{key}` is ignored: gRPC has none"),
                        );
                    }
                    if resolved.own_path && !specific && wanted.len() > 1 && signal != wanted[0] {
                        let name = own(signal);
                        self.report.error(
                            &origin,
                            &key,
                            format!(
                                "`{key}` has a path of its own, so {} cannot go there too",
                                signal.name()
                            ),
                            Some(format!("set `{name}` of `{}`", sink.id)),
                        );
                        continue;
                    }
                    sink.endpoints.insert(signal, resolved.url);
                }
            }
        }
    }
}

fn own(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "endpoint.traces",
        Signal::Metrics => "endpoint.metrics",
        Signal::Logs => "endpoint.logs",
    }
}
