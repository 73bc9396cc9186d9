//! The project file, `qualitytrace.yaml`: its section `run` holds what a team would otherwise type after
//! `qualitytrace run`. The rest of the file are the settings of the server.
//!
//! The values are defaults of the flags, so flags and environment variables override them.

mod keys;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{ArgMatches, Command, CommandFactory as _};
use qualitytrace_config::{
    Diagnostic, File, KeyedValue, Kind, Leaf, Macros, Origin, Report, Severity, Value, same_key,
};
use qualitytrace_server::config::{
    Config, FoundProject, Inputs, Listen, Row, SAFE_DIRECTORY, TrustedOwners, project_file,
};

use self::keys::{KEYS, Key, NOT_IN_FILE, Takes};
use super::Arguments;
use super::files::regular;
use super::target;
use crate::terminal;

/// The section of the command line.
const SECTION: &str = "run";
/// The key of the variables: a mapping, of which flags replace single names.
const VARIABLES: &str = "variables";
/// The key of the definition files.
const PATHS: &str = "paths";
/// What `--project` takes for no file.
const OFF: &str = "off";
/// Keys that have no meaning on a server that was named.
const OF_OWN_SERVER: [&str; 6] = ["server", "local", "with", "ready", "ready-timeout", "learned"];

/// A project file that was read.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    file: PathBuf,
    settings: Vec<Setting>,
    /// Names and values of variables.
    pub(crate) variables: Vec<(String, String)>,
    /// Whether the user named the file; else it was found.
    pub(crate) is_named: bool,
}

/// A key of the section, with the values of its flag.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    key: &'static Key,
    values: Vec<OsString>,
}

/// What the settings of the server in a project file say about the server of a run.
#[derive(Debug, Default)]
pub(crate) struct ServerSettings {
    pub(crate) config: Config,
    /// The addresses for OTLP, where the file has them.
    pub(crate) otlp_grpc: Option<Listen>,
    pub(crate) otlp_http: Option<Listen>,
}

impl Project {
    /// The project file that counts for a command line of `run`; `None` when there is none.
    pub(crate) fn of(run: &ArgMatches) -> anyhow::Result<Option<Self>> {
        let named = run.get_one::<PathBuf>("project").cloned();
        let is_named = named.is_some();
        let file = match named {
            Some(named) if named == Path::new(OFF) => None,
            Some(named) => Some(named),
            None => found(run.get_flag("trust_project")),
        };
        let project = file.map(Self::read).transpose()?;
        Ok(project.map(|project| Self { is_named, ..project }))
    }

