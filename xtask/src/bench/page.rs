//! The page for browsers: a release server and a real Chromium, beside Zipkin's own page.

use anyhow::{Context as _, Result};

use super::Options;
use super::lines;
use super::record::Record;
use crate::peers::zipkin;
use crate::workspace::Profile;
use crate::{page, process, workspace};

/// Runs the measurements of `page/tests/bench.ts`, which writes one JSON object a line.
pub(super) fn run(options: &Options) -> Result<Record> {
    page::build()?;
    let program = workspace::build_programs(Profile::Release)?.join("qualitytrace");
    let mut zipkin = zipkin::start()?;
    zipkin.wait()?;
    let folder = workspace::target().join("bench");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;
    let results = folder.join("page.jsonl");
    // Results of an earlier run.
    let _ = std::fs::remove_file(&results);
    let mut command = page::playwright("tests/bench.config.ts", &program)?;
    command.env("QUALITYTRACE_BENCH", &results).env("QUALITYTRACE_ZIPKIN", &zipkin.url);
    process::run(command.env("QUALITYTRACE_ROUNDS", options.rounds.to_string()))?;
    let text = std::fs::read_to_string(&results).context("the page was not measured")?;
    lines::record("page", &text)
}
