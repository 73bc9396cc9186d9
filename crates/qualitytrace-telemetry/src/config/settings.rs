//! Turns the settings of a sink into a [`Sink`], or into diagnostics.

use std::collections::BTreeMap;

use qualitytrace_config::{KeyedValue, Kind, Macros, Origin, Report, Severity};

use super::{
    Header, Level, Role, Signal, Sink, Transport,
    draft::{Dialect, SinkDraft},
    endpoint, given,
    key::below,
    slot::Slot,
    table::{SETTINGS, Setting, VIEW_SETTINGS, expected, find},
    value,
};

/// The settings of one sink or view as they are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawSettings {
    pub(crate) settings: BTreeMap<&'static str, KeyedValue>,
    pub(crate) headers: BTreeMap<String, KeyedValue>,
}

impl RawSettings {
    /// Adds a setting of a sink; returns `false` for an unknown name.
    pub(crate) fn take(&mut self, path: &str, given: KeyedValue) -> bool {
        if let Some(name) = below(path, "headers.") {
            self.headers.insert(name.to_ascii_lowercase(), given);
            return true;
        }
        self.take_from(SETTINGS, path, given)
    }

    /// Adds a setting of a view; returns `false` for an unknown name.
    pub(crate) fn take_view(&mut self, path: &str, given: KeyedValue) -> bool {
        self.take_from(VIEW_SETTINGS, path, given)
    }

    fn take_from(&mut self, table: &'static [Setting], path: &str, given: KeyedValue) -> bool {
        let Some(setting) = find(table, path) else { return false };
        self.settings.insert(setting.name, given);
        true
    }

    /// What is given for a setting; a key without a value counts as unset.
    pub(super) fn get(&self, name: &str) -> Option<&KeyedValue> {
        self.settings.get(name).filter(|given| !matches!(given.value.kind, Kind::Null))
    }
}

/// Parses the settings of one sink or view and reports each that is invalid.
pub(crate) struct Reader<'a> {
    pub(super) raw: &'a RawSettings,
    pub(super) report: &'a mut Report,
    macros: Macros<'a>,
    pub(super) origins: BTreeMap<String, Origin>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(raw: &'a RawSettings, macros: Macros<'a>, report: &'a mut Report) -> Self {
        Self { raw, report, macros, origins: BTreeMap::new() }
    }
}

