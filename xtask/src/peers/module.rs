//! Peers that are programs of a Go module, built once in a copy of the module: `go install` refuses one whose go.mod
//! replaces others.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{cache, go, lock};
use crate::process;

/// A program of a module.
pub(super) struct Program {
    /// The name of the program, which is a folder of `cmd` in the module.
    pub(super) name: &'static str,
    pub(super) module: &'static str,
    pub(super) version: &'static str,
    /// Build tags: what is left out, so that the build takes minutes and not a quarter of an hour.
    pub(super) tags: &'static str,
}

impl Program {
    /// Builds the program unless it is there already.
    pub(super) fn install(&self) -> Result<PathBuf> {
        let Self { name, version, .. } = self;
        let dir = cache()?.join(format!("{name}-{version}"));
        let binary = dir.join(name);
        if binary.is_file() {
            return Ok(binary);
        }
        let _lock = lock(name)?;
        if binary.is_file() {
            return Ok(binary);
        }
        process::require("go", "install Go 1.25 or newer, or leave the peers out with --no-peers")?;
        println!("    building {name} {version} in {} (some minutes, once)", dir.display());
        fs::create_dir_all(&dir).with_context(|| format!("failed to make the folder {}", dir.display()))?;
        let built = self.build(&dir).with_context(|| format!("failed to build {name}"))?;
        // Renamed last, so that a partial build is not used.
        fs::rename(built, &binary)
            .with_context(|| format!("failed to move {name} to {}", binary.display()))?;
        Ok(binary)
    }

    fn build(&self, dir: &Path) -> Result<PathBuf> {
        let Self { name, module, version, tags } = self;
        let download = ["mod", "download", "-json", &format!("{module}@{version}")];
        let told: Value = serde_json::from_str(&process::output(go(dir).args(download))?)
            .context("go mod download wrote something that is not JSON")?;
        let module = told["Dir"].as_str().context("go mod download names no folder")?;
        let source = dir.join("source");
        // Leftovers of an earlier attempt are removed.
        let _ = fs::remove_dir_all(&source);
        // The files of the module cache are read-only, and the build completes go.mod.
        process::run(Command::new("cp").args(["-r", "--no-preserve=mode", module]).arg(&source))?;
        let built = dir.join(format!("{name}.new"));
        let mut build = go(&source);
        build.args(["build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-tags", tags, "-o"]);
        process::run(build.arg(&built).arg(format!("./cmd/{name}")))?;
        fs::remove_dir_all(&source).context("failed to remove the copy of the module")?;
        Ok(built)
    }
}
