//! The settings of the server as command line flags, generated from one table.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use qualitytrace_server::config::{Inputs, OLD_FLAGS, Resolved, SETTINGS, Setting};

use crate::terminal;

/// Where the configuration is.
#[derive(Debug, Args)]
pub(crate) struct ConfigOptions {
    /// Configuration file: YAML, TOML or JSON [default: the first of qualitytrace.yaml and similar names]
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any other key of the configuration, such as `telemetry.exporters.NAME.endpoint=URL`; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Assignment>,
}

#[derive(Debug, Clone)]
struct Assignment(String, String);

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
        Ok(Self(key.trim().to_owned(), value.to_owned()))
    }
}

impl ConfigOptions {
    /// The inputs of the configuration.
    pub(crate) fn inputs(self, flags: SettingFlags) -> Inputs {
        let mut pairs: Vec<_> = self.set.into_iter().map(|Assignment(key, value)| (key, value)).collect();
        pairs.extend(flags.0);
        Inputs::of_process(self.config, pairs)
    }
}

/// Reads the settings and prints the diagnostics. `None` when there are errors.
pub(crate) fn read(inputs: &Inputs) -> anyhow::Result<Option<Resolved>> {
    let resolved = inputs.read()?;
    for diagnostic in &resolved.diagnostics {
        terminal::err(&format!("{diagnostic}\n"));
    }
    Ok((!resolved.is_wrong()).then_some(resolved))
}

/// The given flags, as keys and values.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags(Vec<(String, String)>);

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let old = OLD_FLAGS
            .iter()
            .map(|key| Arg::new(*key).long(*key).hide(true).num_args(0..=1).default_missing_value("true"));
        SETTINGS.iter().map(flag).chain(old).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let keys = SETTINGS.iter().map(|setting| setting.key).chain(OLD_FLAGS.iter().copied());
        let given = keys.filter_map(|key| Some((key.to_owned(), matches.get_one::<String>(key)?.clone())));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let default = setting.default_text();
    let help = if default.is_empty() {
        setting.help.to_owned()
    } else {
        format!("{} [default: {default}]", setting.help)
    };
    let arg = Arg::new(setting.key)
        .long(setting.key)
        .aliases(spellings(setting))
        .value_name(setting.placeholder())
        .help(help)
        .help_heading(heading(setting.key));
    if setting.is_switch() { arg.num_args(0..=1).default_missing_value("true") } else { arg }
}

/// Aliases of the flag: its other keys, and all of them with dashes or in lower case.
fn spellings(setting: &Setting) -> BTreeSet<String> {
    let dashed = |key: &str| {
        let parts = key.chars().map(|letter| match letter {
            'A'..='Z' => format!("-{}", letter.to_ascii_lowercase()),
            _ => letter.to_string(),
        });
        parts.collect::<String>()
    };
    let keys = setting.aliases.iter().chain([&setting.key]);
    let all = keys.flat_map(|key| [(*key).to_owned(), dashed(key), key.to_ascii_lowercase()]);
    all.filter(|spelling| spelling != setting.key).collect()
}

fn heading(key: &str) -> &'static str {
    match key.split_once('.').map_or(key, |(block, _)| block) {
        "limits" => "Limits",
        "runs" => "Runs",
        "secrets" | "redact" | "auth" | "trigger" => "Safety",
        "postgres" | "data-dir" | "database-url" => "Storage",
        "host" | "server" | "otlpServer" | "otlp-grpc-addr" | "otlp-http-addr" => "Addresses",
        _ => "More",
    }
}
