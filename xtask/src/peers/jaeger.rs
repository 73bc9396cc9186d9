//! Jaeger: a data store of tests; in benchmarks, a trace in its memory stands beside ours.

use std::{
    env, fs,
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use qualitytrace_testing::port;

use super::module::Program;
use crate::process::{self, Guard};

const JAEGER: Program = Program {
    name: "jaeger",
    module: "github.com/jaegertracing/jaeger",
    // The version of the module; the program of this version is Jaeger 2.13.
    version: "v1.76.0",
    tags: "",
};
/// Start timeout.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// Builds Jaeger unless it is there already.
pub(crate) fn install() -> Result<PathBuf> {
    JAEGER.install()
}

/// A running Jaeger that keeps traces in memory. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Jaeger {
    /// The address of its query service over gRPC.
    pub(crate) grpc: SocketAddr,
    /// The URL of its query API.
    pub(crate) query: String,
    /// The URL of its OTLP over HTTP.
    pub(crate) otlp: String,
    _process: Guard,
}

/// Starts Jaeger on free loopback ports and waits until it is ready.
pub(crate) fn start() -> Result<Jaeger> {
    let program = install()?;
    let [grpc, query, otlp] = [(); 3].map(|()| SocketAddr::from(([127, 0, 0, 1], port())));
    let base = env::temp_dir().join(format!("qualitytrace-jaeger-{}", std::process::id()));
    let [settings, log] = ["yaml", "log"].map(|ending| base.with_extension(ending));
    fs::write(&settings, configuration(grpc, query, otlp))
        .context("failed to write Jaeger's configuration")?;
    let mut command = process::bound_to_us("KILL", &program);
    command.arg("--config").arg(&settings).stdin(Stdio::null()).stdout(Stdio::null());
    let mut server =
        Guard(command.stderr(fs::File::create(&log)?).spawn().context("failed to start Jaeger")?);
    let started = Instant::now();
    let outcome = loop {
        if [grpc, query, otlp].iter().all(|address| TcpStream::connect(address).is_ok()) {
            break Ok(());
        }
        if server.0.try_wait()?.is_some() || started.elapsed() > READY_LIMIT {
            break Err(fs::read_to_string(&log).unwrap_or_default());
        }
        thread::sleep(Duration::from_millis(20));
    };
    for file in [&settings, &log] {
        // Nothing reads them later.
        let _ = fs::remove_file(file);
    }
    if let Err(said) = outcome {
        bail!("Jaeger did not become ready: {}", said.trim());
    }
    Ok(Jaeger { grpc, query: format!("http://{query}"), otlp: format!("http://{otlp}"), _process: server })
}

/// Without a batch processor, so that a span can be read as soon as it is acknowledged, and without spans of its own.
fn configuration(grpc: SocketAddr, query: SocketAddr, otlp: SocketAddr) -> String {
    format!(
        "\
extensions:
  jaeger_query:
    enable_tracing: false
    storage: {{ traces: memory }}
    grpc: {{ endpoint: {grpc} }}
    http: {{ endpoint: {query} }}
  jaeger_storage: {{ backends: {{ memory: {{ memory: {{ max_traces: 100000 }} }} }} }}
receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: {otlp} }} }} }} }}
exporters: {{ jaeger_storage_exporter: {{ trace_storage: memory }} }}
service:
  extensions: [jaeger_storage, jaeger_query]
  telemetry: {{ metrics: {{ level: none }}, logs: {{ level: warn }} }}
  pipelines: {{ traces: {{ receivers: [otlp], exporters: [jaeger_storage_exporter] }} }}
"
    )
}
