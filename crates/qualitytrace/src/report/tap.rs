//! The report in TAP 14, the Test Anything Protocol: a test point for each test, with its problems as YAML.

use std::fmt::Write as _;

use super::{Outcome, TestReport, problems, visible};
use crate::terminal::duration;

/// Renders the report.
pub(crate) fn document(reports: &[TestReport]) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", reports.len());
    for (at, report) in reports.iter().enumerate() {
        let (ok, directive) = match report.outcome {
            Outcome::Skipped => ("ok", " # SKIP not run".to_owned()),
            outcome if outcome.is_pass() => ("ok", String::new()),
            _ => ("not ok", String::new()),
        };
        let title = escaped(&visible::text(&report.title()));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{ok} {} - {title}{directive}", at + 1);
        if report.outcome != Outcome::Passed && report.outcome != Outcome::Skipped {
            text.push_str(&diagnostics(report));
        }
    }
    text
}

fn diagnostics(report: &TestReport) -> String {
    let mut text = format!("  ---\n  outcome: {}\n", report.outcome.word());
    let _ = writeln!(text, "  duration: {}", quoted(&duration(report.phases.total)));
    let problems = problems(report);
    if let Some(source) = &report.source {
        let line = source.line_of(problems.first().and_then(|problem| problem.place));
        let _ = writeln!(text, "  at: {}", quoted(&format!("{}:{line}", source.path)));
    }
    if !report.trace_id.is_empty() {
        let _ = writeln!(text, "  trace: {}", quoted(&report.trace_id));
    }
    if let Some(link) = &report.link {
        let _ = writeln!(text, "  url: {}", quoted(link.as_str()));
    }
    if !problems.is_empty() {
        text.push_str("  problems:\n");
        for problem in &problems {
            let _ = writeln!(text, "    - {}", quoted(&problem.sentence()));
        }
    }
    text.push_str("  ...\n");
    text
}

/// A description: `#` would begin a directive.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('#', "\\#")
}

/// A text in double quotes, which YAML reads as JSON does.
fn quoted(text: &str) -> String {
    serde_json::Value::from(visible::text(text)).to_string()
}
