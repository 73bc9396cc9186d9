//! Reads the configuration from its layers: flags, variables and the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use qualitytrace_config::{
    Diagnostic, File, KeyedValue, Kind, Layers, Macros, Origin, Position, Report, Severity, Value, nearest,
    same_key,
};
use qualitytrace_telemetry::config::{self as telemetry, Sources};

use super::draft::Draft;
use super::owner::{SAFE_DIRECTORY, TrustedOwners};
use super::slot::text;
use super::table::OBSOLETE;
use super::{Config, SETTINGS, Setting, find};
use crate::base::files::read_text_or_pipe;

/// Variables that name the configuration file, by precedence.
const FILE_VARIABLES: [&str; 2] = ["QUALITYTRACE_CONFIG", "TRACETEST_CONFIG"];
/// Blocks that Tracetest has too. It ignored unknown keys in them; here they cause only a warning.
const SHARED_BLOCKS: [&str; 3] = ["server", "postgres", "otlpServer"];

/// The section of the command line, which the server does not read.
const RUN: &str = "run";

/// The setting that earlier versions of Tracetest had for the database.
const CONNECTION: &str = "postgresConnString";

/// The sources of a configuration. Flags override variables, variables override the file.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// The file, if one was named; else the default places are searched.
    pub file: Option<PathBuf>,
    /// Flags as keys and values.
    pub flags: Vec<(String, String)>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
}

/// The result of reading the configuration.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The configuration of the server.
    pub config: Config,
    /// The configuration of its telemetry.
    pub telemetry: telemetry::Config,
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// All settings, each with its origin.
    pub rows: Vec<Row>,
    /// Errors and warnings. With an error among them the server must not start.
    pub diagnostics: Vec<Diagnostic>,
}

