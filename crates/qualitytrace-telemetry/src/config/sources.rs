//! Layers files, variables and flags, and reads the result.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use qualitytrace_config::{
    Diagnostic, File, Given, Kind, Layers, Located, Macros, Origin, Report, Severity, layer::normalised,
    nearest, same_key,
};

use super::{
    Config, Role, declarative,
    draft::Dialect,
    environment, features, propagators,
    settings::{RawSettings, Reader},
    slot::Slot,
    table::{SETTINGS, Setting, VIEW_SETTINGS, process_keys},
};

/// The inputs of a configuration. A flag overrides a variable, a variable overrides a file, and a later file overrides
/// an earlier one.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Sources {
    /// Configuration files, in order.
    pub files: Vec<File>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// Flags as dotted keys: `("tracer.otel.endpoint", "...")`.
    pub flags: Vec<(String, String)>,
    /// Defaults of the embedding server.
    pub defaults: Defaults,
}

/// Defaults of the embedding server.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Defaults {
    /// The default service name.
    pub service_name: String,
    /// The version of the server.
    pub service_version: Option<String>,
    /// The default folder of the spools.
    pub spool_path: Option<PathBuf>,
}

impl Defaults {
    /// A service of this name, without a version and without a spool folder.
    pub fn new(service_name: impl Into<String>) -> Self {
        Self { service_name: service_name.into(), ..Self::default() }
    }
}

impl Sources {
    /// Sources with defaults only.
    pub fn new(defaults: Defaults) -> Self {
        Self { defaults, ..Self::default() }
    }

    /// Adds a configuration file, which overrides those before it.
    #[must_use]
    pub fn with_file(mut self, file: File) -> Self {
        self.files.push(file);
        self
    }

    /// Adds the environment of the process.
    #[must_use]
    pub fn with_environment(mut self) -> Self {
        self.environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        self
    }
}

/// The prefixes of variables that set keys.
const PREFIXES: [&str; 2] = ["TRACETEST_", "QUALITYTRACE_"];

/// Keys of older configurations that have no effect here.
const OBSOLETE: [&str; 3] = ["telemetry.profiler.", "telemetry.dataStores.", "server.telemetry.dataStore"];

/// The result of reading files that hold settings of the embedding server, too.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reading {
    /// The configuration of the telemetry.
    pub config: Config,
    /// The keys of the embedding server.
    pub server: Layers,
}

impl Sources {
    /// Reads everything. With an [`Severity::Error`] among the diagnostics the server must not start.
    pub fn read(&self) -> (Config, Vec<Diagnostic>) {
        let mut report = Report::default();
        let reading = self.read_with(&[], &mut report);
        (reading.config, report.diagnostics)
    }

    /// Reads everything; `keys` are those of the embedding server that variables may set too.
    pub fn read_with(&self, keys: &[&str], report: &mut Report) -> Reading {
        let mut layers = Layers::new(fold);
        let is_known = |key: &str| owned(key) || keys.iter().any(|known| same_key(known, key));
        for file in &self.files {
            layers.add_file(file, is_known, report);
        }
        layers.add_variables(&self.environment, &PREFIXES, self.settable(keys, &layers));
        layers.add_flags(&self.flags);
        let mut config = self.resolve(&layers, report);
        let texts = self.files.iter().map(|file| file.text.as_str());
        match environment::config_file(&self.environment, report) {
            Some((path, origin)) => {
                let text = declarative::read_file(&path, &origin, &self.environment, &mut config, report);
                let texts: Vec<&str> = texts.chain(text.as_deref()).collect();
                environment::ignored(&self.environment, &origin, &texts, report);
            }
            None => {
                environment::unknown(&self.environment, &texts.collect::<Vec<_>>(), report);
                environment::read(&self.environment, &mut config, report);
            }
        }
        features::check(&config, report);
        layers.retain(|key| !owned(key));
        Reading { config, server: layers }
    }

    /// The keys that variables may set: those of the server, those that a file or flag already names, and the settings
    /// of existing sinks and views.
    fn settable(&self, known: &[&str], layers: &Layers) -> BTreeSet<String> {
        let flags = self.flags.iter().map(|(key, _)| key.clone());
        let mut keys: BTreeSet<String> = layers.iter().map(|given| given.key.clone()).chain(flags).collect();
        let sinks: BTreeSet<String> = keys.iter().filter_map(|key| sink_prefix(key)).collect();
        for sink in &sinks {
            keys.extend(SETTINGS.iter().map(|setting| format!("{sink}.{}", setting.name)));
        }
        let views: BTreeSet<String> = keys.iter().filter_map(|key| view_prefix(key)).collect();
        for view in &views {
            keys.extend(VIEW_SETTINGS.iter().map(|setting| format!("{view}.{}", setting.name)));
        }
        keys.extend(process_keys().map(|setting| setting.name.to_owned()));
        keys.extend(["server.telemetry.exporter", "server.telemetry.applicationExporter"].map(str::to_owned));
        keys.extend(SETTINGS.iter().map(|setting| format!("metrics.open-telemetry.{}", setting.name)));
        keys.extend(known.iter().map(|&key| key.to_owned()));
        keys
    }

