//! Chromium: tests ask a real browser what it lets pages of other origins do with a server.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result};

use super::install_package;
use crate::process;

/// Its names on the PATH, by the systems that package it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Returns the program, after installing the system's package if needed.
pub(crate) fn install() -> Result<PathBuf> {
    if let Some(chromium) = find() {
        return Ok(chromium);
    }
    let by_hand = "install the package `chromium`, or name the program in QUALITYTRACE_CHROMIUM, or leave the \
                   peers out with --no-peers";
    install_package("chromium", by_hand)?;
    find().with_context(|| format!("apt-get installed no Chromium: {by_hand}"))
}

fn find() -> Option<PathBuf> {
    let chosen = env::var_os("QUALITYTRACE_CHROMIUM").map(PathBuf::from).filter(|path| path.is_file());
    chosen.or_else(|| NAMES.iter().find_map(|name| process::find(name)))
}
