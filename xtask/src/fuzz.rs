//! Fuzzing: every target for a time, with limits on stack (in the target itself), memory and time.
//!
//! Passes the flags that `cargo fuzz` would pass, so that neither it nor a nightly toolchain is needed.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::{process, workspace};

/// Coverage flags for libFuzzer: branches and comparisons.
const COVERAGE: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions=on",
];
/// Limits of memory, time and size for one input.
const LIMITS: [&str; 4] = ["-rss_limit_mb=1024", "-malloc_limit_mb=512", "-timeout=20", "-max_len=4096"];

/// The result of one target.
struct Ran {
    name: String,
    executions: String,
    finding: String,
}

/// Builds and runs these targets, or all of them, for this many seconds each; prints a table.
pub(crate) fn run(seconds: &str, names: &[&str]) -> Result<()> {
    let seconds: u64 =
        seconds.parse().context("say for how many seconds: `cargo xtask fuzz 60 [NAME...]`")?;
    let folder = workspace::root().join("fuzz");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).context("failed to read fuzz/Cargo.toml")?;
    let targets = targets(&manifest);
    if let Some(unknown) = names.iter().find(|name| !targets.iter().any(|(known, _)| known == *name)) {
        let known: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
        bail!("there is no target `{unknown}`; there are {}", known.join(", "));
    }
    let mut table = Vec::new();
    for (name, needs_server) in
        targets.iter().filter(|(name, _)| names.is_empty() || names.contains(&&**name))
    {
        build(&folder, name, *needs_server)?;
        table.push(fuzz(&folder, name, seconds)?);
    }
    println!("{:<18} {:>8} {:>14}  finding", "target", "seconds", "executions");
    for Ran { name, executions, finding } in &table {
        println!("{name:<18} {seconds:>8} {executions:>14}  {finding}");
    }
    if table.iter().any(|ran| ran.finding != "none") {
        bail!("some inputs broke something; they are in fuzz/artifacts");
    }
    Ok(())
}

/// The names of the targets, and whether each needs the server.
fn targets(manifest: &str) -> Vec<(String, bool)> {
    let tables = manifest.split("[[bin]]").skip(1);
    let name = |table: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some((line.trim_matches('"').to_owned(), table.contains("required-features")))
    };
    tables.filter_map(name).collect()
}

fn build(folder: &Path, name: &str, needs_server: bool) -> Result<()> {
    let host = workspace::host()?;
    let mut command = workspace::cargo(["build", "--release", "--bin", name, "--target", &host]);
    command.current_dir(folder).env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\u{1f}"));
    if needs_server {
        command.args(["--features", "server"]);
    }
    process::run(&mut command)
}

fn fuzz(folder: &Path, name: &str, seconds: u64) -> Result<Ran> {
    let corpus = folder.join("corpus").join(name);
    let artifacts = folder.join("artifacts").join(name);
    for made in [&corpus, &artifacts] {
        fs::create_dir_all(made).with_context(|| format!("failed to create {}", made.display()))?;
    }
    let program = folder.join("target").join(workspace::host()?).join("release").join(name);
    let mut command = process::bound_to_us("TERM", program);
    command
        .arg(&corpus)
        .args(LIMITS)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-dict={}", folder.join("language.dict").display()))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-verbosity=1"]);
    let output =
        command.output().with_context(|| format!("failed to start `{}`", process::line(&command)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let stat =
        |key: &str| said.lines().rev().find_map(|line| line.split_once(key)).map(|(_, rest)| rest.trim());
    let executions = stat("stat::number_of_executed_units:").unwrap_or("?").to_owned();
    let finding = match stat("Test unit written to ") {
        Some(file) => file.to_owned(),
        None if output.status.success() => "none".to_owned(),
        None => format!("{}: {}", output.status, said.lines().last().unwrap_or_default()),
    };
    Ok(Ran { name: name.to_owned(), executions, finding })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_limits_of_stack_and_memory() {
        assert!(LIMITS.iter().any(|limit| limit.starts_with("-rss_limit_mb=")));
        let mut count = 0;
        for file in fs::read_dir(workspace::root().join("fuzz/fuzz_targets")).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains("on_a_small_stack(|| {"), "{}", path.display());
            count += 1;
        }
        assert!(count >= 8, "{count} targets");
    }

    #[test]
    fn targets_are_read_off_the_manifest() {
        let manifest =
            "[package]\nname = \"x\"\n[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\nrequired-features = []\n";
        assert_eq!(targets(manifest), [("a".to_owned(), false), ("b".to_owned(), true)]);
    }
}
