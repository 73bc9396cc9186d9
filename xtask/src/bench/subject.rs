//! The systems under test: each started anew on its own core, on free ports, in a temporary folder.

use std::{
    fmt::{self, Write as _},
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use qualitytrace_testing::port;
use serde_json::Value;

use super::Options;
use crate::{
    peers::otelcol,
    process::{self, Guard, accepts, says_ready},
    temporary::Folder,
    workspace::{self, Profile},
};

/// The core of the system under test.
const SUBJECT_CORE: &str = "1";
/// The core of the load generator.
const GENERATOR_CORE: &str = "0";
/// Start timeout of a system.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// Seconds of load before each measurement.
const WARM_SECONDS: &str = "2";

/// A system that receives spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The OpenTelemetry Collector, which drops the spans: the least work that an honest response needs.
    Collector,
    /// This server, storing spans in memory.
    OursInMemory,
    /// This server, storing spans in a SQLite file.
    OursInFile,
}

impl Subject {
    pub(crate) const ALL: [Self; 3] = [Self::Collector, Self::OursInMemory, Self::OursInFile];
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Collector => "Collector, nop exporter",
            Self::OursInMemory => "qualitytrace, memory",
            Self::OursInFile => "qualitytrace, SQLite file",
        })
    }
}

/// The programs that benchmarks start.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) collector: PathBuf,
    pub(crate) ours: PathBuf,
    loadgen: PathBuf,
}

impl Programs {
    /// Builds or installs all of them.
    pub(crate) fn get() -> Result<Self> {
        process::require("taskset", "install the package `util-linux`")?;
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            bail!("a benchmark needs two cores: one for the system under test, one for the load generator");
        }
        println!("building the release programs");
        let release = workspace::build_programs(Profile::Release)?;
        Ok(Self {
            collector: otelcol::install()?,
            ours: release.join("qualitytrace"),
            loadgen: release.join("loadgen"),
        })
    }

    /// Runs load on a system and returns the counts of the generator.
    pub(crate) fn load(&self, on: &Running, options: &Options, load: &Load) -> Result<Value> {
        let addr = if load.http { on.http } else { on.grpc };
        let mut command = Command::new("taskset");
        command.args(["-c", GENERATOR_CORE]).arg(&self.loadgen).arg(addr.to_string());
        command.args(["--pid", &on.pid().to_string(), "--warm", WARM_SECONDS]);
        command.args(["--seconds", &options.seconds.to_string()]);
        for (flag, wanted) in [("--http", load.http), ("--gzip", load.gzip)] {
            command.args(wanted.then_some(flag));
        }
        if let Some(rate) = load.rate {
            // Enough senders to keep the rate up while responses are slow, few enough to bound what is in flight.
            command.args(["--rate", &rate.to_string(), "--senders", "128", "--connections", "8"]);
        }
        let text = process::output(&mut command)?;
        serde_json::from_str(&text).context("the load generator wrote something that is not JSON")
    }
}

/// One kind of load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub(crate) http: bool,
    pub(crate) gzip: bool,
    /// Spans due per second, whether or not the system keeps up.
    pub(crate) rate: Option<f64>,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.http { "HTTP" } else { "gRPC" })?;
        if self.gzip { f.write_str(" gzip") } else { Ok(()) }
    }
}

/// A system that is ready. Dropping it ends the process and removes its folder.
#[derive(Debug)]
pub(crate) struct Running {
    grpc: SocketAddr,
    http: SocketAddr,
    /// Time from its start until it was ready.
    pub(crate) ready_in: Duration,
    // Field order is drop order: the process ends before its folder goes.
    process: Guard,
    _folder: Folder,
}

impl Running {
    /// Starts a system and waits until it is ready.
    pub(crate) fn start(programs: &Programs, subject: Subject) -> Result<Self> {
        let folder = Folder::new("bench")?;
        let [grpc, http, main] = [(); 3].map(|()| SocketAddr::from(([127, 0, 0, 1], port())));
        let mut command = process::bound_to_us("KILL", "taskset");
        command.args(["-c", SUBJECT_CORE]);
        match subject {
            Subject::Collector => {
                let config = folder.0.join("collector.yaml");
                fs::write(&config, collector_config(grpc, http))?;
                command.arg(&programs.collector).arg("--config").arg(&config);
            }
            Subject::OursInMemory => ours(&mut command, programs, [grpc, http, main], "sqlite::memory:"),
            Subject::OursInFile => {
                let url = format!("sqlite://{}", folder.0.join("bench.db").display());
                ours(&mut command, programs, [grpc, http, main], &url);
            }
        }
        let log = folder.0.join("log");
        command.stdin(Stdio::null()).stdout(fs::File::create(&log)?).stderr(fs::File::create(&log)?);
        command.current_dir(&folder.0);

        let started = Instant::now();
        let mut process = Guard(command.spawn().with_context(|| format!("failed to start {subject}"))?);
        loop {
            let ready = match subject {
                Subject::Collector => accepts(grpc) && accepts(http),
                Subject::OursInMemory | Subject::OursInFile => {
                    accepts(grpc) && accepts(http) && says_ready(main)
                }
            };
            if ready {
                break;
            }
            if process.0.try_wait()?.is_some() || started.elapsed() > READY_LIMIT {
                let said = fs::read_to_string(&log).unwrap_or_default();
                bail!("{subject} did not become ready: {}", said.trim());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Self { grpc, http, ready_in: started.elapsed(), process, _folder: folder })
    }

    fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Resident memory in MiB.
    pub(crate) fn rss_mib(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the process is gone")?;
        let kib: f64 = line.split_whitespace().next().unwrap_or_default().parse()?;
        Ok(kib / 1024.0)
    }
}

fn ours(command: &mut Command, programs: &Programs, [grpc, http, main]: [SocketAddr; 3], database: &str) {
    command.arg(&programs.ours).arg("serve");
    command.arg("--server.httpPort").arg(main.port().to_string());
    command.arg("--otlp-grpc-addr").arg(grpc.to_string());
    command.arg("--otlp-http-addr").arg(http.to_string());
    command.arg("--database-url").arg(database);
}

fn collector_config(grpc: SocketAddr, http: SocketAddr) -> String {
    let mut text = String::new();
    let protocols = format!("{{ grpc: {{ endpoint: {grpc} }}, http: {{ endpoint: {http} }} }}");
    let _ = writeln!(text, "receivers: {{ otlp: {{ protocols: {protocols} }} }}");
    text.push_str("exporters: { nop: {} }\nservice:\n");
    text.push_str("  telemetry: { metrics: { level: none }, logs: { level: warn } }\n");
    text.push_str("  pipelines: { traces: { receivers: [otlp], exporters: [nop] } }\n");
    text
}