    /// Reads a file. Mistakes are printed, and an error.
    fn read(file: PathBuf) -> anyhow::Result<Self> {
        let (project, diagnostics) = Self::checked(file)?;
        for diagnostic in &diagnostics {
            terminal::err(&format!("{diagnostic}\n"));
        }
        if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            bail!("the project file {} has mistakes", project.file.display());
        }
        Ok(project)
    }

    /// Reads a file, with the mistakes of its section.
    pub(crate) fn checked(file: PathBuf) -> anyhow::Result<(Self, Vec<Diagnostic>)> {
        let text = regular::read_text(&file)
            .with_context(|| format!("failed to read the project file {}", file.display()))?;
        let mut report = Report::default();
        let leaves = File::new(file.display().to_string(), text).leaves(&mut report);
        let mut project = Self { file, settings: Vec::new(), variables: Vec::new(), is_named: false };
        let run = run_command();
        for leaf in leaves.into_iter().filter(|leaf| is_of_section(&leaf.key)) {
            project.take(leaf, &run, &mut report);
        }
        Ok((project, report.diagnostics))
    }

    fn take(&mut self, leaf: Leaf, run: &Command, report: &mut Report) {
        let given = KeyedValue { key: leaf.key, value: leaf.value, base: Some(self.folder()) };
        let Some((_, rest)) = given.key.split_once('.') else {
            let is_empty = matches!(&given.value.kind, Kind::Null | Kind::Map(_));
            if !is_empty {
                let message = "`run` takes keys, such as `paths` and `with`".to_owned();
                report.error(&given.value.origin, &given.key, message, None);
            }
            return;
        };
        let (name, below) =
            rest.split_once('.').map_or((rest, None), |(name, below)| (name, Some(below.to_owned())));
        if same_key(name, VARIABLES) {
            self.variables.extend(variable(&given, below, report));
            return;
        }
        let Some(key) = KEYS.iter().find(|key| same_key(key.name, name)) else {
            unknown(&given, name, report);
            return;
        };
        let Some(texts) = texts(&given, key, below.as_deref(), report) else { return };
        let values = key.takes.values(&self.folder(), texts);
        if let Some((value, why)) = values.iter().find_map(|value| refused(run, key, value)) {
            let message = format!("`{}` cannot be `{value}`: {why}", given.key);
            report.error(&given.value.origin, &given.key, message, None);
            return;
        }
        if values.iter().filter_map(|value| key.owned_file(value)).any(|file| !self.holds(&file)) {
            let message = format!("`{}` is a file outside the folder of the project", given.key);
            let help = format!("give it as `--{}`", key.flag);
            report.error(&given.value.origin, &given.key, message, Some(help));
            return;
        }
        match self.settings.iter_mut().find(|setting| setting.key == key) {
            // A mapping has a leaf for each of its keys.
            Some(known) => known.values.extend(values),
            None => self.settings.push(Setting { key, values }),
        }
    }

    /// The definition files of its runs.
    fn paths(&self) -> Vec<PathBuf> {
        let paths = self.settings.iter().filter(|setting| setting.key.name == PATHS);
        paths.flat_map(|setting| &setting.values).map(PathBuf::from).collect()
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The folder of the file: what it names is relative to it.
    pub(crate) fn folder(&self) -> PathBuf {
        self.file.parent().map(Path::to_path_buf).unwrap_or_default()
    }

    /// Whether a file is below the folder of the project, links resolved. One that is not there would be made.
    fn holds(&self, file: &Path) -> bool {
        let resolved = |path: &Path| {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            path.canonicalize().ok()
        };
        let is_new = file.symlink_metadata().is_err();
        let place = if is_new { file.parent().and_then(resolved) } else { resolved(file) };
        let folder = resolved(&self.folder());
        // A folder that is not there is reported when the file is written.
        place.map_or(is_new, |place| folder.is_some_and(|folder| place.starts_with(folder)))
    }

    /// Puts the values into the table of flags, as defaults. `given` is the command line without them.
    pub(crate) fn apply(&self, command: Command, given: &ArgMatches, run: &ArgMatches) -> Command {
        let is_named = is_server_named(given, run);
        let has_files = run.contains_id("files");
        let is_meant = |setting: &&Setting| {
            let name = setting.key.name;
            let is_overridden = is_named && OF_OWN_SERVER.contains(&name);
            let is_replaced = has_files && name == PATHS;
            !is_overridden && !is_replaced
        };
        let settings: Vec<&Setting> = self.settings.iter().filter(is_meant).collect();
        command.mut_subcommand(SECTION, |run| {
            run.mut_args(|flag| {
                let setting = settings.iter().find(|setting| setting.key.is_of(&flag));
                match setting {
                    Some(setting) if !setting.values.is_empty() => {
                        flag.default_values(setting.values.clone())
                    }
                    _ => flag,
                }
            })
        })
    }

    /// The settings of the server, as far as they make sense for the server of a run. Mistakes are printed, and an
    /// error.
    pub(crate) fn server_settings(&self) -> anyhow::Result<ServerSettings> {
        let resolved = Inputs::of_process(Some(self.file.clone()), Vec::new()).read()?;
        let of_file = |origin: &Origin| matches!(origin, Origin::File { .. });
        let found = resolved.diagnostics.iter().filter(|found| of_file(&found.origin));
        let wrong: Vec<&Diagnostic> = found.filter(|found| found.severity == Severity::Error).collect();
        for diagnostic in &wrong {
            terminal::err(&format!("{diagnostic}\n"));
        }
        if !wrong.is_empty() {
            bail!("the project file {} has mistakes", self.file.display());
        }
        let listen = |key: &str| {
            let row = resolved.rows.iter().find(|row| row.key == key && of_file(&row.origin));
            row.map(Row::text).and_then(|text| Listen::parse(&text))
        };
        let (otlp_grpc, otlp_http) = (listen("otlp-grpc-addr"), listen("otlp-http-addr"));
        Ok(ServerSettings { config: resolved.config, otlp_grpc, otlp_http })
    }
}

/// The paths of a command; without any, those that the project file names for `run` with these flags.
pub(crate) fn paths_or_own(paths: &[PathBuf], flags: &[OsString]) -> anyhow::Result<Vec<PathBuf>> {
    if !paths.is_empty() {
        return Ok(paths.to_vec());
    }
    let run = Arguments::table().find_subcommand(SECTION).cloned().unwrap_or_default().no_binary_name(true);
    let given = run.try_get_matches_from(flags).map_err(|error| {
        let text = error.to_string();
        anyhow!("{}", text.trim_start_matches("error: ").trim_end())
    })?;
    let own = Project::of(&given)?.map(|project| project.paths()).unwrap_or_default();
    if own.is_empty() {
        bail!("name a file or a folder, or write `paths` under `run` in qualitytrace.yaml");
    }
    Ok(own)
}

/// The project file of the current folder. One of another user counts only if it is trusted; else it is told.
fn found(is_trusted: bool) -> Option<PathBuf> {
    let FoundProject { file, foreign } = project_file(Path::new(""), &TrustedOwners::of_process());
    if is_trusted {
        return foreign.into_iter().next().or(file);
    }
    for file in foreign {
        terminal::err(&format!(
            "{}: {} belongs to another user and does not count; name it with --project, or list its folder in \
             {SAFE_DIRECTORY}\n",
            terminal::style::unsure("warning"),
            file.display()
        ));
    }
    file
}

