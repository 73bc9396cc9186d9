//! Conformance case files: inputs with Tracetest's answers, compared with this implementation.
//!
//! A case says what Tracetest answered (`upstream`), whether that is right (`sane`), and, if not, what is
//! (`sane_expect`). `judged` narrows the comparison to one aspect.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

#[path = "analyzer.rs"]
mod analyzer;
#[path = "definitions.rs"]
mod definitions;
#[path = "expected.rs"]
pub(crate) mod expected;
#[path = "language.rs"]
mod language;
#[path = "traces.rs"]
mod traces;

/// Cases whose expectations contradict others, and are not compared; see `docs/compatibility.md`.
pub(crate) const DECIDED_OTHERWISE: [(&str, &str); 3] = [
    ("comparators-034", "`\\\\` is one backslash, as expressions-130 wants it"),
    (
        "definitions-007",
        "`5` is read as text, but it is neither a selector nor an assertion, which definitions-005 wants refused",
    ),
    ("traces-108", "the kind of a span is written in one way, as traces-116 wants it"),
];

/// Returns the project's own copy of the cases.
pub(crate) fn own_cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// The results of a folder.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// One item for each file, by name.
    pub(crate) files: BTreeMap<String, Counts>,
}

/// The results of a file.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The number of cases that passed.
    pub(crate) passed: usize,
    /// The id of each failed case, with the expected and the actual answer.
    pub(crate) failed: Vec<(String, String)>,
    /// Cases that contradict others, with the reason for the decision.
    pub(crate) decided: Vec<(&'static str, &'static str)>,
}

impl Summary {
    /// Whether no case failed.
    pub(crate) fn is_good(&self) -> bool {
        self.files.values().all(|counts| counts.failed.is_empty())
    }

    /// Formats the counts per file and each failure.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        for (file, counts) in &self.files {
            for (id, trouble) in &counts.failed {
                let _ = writeln!(out, "{file}: {id} failed\n{}\n", indented(trouble));
            }
        }
        let _ = writeln!(out, "{:24} {:>7} {:>7} {:>13}", "file", "passed", "failed", "not compared");
        let (mut passed, mut failed, mut decided) = (0, 0, 0);
        for (file, counts) in &self.files {
            let _ = writeln!(
                out,
                "{file:24} {:>7} {:>7} {:>13}",
                counts.passed,
                counts.failed.len(),
                counts.decided.len()
            );
            decided += counts.decided.len();
            passed += counts.passed;
            failed += counts.failed.len();
        }
        let _ = writeln!(out, "{:24} {passed:>7} {failed:>7} {decided:>13}", "all");
        for (id, reason) in self.files.values().flat_map(|counts| &counts.decided) {
            let _ = writeln!(out, "not compared: {id}: {reason}");
        }
        out
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

/// Runs every case file of a folder.
pub(crate) fn run(folder: &Path) -> Result<Summary, String> {
    let mut summary = Summary::default();
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("cannot read {}: {error}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            summary.files.insert(name, run_file(&path)?);
        }
    }
    if summary.files.is_empty() {
        return Err(format!("{} holds no case files (*.json)", folder.display()));
    }
    Ok(summary)
}

fn run_file(path: &Path) -> Result<Counts, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let cases: Vec<Value> = serde_json::from_str(&text)
        .map_err(|error| format!("{} is not a list of cases: {error}", path.display()))?;
    let mut counts = Counts::default();
    for case in &cases {
        let kind = case["input"]["kind"].as_str().unwrap_or_default();
        if let Some(decision) = DECIDED_OTHERWISE.iter().find(|(id, _)| case["id"] == *id) {
            counts.decided.push(*decision);
            continue;
        }
        match check(kind, case) {
            Ok(()) => counts.passed += 1,
            Err(trouble) => {
                let id = case["id"].as_str().unwrap_or("(no id)").to_owned();
                counts.failed.push((id, trouble));
            }
        }
    }
    Ok(counts)
}

/// Checks one case. A case of an unknown kind fails, so that none is skipped by a spelling mistake.
fn check(kind: &str, case: &Value) -> Result<(), String> {
    match kind {
        "yaml" | "json" => definitions::check(case),
        "rule" | "plugin_score" | "run_gates" | "config_validate" => analyzer::check(case),
        "otlp_poll" | "otlp_server" | "augment_root" | "stored_json" | "jaeger" | "tempo_http"
        | "opensearch" | "elastic" | "signalfx" => traces::check(case),
        kind if language::KINDS.contains(&kind) => language::check(case),
        _ => Err(format!("the kind `{kind}` is unknown")),
    }
}
