//! Zipkin: a data store of tests. In benchmarks, its page stands beside ours.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};

use super::{
    folder_of,
    maven::maven,
    once,
    running::{Running, addresses},
};
use crate::process;

const VERSION: &str = "3.6.1";
/// Start timeout.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// Fetches the jar of its server, with its page, from Maven Central unless it is there already.
pub(crate) fn install() -> Result<PathBuf> {
    once(&format!("zipkin-{VERSION}/zipkin.jar"), &format!("fetching Zipkin {VERSION}"), |new| {
        let dir = folder_of(new);
        let mut maven = maven()?;
        maven.arg("dependency:copy");
        maven.arg(format!("-Dartifact=io.zipkin:zipkin-server:{VERSION}:jar:slim"));
        maven.arg(format!("-DoutputDirectory={}", dir.display()));
        process::run(&mut maven)?;
        fs::rename(dir.join(format!("zipkin-server-{VERSION}-slim.jar")), new)
            .context("Maven fetched no jar of this name")
    })
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