/// Whether a flag or the environment names a server.
fn is_server_named(given: &ArgMatches, run: &ArgMatches) -> bool {
    let is_flag = |matches: &ArgMatches| matches.value_source("server_url").is_some();
    is_flag(given) || is_flag(run) || target::variable("SERVER_URL").is_some()
}

/// The table of the flags of `run`.
fn run_command() -> Command {
    let command = Arguments::command();
    command.find_subcommand(SECTION).cloned().unwrap_or_default().no_binary_name(true)
}

fn is_of_section(key: &str) -> bool {
    same_key(key.split('.').next().unwrap_or_default(), SECTION)
}

fn resolved(given: &KeyedValue, report: &mut Report) -> Option<Value> {
    let variable = |name: &str| std::env::var(name).ok();
    let macros = Macros { variable: &variable, file: &regular::read_text };
    given.resolve(macros, report)
}

/// A variable with its value. Reports what is none.
fn variable(given: &KeyedValue, name: Option<String>, report: &mut Report) -> Option<(String, String)> {
    match (name, resolved(given, report)?) {
        (Some(name), Value::Text(value)) => Some((name, value)),
        (Some(name), Value::Nothing) => Some((name, String::new())),
        (None, Value::Nothing) => None,
        (None, Value::Text(_)) | (_, Value::List(_)) => {
            let message = format!("`{}` takes names with a value each, as `NAME: VALUE`", given.key);
            report.error(&given.value.origin, &given.key, message, None);
            None
        }
    }
}

/// The texts of a value, each as its flag takes it. Reports a value of another shape.
fn texts(given: &KeyedValue, key: &Key, below: Option<&str>, report: &mut Report) -> Option<Vec<String>> {
    let has_nested = match &given.value.kind {
        Kind::List(items) => items.iter().any(|item| !matches!(item.kind, Kind::Scalar(_))),
        Kind::Null | Kind::Scalar(_) | Kind::Map(_) => false,
    };
    let value = resolved(given, report)?;
    let texts = match (key.takes, below, value) {
        _ if has_nested => None,
        // `reports: {junit: FILE}` is `--report junit=FILE`.
        (Takes::Reports, Some(format), Value::Text(file)) => Some(vec![format!("{format}={file}")]),
        (Takes::Reports, Some(format), Value::Nothing) => Some(vec![format.to_owned()]),
        (_, None, Value::Nothing) => Some(Vec::new()),
        (_, None, Value::Text(text)) => Some(vec![text]),
        (Takes::List | Takes::Files | Takes::Reports, None, Value::List(texts)) => Some(texts),
        (_, Some(_), _) | (_, None, Value::List(_)) => None,
    };
    if texts.is_none() {
        let message = format!("`{}` takes {}", given.key, key.takes.expected());
        report.error(&given.value.origin, &given.key, message, None);
    }
    texts
}

/// Reports a key that the section does not have.
fn unknown(given: &KeyedValue, name: &str, report: &mut Report) {
    if let Some(flag) = NOT_IN_FILE.iter().find(|flag| same_key(flag, name)) {
        let message = format!("`{}` is no setting of a project", given.key);
        report.error(&given.value.origin, &given.key, message, Some(format!("give it as `--{flag}`")));
        return;
    }
    let names: Vec<String> =
        KEYS.iter().map(|key| key.name).chain([VARIABLES]).map(|name| format!("{SECTION}.{name}")).collect();
    report.unknown_key(&given.value.origin, &given.key, names.iter().map(String::as_str));
}

/// Why a flag does not take a value, with the value.
fn refused(run: &Command, key: &Key, value: &OsString) -> Option<(String, String)> {
    let shown = value.to_string_lossy().into_owned();
    let argument = match key.takes {
        // It has no value on the command line.
        Takes::Switch => {
            let is_known = matches!(&*shown, "true" | "false");
            return (!is_known).then(|| (shown, "expected true or false".to_owned()));
        }
        _ if key.flag.is_empty() => return None,
        _ => {
            let mut argument = OsString::from(format!("--{}=", key.flag));
            argument.push(value);
            argument
        }
    };
    let error = run.clone().try_get_matches_from([argument]).err()?;
    // Another flag may have a wrong value in the environment.
    let about = error.get(clap::error::ContextKind::InvalidArg)?.to_string();
    if !about.starts_with(&format!("--{}", key.flag)) {
        return None;
    }
    let why = std::error::Error::source(&error).map(ToString::to_string);
    let first = || error.to_string().lines().next().unwrap_or_default().to_owned();
    Some((shown, why.unwrap_or_else(first)))
}
