//! Grafana Tempo: a data store of tests and of benchmarks.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{
    module::Program,
    running::{Running, addresses},
};
use crate::process;

const TEMPO: Program = Program {
    name: "tempo",
    module: "github.com/grafana/tempo",
    // The versions of its releases are not those of a Go module, so this is one commit. It needs Go 1.26.2.
    version: "v1.5.1-0.20260423183749-e1676d825c43",
    tags: "",
};
/// Start timeout.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Builds Tempo unless it is there already.
pub(crate) fn install() -> Result<PathBuf> {
    TEMPO.install()
}

/// A running Tempo that keeps traces in a temporary folder. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Tempo {
    /// The address of its query service over gRPC.
    pub(crate) grpc: SocketAddr,
    /// The URL of its HTTP API.
    pub(crate) http: String,
    /// The URL of its OTLP over HTTP.
    pub(crate) otlp: String,
    _running: Running,
}

/// Starts Tempo on free loopback ports and waits until it is ready.
pub(crate) fn start() -> Result<Tempo> {
    let program = install()?;
    let [grpc, http, otlp, memberlist] = addresses();
    let mut running = Running::start("Tempo", "tempo", |folder| {
        let settings = folder.join("tempo.yaml");
        fs::write(&settings, configuration(folder, grpc, http, otlp, memberlist))
            .context("failed to write Tempo's configuration")?;
        let mut command = process::bound_to_us("KILL", &program);
        command.arg("-config.file").arg(&settings);
        Ok(command)
    })?;
    running.wait(&[grpc, http, otlp], READY_LIMIT)?;
    Ok(Tempo { grpc, http: format!("http://{http}"), otlp: format!("http://{otlp}"), _running: running })
}

/// Every path is set: what is left out is written beside the folder.
fn configuration(
    folder: &Path,
    grpc: SocketAddr,
    http: SocketAddr,
    otlp: SocketAddr,
    memberlist: SocketAddr,
) -> String {
    let data = folder.display();
    let (grpc, http, memberlist) = (grpc.port(), http.port(), memberlist.port());
    format!(
        "\
target: all
server:
  http_listen_address: 127.0.0.1
  http_listen_port: {http}
  grpc_listen_address: 127.0.0.1
  grpc_listen_port: {grpc}
  log_level: warn
distributor: {{ receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: {otlp} }} }} }} }} }}
storage: {{ trace: {{ backend: local, wal: {{ path: {data}/wal }}, local: {{ path: {data}/blocks }} }} }}
live_store: {{ wal: {{ path: {data}/live }}, shutdown_marker_dir: {data}/marker }}
block_builder: {{ wal: {{ path: {data}/builder }} }}
backend_scheduler: {{ local_work_path: {data}/work }}
memberlist: {{ bind_addr: [127.0.0.1], bind_port: {memberlist} }}
usage_report: {{ reporting_enabled: false }}
"
    )
}