    fn resolve(&self, layers: &Layers, report: &mut Report) -> Config {
        let mut config = Config::new(self.defaults.service_name.clone());
        config.service_version.clone_from(&self.defaults.service_version);
        config.spool_path.clone_from(&self.defaults.spool_path);
        let Gathered { exporters, tracers, metrics, views, mut roles } = gather(layers, &mut config, report);
        let variable = |name: &str| self.environment.get(name).cloned();
        let macros = Macros { variable: &variable, file: &|path| std::fs::read_to_string(path) };
        for (name, raw) in &views {
            let reader = Reader::new(raw, macros, report);
            config.metrics.views.extend(reader.view(name));
        }
        let mut sink = |raw: &RawSettings, id: &str, role, dialect, report: &mut Report| {
            let reader = Reader::new(raw, macros, report);
            config.sinks.extend(reader.sink(id, role, dialect));
        };
        roles.sort_by_key(|(role, _)| *role == Role::Application);
        // An exporter that no role uses must still be valid.
        let used = |name: &str| {
            roles.iter().any(|(_, given)| matches!(&given.value.kind, Kind::Scalar(used) if used.eq_ignore_ascii_case(name)))
        };
        for (name, raw) in exporters.iter().filter(|(name, _)| !used(name)) {
            let reader = Reader::new(raw, macros, report);
            let _ = reader.sink(name, Role::Server, Dialect::Exporter);
        }
        for (role, given) in roles {
            let Kind::Scalar(name) = &given.value.kind else {
                continue;
            };
            let found = exporters.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            match found {
                _ if name.is_empty() => {}
                Some((name, raw)) => {
                    let id = match role {
                        Role::Server => name.clone(),
                        Role::Application => format!("{name}/application"),
                    };
                    sink(raw, &id, role, Dialect::Exporter, report);
                }
                None => {
                    let names: Vec<&str> = exporters.keys().map(String::as_str).collect();
                    let allowed = if names.is_empty() {
                        "a name under `telemetry.exporters`".to_owned()
                    } else {
                        names.join("|")
                    };
                    report.bad_value(Severity::Error, &given.value.origin, &given.key, name, &allowed);
                }
            }
        }
        for (id, raw) in &tracers {
            sink(raw, &format!("tracer.{id}"), Role::Server, Dialect::Tracer, report);
        }
        if let Some(raw) = &metrics {
            sink(raw, "metrics.open-telemetry", Role::Server, Dialect::Metrics, report);
        }
        config
    }
}

/// The settings of all sinks and views, and the exporter of each role.
#[derive(Default)]
struct Gathered<'a> {
    exporters: BTreeMap<String, RawSettings>,
    tracers: BTreeMap<String, RawSettings>,
    metrics: Option<RawSettings>,
    views: BTreeMap<String, RawSettings>,
    roles: Vec<(Role, &'a Given)>,
}

fn gather<'a>(layers: &'a Layers, config: &mut Config, report: &mut Report) -> Gathered<'a> {
    let mut found = Gathered::default();
    for given in layers.iter() {
        let key = given.key.as_str();
        let lower = key.to_ascii_lowercase();
        if OBSOLETE.iter().any(|prefix| lower.starts_with(&prefix.to_ascii_lowercase())) {
            report.note(&given.value.origin, key, format!("`{key}` has no effect here"));
        } else if lower.starts_with("telemetry.exporters.") {
            let rest = &key["telemetry.exporters.".len()..];
            exporter(rest, given, &mut found.exporters, report);
        } else if lower == "server.telemetry.exporter" {
            found.roles.push((Role::Server, given));
        } else if lower == "server.telemetry.applicationexporter" {
            found.roles.push((Role::Application, given));
        } else if lower.starts_with("metrics.open-telemetry.") {
            let path = &key["metrics.open-telemetry.".len()..];
            if !found.metrics.get_or_insert_default().take(path, given.clone()) {
                unknown(given, "metrics.open-telemetry.", report);
            }
        } else if lower.starts_with("tracer.") {
            tracer(&key["tracer.".len()..], given, &mut found.tracers, report);
        } else if let Some(rest) = below_views(key) {
            view(rest, given, &mut found.views, report);
        } else if let Some(setting) = process_keys().find(|setting| setting.is_called(key)) {
            process(setting, given, config, report);
        } else if owned(key) && !matches!(given.value.kind, Kind::Null) {
            let known = process_keys().map(|setting| setting.name).chain([
                "server.telemetry.exporter",
                "server.telemetry.applicationExporter",
                "telemetry.exporters",
                "telemetry.views",
            ]);
            report.unknown_key(&given.value.origin, key, known);
        }
    }
    found
}

/// Normalises a key. Keys of this crate keep their dashes, since users choose names in them; all others are the same in
/// any spelling.
fn fold(key: &str) -> String {
    if owned(key) {
        return key.to_ascii_lowercase();
    }
    normalised(key)
}