impl Reader<'_> {
    fn text(&mut self, name: &'static str) -> Option<(String, KeyedValue)> {
        let given = self.raw.get(name)?.clone();
        let text = given::text(&given, expected(name), self.macros, self.report)?;
        self.origins.insert(name.to_owned(), given.value.origin.clone());
        Some((text, given))
    }

    /// Sets a slot to what is written for it, if anything is; returns `false` if that is invalid, and reports it.
    pub(super) fn read(&mut self, setting: &Setting, slot: Slot<'_>) -> bool {
        let said = self.report.diagnostics.len();
        let name = setting.name;
        if slot.is_list() {
            if let Some(items) = self.list(name) {
                for index in slot.set_all(&items) {
                    self.bad(name, &items[index]);
                }
            }
        } else if let Some((text, given)) = self.text(name)
            && slot.set(&text, given.base.as_deref()).is_none()
        {
            self.bad(name, &text);
        }
        self.report.diagnostics.len() == said
    }

    /// Reports an invalid value.
    pub(super) fn bad(&mut self, name: &'static str, text: &str) {
        if let Some(given) = self.raw.get(name) {
            self.report.bad_value(Severity::Error, &given.value.origin, &given.key, text, expected(name));
        }
    }

    /// All headers. Lines replace the single headers of lower layers, and a single header replaces
    /// the line of its name.
    fn headers(&mut self) -> Vec<Header> {
        let mut headers: Vec<Header> = Vec::new();
        let lines = self.raw.get("headers").cloned();
        let layer = lines.as_ref().map_or(0, |given| given.value.origin.layer());
        if let Some(given) = lines {
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
                let given = KeyedValue { value: line.clone(), ..given.clone() };
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
        for (name, given) in self.raw.headers.iter().filter(|(_, given)| given.value.origin.layer() >= layer)
        {
            let Some(text) = given::text(given, "a text", self.macros, self.report) else {
                continue;
            };
            self.origins.insert("headers".to_owned(), given.value.origin.clone());
            match value::header(name, &text) {
                Ok(header) => {
                    headers.retain(|line| line.name != header.name);
                    headers.push(header);
                }
                Err(why) => {
                    let message = format!("`{}` is not a header that can be sent", given.key);
                    self.report.error(&given.value.origin, &given.key, message, Some(why));
                }
            }
        }
        headers
    }

    fn list(&mut self, name: &'static str) -> Option<Vec<String>> {
        let given = self.raw.get(name)?;
        let items = given::items(given, expected(name), self.macros, self.report)?;
        self.origins.insert(name.to_owned(), given.value.origin.clone());
        Some(items.into_iter().map(|(item, _)| item).collect())
    }

    /// Reads the settings that have a field; returns the names of those that are invalid.
    fn fields(&mut self, draft: &mut SinkDraft) -> Vec<&'static str> {
        let mut invalid = Vec::new();
        for setting in SETTINGS {
            if let Some(slot) = setting.of_sink(draft)
                && !self.read(setting, slot)
            {
                invalid.push(setting.name);
            }
        }
        invalid
    }

    /// The sink, or `None` when it is disabled or invalid.
    pub(crate) fn sink(mut self, id: &str, role: Role, dialect: Dialect) -> Option<Sink> {
        let transport = self.transport(id, dialect)?;
        let mut draft = SinkDraft::new(id, transport, role, dialect);
        draft.sink.headers = self.headers();
        let invalid = self.fields(&mut draft);
        if let Some((name, message)) = draft.sink.tls.incomplete() {
            let origin = self.anywhere();
            self.report.error(&origin, name, message, None);
        }
        let signals_are_known = !invalid.iter().any(|name| name.starts_with("enable."));
        let said = self.report.diagnostics.len();
        self.endpoints(&mut draft, dialect);
        let is_explained = self.report.diagnostics.len() > said || !signals_are_known;
        let SinkDraft { mut sink, enabled, .. } = draft;
        if sink.endpoints.is_empty() && !is_explained && enabled {
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
        let Some(given) = names.iter().find_map(|name| self.raw.get(name)) else { return };
        let message = format!("`{}` has no effect: `{id}` has no `transport`", given.key);
        let help = Some("set it to `grpc` or `http`, or to `disable`".to_owned());
        self.report.push(Severity::Warning, &given.value.origin, &given.key, message, help);
    }

    /// The position of the first setting of this sink, for diagnostics about missing ones.
    pub(super) fn anywhere(&self) -> Origin {
        self.raw.settings.values().map(|given| given.value.origin.clone()).min().unwrap_or(Origin::Default)
    }

    fn endpoints(&mut self, draft: &mut SinkDraft, dialect: Dialect) {
        let SinkDraft { sink, insecure, signals, .. } = draft;
        let wanted = match dialect {
            Dialect::Metrics => vec![Signal::Metrics],
            Dialect::Exporter | Dialect::Tracer if sink.role == Role::Application => vec![Signal::Traces],
            Dialect::Exporter | Dialect::Tracer => {
                let pairs = [
                    (Signal::Traces, signals.spans),
                    (Signal::Metrics, signals.metrics),
                    (Signal::Logs, signals.logs),
                ];
                pairs.into_iter().filter(|(_, on)| *on).map(|(signal, _)| signal).collect()
            }
        };
        let common = self.text("endpoint");
        if common.is_none() && (sink.transport == Transport::Http || dialect == Dialect::Exporter) {
            let explicit = wanted.iter().all(|signal| self.raw.get(own(*signal)).is_some());
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
                if !*insecure && !text.contains("://") { format!("https://{text}") } else { text.clone() };
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
