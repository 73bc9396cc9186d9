//! Tasks of the page for browsers, which Node builds: its checks, and a server with hot reload.

use std::{path::Path, process::Command};

use anyhow::{Result, bail};

use crate::{
    peers::chromium,
    process,
    workspace::{self, Profile, cargo},
};

/// The folder of its sources.
const FOLDER: &str = "crates/qualitytrace-page/page";

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

/// Makes the pictures of docs/images with the demo shop; with `QUALITYTRACE_SCREENSHOTS`, those of every screen in both
/// themes in that folder.
pub(crate) fn screenshots() -> Result<()> {
    build()?;
    let program = workspace::build_programs(Profile::Debug)?.join("qualitytrace");
    process::run(&mut playwright("tests/screenshots.config.ts", &program)?)
}

/// Playwright with a configuration of the page, the system's Chromium, and our own program.
pub(crate) fn playwright(config: &str, program: &Path) -> Result<Command> {
    let mut command = Command::new("npx");
    command.args(["--no-install", "playwright", "test", "--config", config]);
    command.current_dir(workspace::root().join(FOLDER));
    command.env("QUALITYTRACE_TEST_CHROMIUM", chromium::install()?).env("QUALITYTRACE_PROGRAM", program);
    Ok(command)
}

/// Builds the page, which installs its packages; fails if that is not possible.
pub(crate) fn build() -> Result<()> {
    process::require("node", "install Node 20.19 or newer")?;
    process::require("npm", "install npm, which comes with Node")?;
    process::run(&mut cargo(["build", "--package", "qualitytrace-page"]))?;
    if !workspace::root().join(FOLDER).join("dist/index.html").is_file() {
        bail!("the page is not built: `touch crates/qualitytrace-page/build.rs`, then cargo build says why");
    }
    Ok(())
}

fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(workspace::root().join(FOLDER));
    command
}