/// Whether a key belongs to this crate; all others are the embedding server's.
fn owned(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    ["telemetry", "server.telemetry", "tracer", "metrics.open-telemetry"].iter().any(|prefix| {
        lower == *prefix || lower.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
    })
}

fn sink_prefix(key: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        ["tracer", id, _, ..] => Some(format!("tracer.{id}")),
        [t, e, name, _, ..] if t.eq_ignore_ascii_case("telemetry") && e.eq_ignore_ascii_case("exporters") => {
            Some(format!("telemetry.exporters.{name}"))
        }
        _ => None,
    }
}

fn view_prefix(key: &str) -> Option<String> {
    let name = below_views(key)?.split_once('.')?.0;
    Some(format!("telemetry.views.{name}"))
}

/// The rest of a key after `telemetry.views.`.
fn below_views(key: &str) -> Option<&str> {
    let prefix = "telemetry.views.";
    key.get(..prefix.len()).filter(|start| start.eq_ignore_ascii_case(prefix))?;
    key.get(prefix.len()..)
}

/// Reads `<name>.<setting>`, `<name>.exporter.type` or `<name>.exporter.collector.<setting>`.
fn exporter(rest: &str, given: &Given, exporters: &mut BTreeMap<String, RawSettings>, report: &mut Report) {
    let (name, path) = rest.split_once('.').unwrap_or((rest, ""));
    let raw = exporters.entry(name.to_owned()).or_default();
    if path.is_empty() {
        return;
    }
    let lower = path.to_ascii_lowercase();
    let path = if lower == "exporter.type" {
        "type"
    } else if lower.starts_with("exporter.collector.") {
        &path["exporter.collector.".len()..]
    } else {
        path
    };
    if !raw.take(path, given.clone()) {
        unknown(given, &format!("telemetry.exporters.{name}."), report);
    }
}

fn tracer(rest: &str, given: &Given, tracers: &mut BTreeMap<String, RawSettings>, report: &mut Report) {
    let (id, path) = rest.split_once('.').unwrap_or((rest, ""));
    if path.is_empty() && matches!(given.value.kind, Kind::Null | Kind::Map(_)) {
        let message = format!("`{}` is empty: it has no `type` and no `transport`", given.key);
        let help = Some("set `type` to `open-telemetry` and `transport` to `grpc` or `http`".to_owned());
        report.error(&given.value.origin, &given.key, message, help);
        return;
    }
    let raw = tracers.entry(id.to_owned()).or_default();
    if path.is_empty() || !raw.take(path, given.clone()) {
        unknown(given, &format!("tracer.{id}."), report);
    }
}

fn view(rest: &str, given: &Given, views: &mut BTreeMap<String, RawSettings>, report: &mut Report) {
    let (name, path) = rest.split_once('.').unwrap_or((rest, ""));
    if !views.entry(name.to_owned()).or_default().take_view(path, given.clone()) {
        let known: Vec<String> =
            VIEW_SETTINGS.iter().map(|setting| format!("telemetry.views.{name}.{}", setting.name)).collect();
        report.unknown_key(&given.value.origin, &given.key, known.iter().map(String::as_str));
    }
}

fn unknown(given: &Given, prefix: &str, report: &mut Report) {
    let path = given.key.get(prefix.len()..).unwrap_or(&given.key);
    let extra = ["serviceName", "metricsReaderInterval", "exporter.type", "exporter.collector.endpoint"];
    let names = extra.iter().copied().chain(SETTINGS.iter().map(|setting| setting.name));
    let names: Vec<String> = names.map(|name| format!("{prefix}{name}")).collect();
    let tails: Vec<&str> = names.iter().map(|name| &name[prefix.len()..]).collect();
    let guess = nearest(path, tails.iter().copied());
    let help = guess.map_or_else(
        || {
            format!(
                "the settings are {}",
                SETTINGS.iter().map(|setting| setting.name).collect::<Vec<_>>().join(", ")
            )
        },
        |word| format!("did you mean `{prefix}{word}`?"),
    );
    report.error(
        &given.value.origin,
        &given.key,
        format!("`{}` is not a known setting", given.key),
        Some(help),
    );
}

/// The items of a list, or of a comma-separated text.
fn names(node: &Located) -> Vec<(String, Origin)> {
    match &node.kind {
        Kind::Scalar(text) => {
            text.split(',').map(|name| (name.trim().to_owned(), node.origin.clone())).collect()
        }
        Kind::List(items) => items.iter().flat_map(names).collect(),
        Kind::Null | Kind::Map(_) => Vec::new(),
    }
}

/// Reads a setting of the process.
fn process(setting: &Setting, given: &Given, config: &mut Config, report: &mut Report) {
    let Some(slot) = setting.of_process(config) else { return };
    if let Slot::Propagators(_) = slot {
        return propagators::read(names(&given.value), &given.key, config, report);
    }
    let Kind::Scalar(text) = &given.value.kind else {
        return;
    };
    let origin = &given.value.origin;
    if slot.set(text, given.base.as_deref()).is_none() {
        report.bad_value(Severity::Error, origin, &given.key, text, setting.expected());
    }
    config.origins.insert(setting.name.to_owned(), origin.clone());
}
