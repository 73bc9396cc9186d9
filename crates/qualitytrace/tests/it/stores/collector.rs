//! A real Collector that receives OTLP over gRPC and sends it on at once.

use std::fmt::Write as _;
use std::process::Stdio;

use qualitytrace_testing::{DEADLINE, eventually, port};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// A running Collector. It is killed on drop.
pub(super) struct Collector {
    /// Where it receives spans over gRPC.
    pub(super) url: String,
    _child: Child,
    _folder: tempfile::TempDir,
}

impl Collector {
    /// Starts a Collector with these exporters, each a line `NAME: { ... }`.
    pub(super) async fn start(program: &str, exporters: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("127.0.0.1:{}", port());
        let names: Vec<&str> =
            exporters.iter().filter_map(|exporter| Some(exporter.split_once(':')?.0)).collect();
        let mut text = format!(
            "receivers: {{ otlp: {{ protocols: {{ grpc: {{ endpoint: '{address}' }} }} }} }}\nexporters:\n"
        );
        for exporter in exporters {
            writeln!(text, "  {exporter}").unwrap();
        }
        write!(
            text,
            "service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  pipelines: {{ traces: {{ receivers: [otlp], exporters: [{}] }} }}\n",
            names.join(", ")
        )
        .unwrap();
        let settings = folder.path().join("collector.yaml");
        std::fs::write(&settings, text).unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new(program);
        command.arg("--config").arg(&settings).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(&log).unwrap()).kill_on_drop(true);
        let child = command.spawn().unwrap();
        eventually(DEADLINE, "the Collector listens", async || {
            let connected = TcpStream::connect(&address).await;
            connected.map_err(|_| std::fs::read_to_string(&log).unwrap_or_default())
        })
        .await;
        Self { url: format!("http://{address}"), _child: child, _folder: folder }
    }
}
