//! ClickHouse: a data store of tests. Its engine is that of the server, as a Python library; a small program of ours serves
//! it over HTTP.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{
    once,
    running::{Running, addresses},
};
use crate::process;

/// The version of the library, which has the engine of the server of the same version.
const VERSION: &str = "26.9.0";
/// Serves the engine.
const PROGRAM: &str = include_str!("clickhouse.py");
/// Start timeout.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// Fetches the library with pip unless it is there already; returns its folder.
pub(crate) fn install() -> Result<PathBuf> {
    once(&format!("clickhouse-{VERSION}"), &format!("fetching ClickHouse {VERSION}"), |new| {
        process::require("python3", "install Python 3.10 with pip, or leave the peers out with --no-peers")?;
        fetch(new).context("https://pypi.org has to be reachable once")
    })
}

fn fetch(new: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    // Without what only its tables for Python need. As root it would warn about the system's packages.
    pip.args(["--no-deps", "--root-user-action", "ignore", "--only-binary", ":all:"]);
    process::run(pip.arg(format!("chdb-core=={VERSION}")).arg("--target").arg(new))
}

/// A running ClickHouse. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct ClickHouse {
    pub(crate) url: String,
    _running: Running,
}

/// Starts ClickHouse on a free loopback port, and waits until it is ready.
pub(crate) fn start() -> Result<ClickHouse> {
    let library = install()?;
    let [address]: [SocketAddr; 1] = addresses();
    let mut running = Running::start("ClickHouse", "clickhouse", |folder| {
        let program = folder.join("clickhouse.py");
        fs::write(&program, PROGRAM).context("failed to write the program of ClickHouse")?;
        let mut command = process::bound_to_us("KILL", "python3");
        command.arg(program).arg(folder.join("data")).arg(address.port().to_string());
        command.env("PYTHONPATH", library);
        Ok(command)
    })?;
    running.wait(&[address], READY_LIMIT)?;
    Ok(ClickHouse { url: format!("http://{address}"), _running: running })
}
