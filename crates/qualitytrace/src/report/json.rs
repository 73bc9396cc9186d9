//! The JSON report: one object for the whole run. docs/cli.md describes its fields.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Ending, Outcome, TestReport};

/// The version of this format. A field that is added does not change it.
const VERSION: u32 = 1;

/// Renders the report.
pub(crate) fn document(reports: &[TestReport], took: Duration) -> String {
    let tests: Vec<Value> = reports.iter().map(test).collect();
    let mut summary = Map::new();
    summary.insert("tests".to_owned(), reports.len().into());
    for report in reports {
        let count = summary.entry(report.outcome.word()).or_insert_with(|| 0.into());
        *count = (count.as_u64().unwrap_or(0) + 1).into();
    }
    let document = json!({
        "version": VERSION,
        "tool": { "name": "qualitytrace", "version": env!("CARGO_PKG_VERSION") },
        "durationMs": milliseconds(took),
        "summary": summary,
        "tests": tests,
    });
    format!("{document:#}\n")
}

fn test(report: &TestReport) -> Value {
    let (verdict, reason) = match &report.ending {
        Ending::Judged(verdict) => (json!(verdict), None),
        Ending::Broken(why) => (Value::Null, Some(why.clone())),
        Ending::Skipped(why) => (Value::Null, Some((*why).to_owned())),
    };
    let gates = report.failed_gates.iter().map(|gate| json!({ "gate": gate.name, "message": gate.message }));
    let attempts = report
        .earlier
        .iter()
        .map(|run| json!({ "run": run.run, "traceId": run.trace_id, "outcome": run.outcome.word() }));
    json!({
        "name": report.name,
        "id": report.id,
        "suite": report.suite,
        "step": report.step,
        "part": report.part,
        "file": report.source.as_ref().map(|source| &source.path),
        "line": report.source.as_ref().map(|source| source.line),
        "outcome": report.outcome.word(),
        "run": report.run,
        "traceId": report.trace_id,
        "url": report.link,
        "durationMs": milliseconds(report.phases.total),
        "phasesMs": {
            "trigger": milliseconds(report.phases.trigger),
            "wait": milliseconds(report.phases.wait),
            "judge": milliseconds(report.phases.judge),
        },
        "reason": reason,
        "verdict": verdict,
        "failedGates": gates.collect::<Vec<_>>(),
        "notes": report.notes,
        "earlierRuns": attempts.collect::<Vec<_>>(),
    })
}

fn milliseconds(time: Duration) -> Value {
    json!((time.as_secs_f64() * 1e6).round() / 1e3)
}

impl Outcome {
    /// Its name in reports.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Flaky { recovered: true } => "recovered",
            Self::Flaky { recovered: false } => "flaky",
            Self::Failed => "failed",
            Self::Inconclusive => "inconclusive",
            Self::Broken => "broken",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
            Self::Skipped => "skipped",
        }
    }
}
