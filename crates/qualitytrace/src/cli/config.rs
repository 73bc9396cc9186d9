//! `qualitytrace config`: the settings of the server and their origins.

use clap::{Args, Subcommand, ValueEnum};
use qualitytrace_config::{Origin, Position, Severity};
use qualitytrace_core::definition::to_yaml;
use qualitytrace_server::config::{Resolved, Row};
use qualitytrace_server::serve::server::Server;
use serde_json::{Value, json};

use super::Exit;
use super::project::Project;
use super::serve::EXPOSED;
use super::settings::{self, ConfigOptions, SettingFlags};
use crate::terminal::{self, columns};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Report mistakes in the configuration; fails when the server would not start with it
    Check(Sources),
    /// Print every setting and where it comes from; secrets are redacted
    Show {
        #[command(flatten)]
        sources: Sources,
        /// Format of the output
        #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "pretty")]
        output: Output,
    },
}

#[derive(Debug, Args)]
struct Sources {
    #[command(flatten)]
    config: ConfigOptions,
    #[command(flatten)]
    settings: SettingFlags,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Pretty,
    Json,
    Yaml,
}

/// Runs the command.
pub(crate) fn config(options: Options) -> anyhow::Result<Exit> {
    let (sources, output) = match options.command {
        Command::Check(sources) => (sources, None),
        Command::Show { sources, output } => (sources, Some(output)),
    };
    let Some(resolved) = settings::read(&sources.config.inputs(sources.settings))? else {
        return Ok(Exit::Error);
    };
    if output.is_none() && !(can_start(&resolved) && is_project_right(&resolved)?) {
        return Ok(Exit::Error);
    }
    terminal::out(&match output {
        None => summary(&resolved),
        Some(Output::Pretty) => pretty(&resolved),
        Some(Output::Json) => format!("{}\n", serde_json::to_string_pretty(&document(&resolved))?),
        Some(Output::Yaml) => to_yaml(&document(&resolved)),
    });
    Ok(Exit::Passed)
}

/// Whether the server could start, as far as that can be checked beforehand; prints the obstacles.
fn can_start(resolved: &Resolved) -> bool {
    let obstacles = Server::check(&resolved.config);
    let can_start = obstacles.is_empty();
    for obstacle in obstacles.into_iter().map(anyhow::Error::from) {
        terminal::err(&format!("{}: {obstacle:#}\n", terminal::style::error("error")));
    }
    if resolved.config.is_exposed() {
        terminal::err(&format!("{}\n", terminal::style::bad(EXPOSED)));
    }
    can_start
}

/// Whether the section of the command line in the file can be used; prints its mistakes.
fn is_project_right(resolved: &Resolved) -> anyhow::Result<bool> {
    let Some(file) = resolved.file.clone() else { return Ok(true) };
    let (_, mistakes) = Project::checked(file)?;
    for mistake in &mistakes {
        terminal::err(&format!("{mistake}\n"));
    }
    Ok(mistakes.iter().all(|mistake| mistake.severity != Severity::Error))
}

fn rows(resolved: &Resolved) -> impl Iterator<Item = Row> {
    let telemetry = resolved.telemetry.lines().into_iter().map(|line| Row {
        key: line.key,
        value: line.value.into(),
        origin: line.origin,
        live: true,
    });
    resolved.rows.iter().cloned().chain(telemetry)
}

fn file(resolved: &Resolved) -> Option<String> {
    resolved.file.as_ref().map(|file| file.display().to_string())
}

fn summary(resolved: &Resolved) -> String {
    let set = rows(resolved).filter(|row| row.origin != Origin::Default).count();
    let file = file(resolved).map_or_else(|| "no configuration file".to_owned(), |file| format!("`{file}`"));
    let sinks = resolved.telemetry.sinks.len();
    format!("{} {file}: {set} settings set, {sinks} telemetry sinks\n", terminal::style::good("✔"))
}

fn pretty(resolved: &Resolved) -> String {
    let file = file(resolved).unwrap_or_else(|| "none found".to_owned());
    let rows: Vec<(String, String, Origin)> =
        rows(resolved).map(|row| (row.key.clone(), row.text(), row.origin)).collect();
    let width = |column: fn(&(String, String, Origin)) -> &str| {
        // A few long lists must not push everything to the right.
        rows.iter().map(|row| columns::width(column(row))).filter(|width| *width <= 60).max().unwrap_or(0)
    };
    let (keys, values) = (width(|row| &row.0), width(|row| &row.1));
    let mut out = format!("configuration file: {file}\n\n");
    for (key, value, origin) in &rows {
        let line = format!("{}  {}  {origin}", columns::padded(key, keys), columns::padded(value, values));
        out += &if *origin == Origin::Default { terminal::style::faint(line) } else { line };
        out.push('\n');
    }
    out
}

fn document(resolved: &Resolved) -> Value {
    let settings = rows(resolved).map(|row| {
        json!({ "key": row.key, "value": row.value, "origin": origin(&row.origin), "needsRestart": !row.live })
    });
    json!({ "file": file(resolved), "settings": settings.collect::<Vec<_>>() })
}

fn origin(origin: &Origin) -> Value {
    match origin {
        Origin::Default => json!({ "kind": "default" }),
        Origin::File { path, position: Position { line, column } } => {
            json!({ "kind": "file", "path": path, "line": line, "column": column })
        }
        Origin::Environment(name) => json!({ "kind": "environment", "name": name }),
        Origin::Flag(name) => json!({ "kind": "flag", "name": format!("--{name}") }),
    }
}
