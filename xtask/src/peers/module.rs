//! Peers that are programs of a Go module, built once in a copy of the module: `go install` refuses one whose go.mod
//! replaces others.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{folder_of, go, once};
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
        let place = format!("{name}-{version}/{name}");
        once(&place, &format!("building {name} {version} (some minutes)"), |new| self.build(new))
    }

    fn build(&self, new: &Path) -> Result<()> {
        let Self { name, module, version, tags } = self;
        let dir = folder_of(new);
        let download = ["mod", "download", "-json", &format!("{module}@{version}")];
        let told: Value = serde_json::from_str(&process::output(go(dir)?.args(download))?)
            .context("go mod download wrote something that is not JSON")?;
        let module = told["Dir"].as_str().context("go mod download names no folder")?;
        let source = dir.join("source");
        // Leftovers of an earlier attempt are removed.
        let _ = fs::remove_dir_all(&source);
        // The files of the module cache are read-only, and the build completes go.mod.
        process::run(Command::new("cp").args(["-r", "--no-preserve=mode", module]).arg(&source))?;
        let mut build = go(&source)?;
        build.args(["build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-tags", tags, "-o"]);
        process::run(build.arg(new).arg(format!("./cmd/{name}")))?;
        fs::remove_dir_all(&source).context("failed to remove the copy of the module")
    }
}
