//! Prometheus' own parsers, of metrics, rules and expressions, and the linter of `promtool check metrics`. Promtool itself
//! has them, but takes many minutes to build.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

use super::{folder_of, go, once};
use crate::process;

/// The versions of Prometheus and of the library with the linter.
const VERSION: &str = "v0.315.0";
const CLIENT: &str = "v1.24.1";
/// To be raised with changes of the program, so that an older build is not used.
const RECIPE: u32 = 2;

const PROGRAM: &str = include_str!("promlint.go");

/// Builds the program unless it is there already.
pub(crate) fn install() -> Result<PathBuf> {
    let place = format!("promlint-{VERSION}-{RECIPE}/promlint");
    once(&place, &format!("building Prometheus' linter {VERSION} (half a minute)"), |new| {
        let dir = folder_of(new);
        let module = format!(
            "module promlint\n\ngo 1.25\n\nrequire (\n\tgithub.com/prometheus/client_golang {CLIENT}\n\tgithub.com/prometheus/prometheus {VERSION}\n)\n"
        );
        fs::write(dir.join("go.mod"), module).context("failed to write go.mod")?;
        fs::write(dir.join("main.go"), PROGRAM).context("failed to write main.go")?;
        let flags = ["build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-o"];
        process::run(go(dir)?.args(flags).arg(new).arg("."))
    })
}
