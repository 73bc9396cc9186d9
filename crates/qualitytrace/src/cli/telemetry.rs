//! `qualitytrace telemetry`: where the server's own telemetry goes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use qualitytrace_server::config::HTTP_PORT;
use qualitytrace_telemetry::Telemetry;
use qualitytrace_telemetry::config::{Config, Defaults, File, Severity, Sources};

use super::Exit;
use super::serve::data_folder;
use crate::client::Client;
use crate::report;

/// Configuration files that are found without being named, the first one there wins.
const FOUND: [&str; 5] = [
    "qualitytrace.yaml",
    "qualitytrace.toml",
    "quality-trace-config.yaml",
    "tracetest.yaml",
    "tracetest-config.yaml",
];
/// How long a try may take to leave.
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
    /// Print how the sinks of a running server fare
    Status {
        /// The server
        #[arg(long, short = 's', value_name = "URL", env = "QUALITYTRACE_SERVER_URL", default_value_t = format!("http://127.0.0.1:{HTTP_PORT}"))]
        server: String,
    },
    /// Send one span, one metric and one log record through every sink and print the answers
    Test(ConfigOptions),
}

/// Where the configuration is.
#[derive(Debug, Args)]
pub(crate) struct ConfigOptions {
    /// Configuration file, YAML or TOML [default: qualitytrace.yaml and its kin, if there]
    #[arg(long, short, value_name = "FILE", env = "QUALITYTRACE_CONFIG")]
    config: Option<PathBuf>,
}

impl ConfigOptions {
    /// Reads the settings. `None` when something is wrong with them, which has been said by then.
    fn read(&self) -> anyhow::Result<Option<Config>> {
        let path = self.config.clone().or_else(|| FOUND.iter().map(PathBuf::from).find(|path| path.exists()));
        let files = path.iter().map(|path| file(path)).collect::<anyhow::Result<_>>()?;
        let sources = Sources {
            files,
            environment: std::env::vars().collect(),
            flags: Vec::new(),
            defaults: Defaults {
                service_name: "qualitytrace".to_owned(),
                service_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                spool_path: data_folder().map(|folder| folder.join("telemetry")),
            },
        };
        let (config, diagnostics) = sources.read();
        for diagnostic in &diagnostics {
            report::err(&format!("{diagnostic}\n"));
        }
        let is_wrong = diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
        Ok((!is_wrong).then_some(config))
    }

    /// Starts telemetry by these settings. `None` when something is wrong with them.
    pub(crate) fn start(&self) -> anyhow::Result<Option<Telemetry>> {
        let Some(config) = self.read()? else { return Ok(None) };
        Telemetry::start(config).map(Some).context("failed to start telemetry")
    }
}

fn file(path: &Path) -> anyhow::Result<File> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("failed to read the configuration {}", path.display()))?;
    Ok(File { path: path.display().to_string(), text })
}

/// Does what was asked.
pub(crate) async fn telemetry(options: Options) -> anyhow::Result<Exit> {
    match options.command {
        Command::Check(config) => {
            let Some(config) = config.read()? else { return Ok(Exit::Error) };
            report::out(&format!("{}\n", config.render().trim_end()));
            Ok(Exit::Passed)
        }
        Command::Status { server } => {
            let status = Client::new(&server)?.telemetry_status().await?;
            report::out(&format!("{}\n", serde_json::to_string_pretty(&status)?));
            Ok(Exit::Passed)
        }
        Command::Test(config) => {
            let Some(telemetry) = config.start()? else { return Ok(Exit::Error) };
            let probes = tokio::task::spawn_blocking(move || {
                let probes = telemetry.test();
                telemetry.shutdown(TRY_TIMEOUT);
                probes
            });
            let probes = probes.await?;
            if probes.is_empty() {
                report::out("no sinks; name one in the configuration, see docs/telemetry.md\n");
            }
            for probe in &probes {
                let mark = if probe.ok { report::style::good("✔") } else { report::style::bad("✘") };
                report::out(&format!(
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
