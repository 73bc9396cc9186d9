//! Zipkin: its own page stands beside ours in benchmarks. Tests do not need it.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use qualitytrace_testing::port;

use super::{cache, lock};
use crate::process::{self, Guard};

const VERSION: &str = "3.6.1";
/// Start timeout.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// Fetches the jar of its server, with its page, from Maven Central unless it is there already.
pub(crate) fn install() -> Result<PathBuf> {
    let dir = cache()?.join(format!("zipkin-{VERSION}"));
    let jar = dir.join("zipkin.jar");
    if jar.is_file() {
        return Ok(jar);
    }
    let _lock = lock("zipkin")?;
    if jar.is_file() {
        return Ok(jar);
    }
    for program in ["java", "mvn"] {
        process::require(program, "install Java 17 and Maven")?;
    }
    println!("    fetching Zipkin {VERSION} to {} (once)", dir.display());
    fs::create_dir_all(&dir).with_context(|| format!("failed to make the folder {}", dir.display()))?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy"]);
    maven.arg(format!("-Dartifact=io.zipkin:zipkin-server:{VERSION}:jar:slim"));
    maven.arg(format!("-DoutputDirectory={}", dir.display()));
    process::run(&mut maven).context("failed to fetch Zipkin")?;
    // Renamed last, so that a partial download is not used.
    fs::rename(dir.join(format!("zipkin-server-{VERSION}-slim.jar")), &jar)
        .with_context(|| format!("failed to move Zipkin to {}", jar.display()))?;
    Ok(jar)
}

/// A running Zipkin that keeps traces in memory. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Zipkin {
    /// The URL of its page and its API.
    pub(crate) url: String,
    _process: Guard,
}

/// Starts Zipkin on a free loopback port and waits until it is ready.
pub(crate) fn start() -> Result<Zipkin> {
    let jar = install()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port()));
    let mut command = process::bound_to_us("KILL", "java");
    command.args(["-Xmx1g", "-jar"]).arg(jar).arg("--armeria.ports[0].ip=127.0.0.1");
    command.arg(format!("--armeria.ports[0].port={}", address.port()));
    command.arg("--armeria.ports[0].protocols[0]=http");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Guard(command.spawn().context("failed to start Zipkin")?);
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        if server.0.try_wait()?.is_some() || started.elapsed() > READY_LIMIT {
            bail!("Zipkin did not become ready at {address}");
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(Zipkin { url: format!("http://{address}"), _process: server })
}
