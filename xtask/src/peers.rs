//! Real peers for tests: other programs, installed once per user and shared by every clone.
//!
//! The cache is `$QUALITYTRACE_PEERS`, else `qualitytrace/peers` in the user's cache folder.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::process;

pub(crate) mod chromium;
pub(crate) mod clickhouse;
pub(crate) mod jaeger;
pub(crate) mod kafka;
mod maven;
mod module;
pub(crate) mod opensearch;
pub(crate) mod otelcol;
pub(crate) mod postgres;
pub(crate) mod prometheus;
pub(crate) mod promlint;
mod running;
pub(crate) mod strace;
pub(crate) mod systems;
pub(crate) mod tempo;
pub(crate) mod zipkin;

/// The peers that tests need.
const NAMES: [&str; 13] = [
    "chromium",
    "clickhouse",
    "jaeger",
    "kafka",
    "opensearch",
    "otelcol",
    "postgres",
    "prometheus",
    "promlint",
    "strace",
    "systems",
    "tempo",
    "zipkin",
];

/// Installs the named peers (all when none is named) and prints where each one is.
pub(crate) fn install(names: &[&str]) -> Result<()> {
    let names = if names.is_empty() { &NAMES } else { names };
    for name in names {
        let place = match *name {
            "chromium" => chromium::install()?,
            "clickhouse" => clickhouse::install()?,
            "jaeger" => jaeger::install()?,
            "kafka" => kafka::install()?,
            "opensearch" => opensearch::install()?,
            "otelcol" => otelcol::install()?,
            "postgres" => postgres::install()?,
            "prometheus" => prometheus::install()?,
            "promlint" => promlint::install()?,
            "strace" => strace::install()?,
            "systems" => systems::install()?,
            "tempo" => tempo::install()?,
            "zipkin" => zipkin::install()?,
            other => {
                bail!("`{other}` is not a peer of this project; there are: {}", NAMES.join(", "))
            }
        };
        println!("{name} {}", place.display());
    }
    Ok(())
}

/// Installs a package of the system with apt-get, as root where there is one. `by_hand` is the next step elsewhere.
fn install_package(package: &str, by_hand: &str) -> Result<()> {
    if !process::is_root() || process::find("apt-get").is_none() {
        bail!("`{package}` is not installed: {by_hand}");
    }
    println!("    installing the package `{package}` with apt-get");
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.arg("-y").env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        apt
    };
    // A failed update is no reason to stop: the existing lists may be good enough.
    let _ = process::run(apt().args(["update", "-qq"]));
    process::run(apt().args(["install", "-qq", "--no-install-recommends", package]).stdout(Stdio::null()))
        .with_context(|| by_hand.to_owned())
}

/// Go's tool, independent of the machine's settings.
fn go(dir: &Path) -> Result<Command> {
    let by_hand = "install Go 1.25 or newer, or leave the peers out with --no-peers";
    let mut go = Command::new(process::require("go", by_hand)?);
    go.current_dir(dir);
    let fixed =
        [("GOFLAGS", "-buildvcs=false"), ("GOWORK", "off"), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0")];
    go.envs(fixed);
    Ok(go)
}

/// The folder that holds installed peers.
fn cache() -> Result<PathBuf> {
    let chosen = env::var_os("QUALITYTRACE_PEERS").map(PathBuf::from);
    let dir = chosen
        .or_else(|| env::var_os("XDG_CACHE_HOME").map(|dir| PathBuf::from(dir).join("qualitytrace/peers")))
        .or_else(|| env::home_dir().map(|home| home.join(".cache/qualitytrace/peers")))
        .context("no home folder to keep peers in: set QUALITYTRACE_PEERS to a folder")?;
    fs::create_dir_all(&dir).with_context(|| format!("failed to make the folder {}", dir.display()))?;
    dir.canonicalize().with_context(|| format!("failed to resolve {}", dir.display()))
}

/// Returns a file or folder of the cache, which `make` makes if it is not there. A second clone that needs it waits.
///
/// What is made has another name until it is complete, so that a partial build or download is not used.
fn once(place: &str, doing: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let place = cache()?.join(place);
    if place.exists() {
        return Ok(place);
    }
    let folder = place.parent().context("a peer has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("failed to make the folder {}", folder.display()))?;
    let lock = place.with_added_extension("lock");
    let locked = File::create(&lock).and_then(|file| file.lock().map(|()| file));
    let _locked = locked.with_context(|| format!("failed to lock {}", lock.display()))?;
    if place.exists() {
        return Ok(place);
    }
    println!("    {doing} to {} (once)", place.display());
    let new = place.with_added_extension("new");
    // Leftovers of an earlier attempt, if any.
    let _ = if new.is_dir() { fs::remove_dir_all(&new) } else { fs::remove_file(&new) };
    make(&new).with_context(|| format!("{doing} failed"))?;
    fs::rename(&new, &place).with_context(|| format!("failed to move it to {}", place.display()))?;
    Ok(place)
}

/// The folder of what is made.
fn folder_of(new: &Path) -> &Path {
    new.parent().unwrap_or(new)
}