/// A setting, for display.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its key.
    pub key: String,
    /// Its value; secrets are redacted, and unused settings are null.
    pub value: serde_json::Value,
    /// Where it came from.
    pub origin: Origin,
    /// Whether a reload applies changes of it.
    pub live: bool,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("failed to read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

impl Row {
    /// Formats the value in one line.
    pub fn text(&self) -> String {
        text(&self.value)
    }
}

impl Resolved {
    /// Whether there are errors, so that the server must not start.
    pub fn is_wrong(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

impl Inputs {
    /// Uses the environment of this process, without variables that are not UTF-8.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        Self { file, flags, environment: Sources::default().with_environment().environment }
    }

    /// Reads everything. Fails only when the file cannot be read; errors in its content are among the diagnostics.
    pub fn read(&self) -> Result<Resolved, Error> {
        let mut report = Report::default();
        let file = self.path(&mut report);
        let text = file.as_deref().map(load).transpose()?;
        Ok(self.resolve(file, text, report))
    }

    /// Like [`Self::read`], with this text in place of the content of the file.
    pub fn read_as(&self, text: String) -> Resolved {
        let mut report = Report::default();
        self.resolve(self.path(&mut report), Some(text), report)
    }

    fn resolve(&self, file: Option<PathBuf>, text: Option<String>, mut report: Report) -> Resolved {
        let mut defaults = telemetry::Defaults::new("qualitytrace");
        defaults.service_version = Some(env!("CARGO_PKG_VERSION").to_owned());
        let mut sources = Sources::new(defaults);
        let named = file.as_ref().zip(text);
        sources.files.extend(named.map(|(path, text)| File::new(path.display().to_string(), text)));
        sources.environment.clone_from(&self.environment);
        sources.flags.clone_from(&self.flags);
        let keys: Vec<&str> = SETTINGS
            .iter()
            .flat_map(|setting| setting.aliases.iter().copied().chain([setting.key]))
            .collect();
        let mut reading = sources.read_with(&keys, &mut report);
        reading.server.retain(|key| !is_below(key, RUN));
        let (draft, rows) = self.understand(&reading.server, &mut report);
        self.unknown_variables(&keys, &mut report);
        let mut telemetry = reading.config;
        report.diagnostics.extend(telemetry.verify());
        if telemetry.spool_path.is_none() {
            telemetry.spool_path = draft.config.data_dir.as_ref().map(|folder| folder.join("telemetry"));
        }
        Resolved { config: draft.config, telemetry, file, rows, diagnostics: report.diagnostics }
    }

    /// Returns the file to read. Warns about other candidates in its folder.
    fn path(&self, report: &mut Report) -> Option<PathBuf> {
        let variable = |name: &str| self.environment.get(name).filter(|path| !path.is_empty());
        let named =
            self.file.clone().or_else(|| FILE_VARIABLES.into_iter().find_map(variable).map(PathBuf::from));
        let home = variable("HOME").map(PathBuf::from);
        if named.is_some() {
            return named;
        }
        let owners = TrustedOwners::of(|name| variable(name).cloned());
        let Some(found) = find::find(&find::folders(home.as_deref()), &owners) else {
            let found = find::project_file(Path::new(""), &owners);
            for path in found.foreign {
                let origin = Origin::File { path: path.display().to_string(), position: Position::START };
                let message = "this file is not read: it belongs to another user".to_owned();
                let help = format!("name it with `--config`, or list its folder in {SAFE_DIRECTORY}");
                report.push(Severity::Warning, &origin, "", message, Some(help));
            }
            return found.file;
        };
        for path in found.passed_over {
            let origin = Origin::File { path: path.display().to_string(), position: Position::START };
            let message = format!("this file is not read: `{}` comes before it", found.file.display());
            let help = "name the one that counts with `--config`".to_owned();
            report.push(Severity::Warning, &origin, "", message, Some(help));
        }
        Some(found.file)
    }

    /// Returns the default data folder.
    fn data_dir(&self) -> Option<PathBuf> {
        let folder =
            |name: &str| self.environment.get(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        folder("XDG_DATA_HOME")
            .map(|folder| folder.join("qualitytrace"))
            .or_else(|| Some(folder("HOME")?.join(".local/share/qualitytrace")))
    }

    fn understand(&self, layers: &Layers, report: &mut Report) -> (Draft, Vec<Row>) {
        let mut draft = Draft::new(self.data_dir());
        let mut origins: BTreeMap<&str, Origin> = BTreeMap::new();
        let variable = |name: &str| self.environment.get(name).cloned();
        let macros = Macros { variable: &variable, file: &read_text_or_pipe };
        for given in layers.iter() {
            let origin = &given.value.origin;
            let Some(setting) = SETTINGS.iter().find(|setting| setting.is_called(&given.key)) else {
                unknown(given, report);
                continue;
            };
            let Some(value) = given.resolve(macros, report) else { continue };
            // The same setting under two names: the layer of higher precedence wins.
            if value == Value::Nothing || origins.get(setting.key).is_some_and(|other| other > origin) {
                continue;
            }
            take(setting, given, &value, &mut draft, report);
            origins.insert(setting.key, origin.clone());
        }
        let postgres = origins
            .iter()
            .filter(|(key, _)| key.starts_with("postgres."))
            .map(|(_, origin)| origin.clone())
            .max();
        let use_postgres = match (&postgres, origins.get("database-url")) {
            (Some(block), Some(url)) if block <= url => {
                let message =
                    "`postgres` has no effect: `database-url` is set too, and overrides it".to_owned();
                report.push(Severity::Warning, block, "postgres", message, None);
                false
            }
            (Some(block), _) => {
                origins.insert("database-url", block.clone());
                true
            }
            (None, _) => false,
        };
        if draft.settle(use_postgres).is_none() {
            let message = "no data folder is known".to_owned();
            let help = "name one with `data-dir`, or a database with `database-url`".to_owned();
            report.error(&Origin::Default, "database-url", message, Some(help));
        }
        let rows = SETTINGS.iter().map(|setting| Row {
            key: setting.key.to_owned(),
            value: if setting.key.starts_with("postgres.") && !use_postgres {
                serde_json::Value::Null
            } else {
                (setting.slot)(&mut draft).shown()
            },
            origin: origins.get(setting.key).cloned().unwrap_or(Origin::Default),
            live: setting.live,
        });
        let rows = rows.collect();
        (draft, rows)
    }

    /// Warns about variables that nearly match a setting and about obsolete ones; refuses the former connection string.
    fn unknown_variables(&self, keys: &[&str], report: &mut Report) {
        let plain = |key: &str| key.replace(['.', '-', '_'], "").to_ascii_lowercase();
        let known: Vec<String> = keys.iter().map(|key| plain(key)).collect();
        for (name, _) in self.environment.iter().filter(|(_, text)| !text.is_empty()) {
            let Some(rest) =
                ["QUALITYTRACE_", "TRACETEST_"].iter().find_map(|prefix| name.strip_prefix(prefix))
            else {
                continue;
            };
            let origin = Origin::Environment(name.clone());
            if let Some(why) = obsolete(&rest.replace('_', ".")) {
                report.push(Severity::Warning, &origin, name, format!("`{name}` has no effect: {why}"), None);
                continue;
            }
            let rest = plain(rest);
            if rest == plain(CONNECTION) {
                refuse_connection(&origin, name, report);
                continue;
            }
            // Short names are similar to too many settings.
            if rest.len() < 8 || known.contains(&rest) {
                continue;
            }
            let Some(near) = nearest(&rest, known.iter().map(String::as_str))
                .filter(|near| near.len().abs_diff(rest.len()) <= 2)
            else {
                continue;
            };
            let key = keys.iter().find(|key| plain(key) == near).copied().unwrap_or_default();
            let variable = format!("QUALITYTRACE_{}", key.replace(['.', '-'], "_").to_ascii_uppercase());
            let message = format!("`{name}` is not a known setting");
            report.push(
                Severity::Warning,
                &origin,
                name,
                message,
                Some(format!("did you mean `{variable}`?")),
            );
        }
    }
}

impl Setting {
    /// Whether this is its key or an alias, in any spelling.
    fn is_called(&self, key: &str) -> bool {
        same_key(self.key, key) || self.aliases.iter().any(|alias| same_key(alias, key))
    }
}

fn load(path: &Path) -> Result<String, Error> {
    read_text_or_pipe(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn take(setting: &Setting, given: &KeyedValue, value: &Value, draft: &mut Draft, report: &mut Report) {
    let slot = (setting.slot)(draft);
    let (expected, is_secret) = (slot.expected(), slot.is_secret());
    if slot.set(value, given.base.as_deref()).is_none() {
        let shown = match value {
            _ if is_secret => "***",
            Value::Text(text) => text,
            Value::List(_) => "a list",
            Value::Nothing => "nothing",
        };
        report.bad_value(Severity::Error, &given.value.origin, &given.key, shown, expected);
    }
}

/// Refuses the former connection string: users who set it expect another database than the one that would be used.
fn refuse_connection(origin: &Origin, name: &str, report: &mut Report) {
    let message = format!("`{name}` is no longer supported");
    let help = "write it as `database-url: postgres://USER:PASSWORD@HOST/NAME`".to_owned();
    report.error(origin, name, message, Some(help));
}

/// Returns why an obsolete key has no effect.
fn obsolete(key: &str) -> Option<&'static str> {
    let found = OBSOLETE.iter().find(|(name, _)| match name.strip_suffix('.') {
        Some(block) => is_below(key, block),
        None => same_key(name, key),
    });
    found.map(|(_, why)| *why)
}

fn is_below(key: &str, block: &str) -> bool {
    same_key(key.split('.').next().unwrap_or_default(), block)
}

/// The block for the export of the server's metrics.
const METRICS: &str = "metrics.open-telemetry";

/// Reports an unknown key: an error where it looks like a setting of ours, a warning elsewhere, because files of
/// Tracetest may hold keys of any version.
fn unknown(given: &KeyedValue, report: &mut Report) {
    let (key, origin) = (given.key.as_str(), &given.value.origin);
    let below = |block: &str| is_below(key, block);
    // Extension keys hold YAML anchors that are merged into other blocks.
    if key.starts_with("x-") {
        return;
    }
    if same_key(key, CONNECTION) {
        refuse_connection(origin, key, report);
        return;
    }
    if let Some(why) = obsolete(key) {
        report.push(Severity::Warning, origin, key, format!("`{key}` has no effect: {why}"), None);
        return;
    }
    let is_block = SETTINGS
        .iter()
        .any(|setting| setting.key.split_once('.').is_some_and(|(block, _)| same_key(block, key)));
    if matches!(given.value.kind, Kind::Null | Kind::Map(_)) && is_block {
        return;
    }
    // Blocks of the telemetry have only one spelling.
    let block = key.match_indices('.').nth(1).map_or(key, |(end, _)| &key[..end]);
    let near = if same_key(block, METRICS) && block != METRICS {
        Some(format!("{METRICS}{}", &key[block.len()..]))
    } else {
        nearest(key, SETTINGS.iter().map(|setting| setting.key)).map(str::to_owned)
    };
    let ours =
        SETTINGS.iter().filter_map(|setting| setting.key.split_once('.')).any(|(block, _)| below(block));
    let shared = SHARED_BLOCKS.iter().any(|block| below(block));
    let from_file = matches!(origin, Origin::File { .. });
    let severity =
        if near.is_some() || (ours && !shared) || !from_file { Severity::Error } else { Severity::Warning };
    let help = near.map(|near| format!("did you mean `{near}`?"));
    report.push(severity, origin, key, format!("`{key}` is not a known setting"), help);
}
