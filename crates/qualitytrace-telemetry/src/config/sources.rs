//! Layers files, variables and flags, and reads the result.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use qualitytrace_config::{
    Diagnostic, File, KeyedValue, Kind, Layers, Macros, Origin, Report, Severity, nearest, same_key,
};

use super::{
    Config, Role, declarative,
    draft::Dialect,
    environment, features, given,
    key::{Block, Key, ROLES, fold, owned},
    propagators,
    settings::{RawSettings, Reader},
    slot,
    table::{SETTINGS, process_keys},
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
        layers.add_variables(&self.environment, &PREFIXES, &self.settable(keys, &layers));
        layers.add_flags(&self.flags);
        let variable = |name: &str| self.environment.get(name).cloned();
        let macros = Macros { variable: &variable, file: &|path| std::fs::read_to_string(path) };
        let mut config = self.resolve(&layers, macros, report);
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
        // Standard variables and the declarative file override files, and flags override them.
        process(&layers, true, macros, &mut config, report);
        features::check(&config, report);
        layers.retain(|key| !owned(key));
        Reading { config, server: layers }
    }

    /// The keys that variables may set: those of the server, those that a file or flag already names, and the settings
    /// of existing sinks and views.
    fn settable(&self, known: &[&str], layers: &Layers) -> BTreeSet<String> {
        let flags = self.flags.iter().map(|(key, _)| key.clone());
        let mut keys: BTreeSet<String> = layers.iter().map(|given| given.key.clone()).chain(flags).collect();
        let blocks: BTreeSet<Block<'_>> = keys.iter().filter_map(|key| Key::of(key).block()).collect();
        let settings: Vec<String> = blocks.into_iter().flat_map(Block::keys).collect();
        keys.extend(settings);
        keys.extend(Block::Metrics.keys());
        keys.extend(process_keys().map(|setting| setting.name.to_owned()));
        keys.extend(ROLES.map(|(key, _)| key.to_owned()));
        keys.extend(known.iter().map(|&key| key.to_owned()));
        keys
    }

    fn resolve(&self, layers: &Layers, macros: Macros<'_>, report: &mut Report) -> Config {
        let mut config = Config::new(self.defaults.service_name.clone());
        config.service_version.clone_from(&self.defaults.service_version);
        config.spool_path.clone_from(&self.defaults.spool_path);
        process(layers, false, macros, &mut config, report);
        let Gathered { exporters, tracers, metrics, views, roles } = gather(layers, report);
        for (name, raw) in &views {
            let reader = Reader::new(raw, macros, report);
            config.metrics.views.extend(reader.view(name));
        }
        let mut sink = |raw: &RawSettings, id: &str, role, dialect, report: &mut Report| {
            let reader = Reader::new(raw, macros, report);
            config.sinks.extend(reader.sink(id, role, dialect));
        };
        let names: Vec<&str> = exporters.keys().map(String::as_str).collect();
        let allowed =
            if names.is_empty() { "a name under `telemetry.exporters`".to_owned() } else { names.join("|") };
        let name_of = |(role, given)| Some((role, given, given::text(given, &allowed, macros, report)?));
        let mut roles: Vec<(Role, &KeyedValue, String)> = roles.into_iter().filter_map(name_of).collect();
        roles.sort_by_key(|(role, ..)| *role == Role::Application);
        // An exporter that no role uses must still be valid.
        let used = |name: &str| roles.iter().any(|(.., used)| used.eq_ignore_ascii_case(name));
        for (name, raw) in exporters.iter().filter(|(name, _)| !used(name)) {
            let reader = Reader::new(raw, macros, report);
            let _ = reader.sink(name, Role::Server, Dialect::Exporter);
        }
        for (role, given, name) in &roles {
            let found = exporters.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            match found {
                _ if name.is_empty() => {}
                Some((name, raw)) => {
                    let id = match role {
                        Role::Server => name.clone(),
                        Role::Application => format!("{name}/application"),
                    };
                    sink(raw, &id, *role, Dialect::Exporter, report);
                }
                None => {
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
    roles: Vec<(Role, &'a KeyedValue)>,
}

fn gather<'a>(layers: &'a Layers, report: &mut Report) -> Gathered<'a> {
    let mut found = Gathered::default();
    // Files first: their spelling of a name is the one that is shown.
    let mut all: Vec<&KeyedValue> = layers.iter().collect();
    all.sort_by(|a, b| a.value.origin.cmp(&b.value.origin));
    for given in all {
        let key = given.key.as_str();
        match Key::of(key) {
            Key::Setting(Block::Exporter(name), path) => {
                exporter(name, path, given, &mut found.exporters, report);
            }
            Key::Setting(Block::Tracer(id), path) => tracer(id, path, given, &mut found.tracers, report),
            Key::Setting(Block::Metrics, path) => {
                if !found.metrics.get_or_insert_default().take(path, given.clone()) {
                    unknown(given, Block::Metrics, report);
                }
            }
            Key::Setting(Block::View(name), path) => view(name, path, given, &mut found.views, report),
            Key::Exporter(role) => found.roles.push((role, given)),
            Key::Obsolete => report.note(&given.value.origin, key, format!("`{key}` has no effect here")),
            Key::Unknown if !matches!(given.value.kind, Kind::Null) => {
                let known = process_keys().map(|setting| setting.name);
                let known = known
                    .chain(ROLES.map(|(name, _)| name))
                    .chain(["telemetry.exporters", "telemetry.views"]);
                report.unknown_key(&given.value.origin, key, known);
            }
            Key::Unknown | Key::Process(_) | Key::Foreign => {}
        }
    }
    found
}

/// The settings of this name, in upper or lower case.
fn named<'a>(blocks: &'a mut BTreeMap<String, RawSettings>, name: &str) -> &'a mut RawSettings {
    let known = blocks.keys().find(|known| known.eq_ignore_ascii_case(name)).cloned();
    blocks.entry(known.unwrap_or_else(|| name.to_owned())).or_default()
}

