//! Paths of this workspace, and commands for its own programs.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process;

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// The folder that cargo builds into.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The cargo that started this process, in the workspace's folder.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // `cargo run` sets variables about the package xtask. Passed on, they would make other build scripts run again.
    for (name, _) in env::vars_os() {
        let about_us = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if name.to_str().is_some_and(|name| about_us.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
    // A clean machine builds once: what would speed up its next build takes more room than the build itself.
    if env::var_os("CI").is_some() && env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// How our programs are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

/// Builds our programs and examples, and returns their folder.
pub(crate) fn build_programs(profile: Profile) -> Result<PathBuf> {
    build_programs_of(&root(), &target(), profile)
}

/// Builds the programs and examples of a copy of this workspace.
///
/// Always all of them: the packages that a command names decide on the features of nearly every crate, so another
/// choice would build these anew.
pub(crate) fn build_programs_of(source: &Path, target: &Path, profile: Profile) -> Result<PathBuf> {
    let mut command =
        cargo(["build", "--workspace", "--bin", "qualitytrace", "--bin", "loadgen", "--examples"]);
    command.current_dir(source).env("CARGO_TARGET_DIR", target);
    let folder = match profile {
        Profile::Debug => "debug",
        Profile::Release => {
            command.arg("--release");
            "release"
        }
    };
    process::run(&mut command)?;
    Ok(target.join(folder))
}

/// An example program of one of our crates, built.
pub(crate) fn example(name: &str, profile: Profile) -> Result<Command> {
    let mut command = Command::new(build_programs(profile)?.join("examples").join(name));
    command.current_dir(root());
    Ok(command)
}

/// The platform that cargo runs on.
pub(crate) fn host() -> Result<String> {
    let about = process::output(&mut cargo(["--version", "--verbose"]))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("cargo names no host")?;
    Ok(host.to_owned())
}

/// What cargo knows about the packages of this platform. Without a platform it would fetch those of all others, too.
pub(crate) fn metadata() -> Result<Value> {
    let ask = ["metadata", "--format-version=1", "--locked", "--filter-platform", &host()?];
    serde_json::from_str(&process::output(&mut cargo(ask))?).context("cargo metadata is not JSON")
}
