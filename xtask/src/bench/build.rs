//! Benchmark: a release build from nothing.
//!
//! Processor time is compared rather than the time on the clock: it depends little on what else the machine does.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Options;
use super::record::Record;
use crate::{process, workspace};

/// What one build took.
struct Built {
    processor_seconds: f64,
    seconds: f64,
    /// Compiled units: a crate that is built for the host and for the target counts twice.
    units: usize,
    crates: usize,
}

pub(super) fn run(options: &Options) -> Result<Record> {
    let scratch = workspace::target().join("bench/build");
    let _ = fs::remove_dir_all(&scratch);
    let mut built = Vec::new();
    if let Some(revision) = &options.against {
        let tree = scratch.join("tree");
        let worktree = |args: &[&str]| {
            let mut git = Command::new("git");
            process::run(git.arg("worktree").args(args).current_dir(workspace::root()))
        };
        let path = tree.to_str().context("the path of the target folder is not UTF-8")?;
        worktree(&["add", "--detach", path, revision])?;
        let outcome = build(&tree, &scratch.join("against"));
        worktree(&["remove", "--force", path])?;
        built.push((revision.clone(), outcome?));
    }
    built.push(("this tree".to_owned(), build(&workspace::root(), &scratch.join("this"))?));
    fs::remove_dir_all(&scratch).context("failed to remove the folder of the builds")?;
    let first = built[0].1.processor_seconds;
    let row = |(name, built): &(String, Built)| {
        vec![
            name.clone(),
            format!("{:.0}", built.processor_seconds),
            format!("{:.2}", built.processor_seconds / first),
            format!("{:.0}", built.seconds),
            built.units.to_string(),
            built.crates.to_string(),
        ]
    };
    let raw = |(name, built): &(String, Built)| {
        json!({
            "revision": name, "processor_s": built.processor_seconds, "s": built.seconds, "units": built.units,
            "crates": built.crates,
        })
    };
    let header = ["revision", "processor s", "of the first", "s on the clock", "units", "crates"];
    Ok(Record {
        name: "build",
        header: header.map(str::to_owned).to_vec(),
        rows: built.iter().map(row).collect(),
        notes: vec![
            "`cargo build --release --package qualitytrace` into an empty folder; the sources of the crates are downloaded \
             before. Processor time of all compilers, assemblers and linkers."
                .to_owned(),
        ],
        raw: built.iter().map(raw).collect(),
    })
}

fn build(tree: &Path, target: &Path) -> Result<Built> {
    process::run(workspace::cargo(["fetch", "--locked"]).current_dir(tree))?;
    let mut command = workspace::cargo(["build", "--release", "--locked", "--package", "qualitytrace"]);
    command.args(["--message-format", "json"]).current_dir(tree).env("CARGO_TARGET_DIR", target);
    let (start, before) = (Instant::now(), children_seconds()?);
    let output = process::output(command.stderr(Stdio::inherit()))?;
    let (seconds, processor_seconds) = (start.elapsed().as_secs_f64(), children_seconds()? - before);
    let artifacts: Vec<Value> = output
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|message: &Value| message["reason"] == "compiler-artifact")
        .collect();
    let crates: BTreeSet<&str> =
        artifacts.iter().filter_map(|artifact| artifact["package_id"].as_str()).collect();
    Ok(Built { processor_seconds, seconds, units: artifacts.len(), crates: crates.len() })
}

/// The processor time of all children that have ended, in seconds.
fn children_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("failed to read /proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    // Fields 16 and 17 of proc_pid_stat(5), of which the first two are cut off.
    let ticks = ticks(13).zip(ticks(14)).map(|(user, system)| user + system);
    let per_second: f64 = process::output(Command::new("getconf").arg("CLK_TCK"))?.trim().parse()?;
    Ok(ticks.context("/proc/self/stat has too few fields")? / per_second)
}
