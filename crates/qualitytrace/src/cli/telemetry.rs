//! `qualitytrace telemetry`: the sinks of the server's own telemetry.

mod status;

use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use qualitytrace_telemetry::Telemetry;

use super::Exit;
use super::settings::{self, ConfigOptions, SettingFlags};
use super::target::{Output, Target};
use crate::terminal;

/// Timeout for flushing a test.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the sinks and where each setting comes from; fails when something is wrong
    Check(ConfigOptions),
    /// Print the status of the sinks of a running server; fails when something is lost
    Status {
        #[command(flatten)]
        target: Target,
        /// Print everything that is known, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Send one span, one metric and one log record through every sink and print the answers
    Test(ConfigOptions),
}

/// Starts telemetry with these settings. `None` when they are invalid.
fn start(config: ConfigOptions) -> anyhow::Result<Option<Telemetry>> {
    let Some(resolved) = settings::read(&config.inputs(SettingFlags::default()))? else { return Ok(None) };
    Telemetry::start(resolved.telemetry).map(Some).context("failed to start telemetry")
}

/// Runs the command.
pub(crate) async fn telemetry(options: Options) -> anyhow::Result<Exit> {
    match options.command {
        Command::Check(config) => {
            let Some(resolved) = settings::read(&config.inputs(SettingFlags::default()))? else {
                return Ok(Exit::Error);
            };
            terminal::out(&format!("{}\n", resolved.telemetry.render().trim_end()));
            Ok(Exit::Passed)
        }
        Command::Status { target, json } => {
            let status = target.client()?.telemetry_status().await?;
            let output = if json { Output::Json } else { target.output() };
            terminal::out(&output.text_of(&status).unwrap_or_else(|| status::table(&status)));
            Ok(if status::has_losses(&status) { Exit::NotPassed } else { Exit::Passed })
        }
        Command::Test(config) => {
            let Some(telemetry) = start(config)? else { return Ok(Exit::Error) };
            let probes = tokio::task::spawn_blocking(move || {
                let probes = telemetry.test();
                telemetry.shutdown(TRY_TIMEOUT);
                probes
            });
            let probes = probes.await?;
            if probes.is_empty() {
                terminal::out("no sinks; name one in the configuration, see docs/telemetry.md\n");
            }
            for probe in &probes {
                let mark = if probe.ok { terminal::style::good("✔") } else { terminal::style::bad("✘") };
                terminal::out(&format!(
                    "{mark} {} {} to {}: {} ({} ms)\n",
                    probe.sink,
                    probe.signal.name(),
                    probe.endpoint,
                    probe.answer,
                    probe.millis
                ));
            }
            Ok(if probes.iter().all(|probe| probe.ok) { Exit::Passed } else { Exit::NotPassed })
        }
    }
}
