//! strace: durability tests read from its log what a program synced, and what a power cut would leave.

use std::{path::PathBuf, process::Stdio};

use anyhow::{Context as _, Result, bail};

use super::apt;
use crate::process;

/// Returns the program, after installing the system's package if needed.
pub(crate) fn install() -> Result<PathBuf> {
    if let Some(strace) = process::find("strace") {
        return Ok(strace);
    }
    let by_hand = "install the package `strace`, or leave the peers out with --no-peers";
    if !process::is_root() || process::find("apt-get").is_none() {
        bail!("strace is not installed: {by_hand}");
    }
    println!("    installing the package `strace` with apt-get");
    // A failed update is no reason to stop: the existing lists may be good enough.
    let _ = process::run(apt().args(["update", "-qq"]));
    process::run(apt().args(["install", "-qq", "--no-install-recommends", "strace"]).stdout(Stdio::null()))?;
    process::find("strace").with_context(|| format!("apt-get installed no strace: {by_hand}"))
}
