//! Zipkin: a data store of tests. In benchmarks, its page stands beside ours.

use std::{fs, net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, Result};

use super::{
    cache, lock, maven,
    running::{Running, addresses},
};
use crate::process;

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
    maven::require()?;
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
    running: Running,
}

/// Starts Zipkin on a free loopback port; it takes some seconds until it is [ready](Zipkin::wait).
pub(crate) fn start() -> Result<Zipkin> {
    let jar = install()?;
    let [address] = addresses();
    let running = Running::start("Zipkin", "zipkin", |_| {
        let mut command = process::bound_to_us("KILL", "java");
        command.args(["-Xmx1g", "-jar"]).arg(jar).arg("--armeria.ports[0].ip=127.0.0.1");
        command.arg(format!("--armeria.ports[0].port={}", address.port()));
        command.arg("--armeria.ports[0].protocols[0]=http");
        Ok(command)
    })?;
    Ok(Zipkin { url: format!("http://{address}"), address, running })
}

impl Zipkin {
    /// Waits until Zipkin accepts connections.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.running.wait(&[self.address], READY_LIMIT)
    }
}
