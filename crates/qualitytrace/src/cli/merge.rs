//! `qualitytrace report merge`: one report of several, as the shards of a CI job write them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::Exit;
use super::files::regular;
use super::run;
use super::run::reports;
use crate::{report, terminal};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make one report of the JSON reports of several runs; ends as one `run` of all their tests would
    #[command(after_help = "Examples:
  qualitytrace run tests --shard 1/2 --report json=shard-1.json    on one machine
  qualitytrace run tests --shard 2/2 --report json=shard-2.json    on another
  qualitytrace report merge shard-*.json --report junit=all.xml,html=all.html,markdown")]
    Merge(MergeOptions),
}

#[derive(Debug, Args)]
struct MergeOptions {
    /// Reports that `run --report json=FILE` wrote
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Reports to write: junit, json, tap, html, markdown, github, each to a file or to standard output; several are
    /// separated by commas
    #[arg(long = "report", value_name = "FORMAT[=FILE],...", value_delimiter = ',')]
    reports: Vec<reports::ReportTarget>,
    /// Count a test that passed only after a retry as failed
    #[arg(long)]
    fail_on_flaky: bool,
}

/// Runs the command.
pub(crate) fn report(options: &Options) -> anyhow::Result<Exit> {
    let Command::Merge(options) = &options.command;
    let mut all = Vec::new();
    // Shards run at the same time.
    let mut took = Duration::ZERO;
    for file in &options.files {
        let text = regular::read_text(file)
            .with_context(|| format!("failed to read the report {}", file.display()))?;
        let (reports, time) =
            report::json::read(&text).with_context(|| format!("{} cannot be merged", file.display()))?;
        all.extend(reports);
        took = took.max(time);
    }
    for wanted in &options.reports {
        wanted.require_writable()?;
        wanted.write(&all, took)?;
    }
    let summary = report::pretty::summary(&all, took);
    if options.reports.iter().any(reports::ReportTarget::takes_output) {
        terminal::err(&summary);
    } else {
        terminal::out(&summary);
    }
    Ok(run::exit(&all, options.fail_on_flaky))
}
