//! Prometheus' own parsers, of metrics, rules and expressions, and the linter of `promtool check metrics`. Promtool itself
//! has them, but takes many minutes to build.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

use super::{cache, go, lock};
use crate::process;

/// The versions of Prometheus and of the library with the linter.
const VERSION: &str = "v0.315.0";
const CLIENT: &str = "v1.24.1";
/// To be raised with changes of the program, so that an older build is not used.
const RECIPE: u32 = 2;

const PROGRAM: &str = include_str!("promlint.go");

/// Builds the program unless it is there already.
pub(crate) fn install() -> Result<PathBuf> {
    let dir = cache()?.join(format!("promlint-{VERSION}-{RECIPE}"));
    let binary = dir.join("promlint");
    if binary.is_file() {
        return Ok(binary);
    }
    let _lock = lock("promlint")?;
    if binary.is_file() {
        return Ok(binary);
    }
    process::require("go", "install Go 1.25 or newer, or leave the peers out with --no-peers")?;
    println!("    building Prometheus' linter {VERSION} in {} (half a minute, once)", dir.display());
    fs::create_dir_all(&dir).with_context(|| format!("failed to make the folder {}", dir.display()))?;
    let module = format!(
        "module promlint\n\ngo 1.25\n\nrequire (\n\tgithub.com/prometheus/client_golang {CLIENT}\n\tgithub.com/prometheus/prometheus {VERSION}\n)\n"
    );
    fs::write(dir.join("go.mod"), module).context("failed to write go.mod")?;
    fs::write(dir.join("main.go"), PROGRAM).context("failed to write main.go")?;
    let flags = ["build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-o", "promlint.new", "."];
    process::run(go(&dir).args(flags)).context("failed to build Prometheus' linter")?;
    // Renamed last, so that a partial build is not used.
    fs::rename(dir.join("promlint.new"), &binary)
        .with_context(|| format!("failed to move the linter to {}", binary.display()))?;
    Ok(binary)
}