fn exporter(
    name: &str,
    path: &str,
    given: &KeyedValue,
    exporters: &mut BTreeMap<String, RawSettings>,
    report: &mut Report,
) {
    let raw = named(exporters, name);
    if !path.is_empty() && !raw.take(path, given.clone()) {
        unknown(given, Block::Exporter(name), report);
    }
}

fn tracer(
    id: &str,
    path: &str,
    given: &KeyedValue,
    tracers: &mut BTreeMap<String, RawSettings>,
    report: &mut Report,
) {
    if path.is_empty() && matches!(given.value.kind, Kind::Null | Kind::Map(_)) {
        let message = format!("`{}` is empty: it has no `type` and no `transport`", given.key);
        let help = Some("set `type` to `open-telemetry` and `transport` to `grpc` or `http`".to_owned());
        report.error(&given.value.origin, &given.key, message, help);
        return;
    }
    let raw = named(tracers, id);
    if path.is_empty() || !raw.take(path, given.clone()) {
        unknown(given, Block::Tracer(id), report);
    }
}

fn view(
    name: &str,
    path: &str,
    given: &KeyedValue,
    views: &mut BTreeMap<String, RawSettings>,
    report: &mut Report,
) {
    if !named(views, name).take_view(path, given.clone()) {
        let known = Block::View(name).keys();
        report.unknown_key(&given.value.origin, &given.key, known.iter().map(String::as_str));
    }
}

fn unknown(given: &KeyedValue, block: Block<'_>, report: &mut Report) {
    let prefix = block.prefix();
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

/// Reads the settings of the process that flags set, or those that files and variables set.
fn process(layers: &Layers, by_flag: bool, macros: Macros<'_>, config: &mut Config, report: &mut Report) {
    for given in layers.iter().filter(|given| matches!(given.value.origin, Origin::Flag(_)) == by_flag) {
        let Key::Process(setting) = Key::of(&given.key) else { continue };
        let Some(slot) = setting.of_process(config) else { continue };
        let expected = setting.expected();
        if slot.is_list() {
            let Some(items) = given::items(given, expected, macros, report) else { continue };
            let names = |(item, origin): (String, Origin)| {
                slot::split(&item).into_iter().map(move |name| (name, origin.clone()))
            };
            propagators::read(items.into_iter().flat_map(names).collect(), &given.key, config, report);
        } else if let Some(text) = given::text(given, expected, macros, report) {
            let origin = &given.value.origin;
            if slot.set(&text, given.base.as_deref()).is_none() {
                report.bad_value(Severity::Error, origin, &given.key, &text, expected);
            }
            config.origins.insert(setting.name.to_owned(), origin.clone());
        }
    }
}
