//! Zipkin: a back end of the tests of the server's own telemetry; in benchmarks, its own page stands beside ours.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use qualitytrace_testing::port;

use super::{cache, lock};
use crate::process::{self, Guard, accepts};

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
    address: SocketAddr,
    process: Guard,
}

/// Starts Zipkin on a free loopback port; it takes some seconds until it is [ready](Zipkin::wait).
pub(crate) fn start() -> Result<Zipkin> {
    let jar = install()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port()));
    let mut command = process::bound_to_us("KILL", "java");
    command.args(["-Xmx1g", "-jar"]).arg(jar).arg("--armeria.ports[0].ip=127.0.0.1");
    command.arg(format!("--armeria.ports[0].port={}", address.port()));
    command.arg("--armeria.ports[0].protocols[0]=http");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Guard(command.spawn().context("failed to start Zipkin")?);
    Ok(Zipkin { url: format!("http://{address}"), address, process })
}

impl Zipkin {
    /// Waits until it accepts connections.
    pub(crate) fn wait(&mut self) -> Result<()> {
        let asked = Instant::now();
        while !accepts(self.address) {
            if self.process.0.try_wait()?.is_some() || asked.elapsed() > READY_LIMIT {
                bail!("Zipkin did not become ready at {}", self.address);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
