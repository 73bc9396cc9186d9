//! strace: durability tests read from its log what a program synced, and what a power cut would leave.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::install_package;
use crate::process;

/// Returns the program, after installing the system's package if needed.
pub(crate) fn install() -> Result<PathBuf> {
    if let Some(strace) = process::find("strace") {
        return Ok(strace);
    }
    let by_hand = "install the package `strace`, or leave the peers out with --no-peers";
    install_package("strace", by_hand)?;
    process::find("strace").with_context(|| format!("apt-get installed no strace: {by_hand}"))
}
