//! Prometheus: a back end of the tests of the server's own telemetry.

use std::{fs, net::SocketAddr, path::PathBuf};

use anyhow::{Context as _, Result};
use qualitytrace_testing::port;

use super::module::Program;
use crate::{
    process::{self, Guard, says_ready},
    temporary::Folder,
};

const PROMETHEUS: Program = Program {
    name: "prometheus",
    module: "github.com/prometheus/prometheus",
    // The version of the module; the program of this version is Prometheus 3.15.
    version: "v0.315.0",
    // No service discovery, which is what most of the program's code is; its page is not part of the module.
    tags: "remove_all_sd,netgo",
};

/// Builds Prometheus unless it is there already.
pub(crate) fn install() -> Result<PathBuf> {
    PROMETHEUS.install()
}

/// A running Prometheus that scrapes and receives OTLP. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Prometheus {
    /// The URL of its API.
    pub(crate) url: String,
    // Field order is drop order: the process ends before its folder is removed.
    _process: Guard,
    _folder: Folder,
}

/// Starts Prometheus on a free loopback port and waits until it is ready. `jobs` are scraped every second, and `rules` is
/// a file of rules.
pub(crate) fn start(jobs: &[(&str, SocketAddr)], rules: &str) -> Result<Prometheus> {
    let program = install()?;
    let folder = Folder::new("prometheus")?;
    let config = folder.0.join("prometheus.yaml");
    fs::write(&config, configuration(jobs, rules)).context("failed to write Prometheus' configuration")?;
    let address = SocketAddr::from(([127, 0, 0, 1], port()));
    let mut command = process::bound_to_us("KILL", program);
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.0.join("data").display()));
    command.arg(format!("--web.listen-address={address}")).arg("--web.enable-otlp-receiver");
    let process = process::started(command, "prometheus", &folder.0, || says_ready(address))?;
    Ok(Prometheus { url: format!("http://{address}"), _process: process, _folder: folder })
}

fn configuration(jobs: &[(&str, SocketAddr)], rules: &str) -> String {
    let jobs = jobs.iter().map(|(name, address)| {
        format!("  - {{ job_name: {name}, static_configs: [{{ targets: [\"{address}\"] }}] }}\n")
    });
    format!(
        "\
global: {{ scrape_interval: 1s, evaluation_interval: 1s }}
rule_files: [{rules:?}]
scrape_configs:
{}",
        jobs.collect::<String>()
    )
}
