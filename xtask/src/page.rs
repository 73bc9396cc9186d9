//! Tasks of the page for browsers, which Node builds: its checks, and a server with hot reload.

use std::process::Command;

use anyhow::Result;

use crate::{
    process,
    workspace::{self, cargo},
};

/// Checks formatting, lints and types of the page, and runs its unit tests.
pub(crate) fn check() -> Result<()> {
    build()?;
    process::run(npm(&["run", "--silent", "check"]).env("NO_COLOR", "1"))?;
    process::run(npm(&["test", "--silent"]).env("NO_COLOR", "1"))
}

/// Serves the page with hot reload; requests to the API go to the server that `QUALITYTRACE_SERVER` names.
pub(crate) fn serve() -> Result<()> {
    build()?;
    process::run(&mut npm(&["run", "--silent", "dev"]))
}

/// Builds the page, which installs its packages.
fn build() -> Result<()> {
    process::require("node", "install Node 20.19 or newer")?;
    process::require("npm", "install npm, which comes with Node")?;
    process::run(&mut cargo(["build", "--package", "qualitytrace-page"]))
}

fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(workspace::root().join("crates/qualitytrace-page/page"));
    command
}
