//! The report in Markdown, for the summary of a CI job.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Outcome, TestReport, problems};
use crate::terminal::{counted, duration};

/// How many problems of a test are shown; the rest is counted.
const SHOWN_PROBLEMS: usize = 10;

/// Renders the report.
pub(crate) fn document(reports: &[TestReport], took: Duration) -> String {
    let passed = reports.iter().filter(|report| report.outcome.is_pass()).count();
    let mark = if passed == reports.len() { "✅" } else { "❌" };
    let all = counted(reports.len(), "test");
    let mut text = format!("### {mark} {passed} of {all} passed in {}\n\n", duration(took));
    text.push_str("| | test | result | time |\n|---|---|---|---:|\n");
    for report in reports {
        let mark = match report.outcome {
            Outcome::Passed => "✅",
            Outcome::Flaky { .. } => "⚠️",
            Outcome::Inconclusive => "❔",
            Outcome::Skipped => "➖",
            Outcome::Failed | Outcome::Broken | Outcome::Stopped | Outcome::Unknown => "❌",
        };
        let (title, time) = (html(&report.title()), duration(report.phases.total));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {mark} | {title} | {} | {time} |", report.outcome.word());
    }
    for report in reports.iter().filter(|report| !report.outcome.is_pass()) {
        let problems = problems(report);
        if problems.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n<details open><summary>{}</summary>\n", html(&report.title()));
        for problem in problems.iter().take(SHOWN_PROBLEMS) {
            let _ = writeln!(text, "- {}", html(&problem.sentence()));
        }
        if let Some(rest) = problems.len().checked_sub(SHOWN_PROBLEMS).filter(|rest| *rest > 0) {
            let _ = writeln!(text, "- and {rest} more");
        }
        if !report.trace_id.is_empty() {
            // The address is percent-encoded: it contains no brackets.
            let run = match &report.link {
                Some(link) => format!("[run {}]({link})", report.run),
                None => format!("run {}", report.run),
            };
            let _ = writeln!(text, "\nTrace `{}`, {run}", html(&report.trace_id));
        }
        text.push_str("\n</details>\n");
    }
    text
}

/// A text on one line that is neither Markdown nor HTML: no mark-up, no image, and no link that a reader did not write.
fn html(text: &str) -> String {
    let mut escaped = String::new();
    let text = super::visible::text(text);
    for (at, letter) in text.char_indices() {
        let is_marked = match letter {
            '&' | '<' | '>' | '"' | '\'' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' | '!' | '@' | '|'
            | '$' => true,
            // A heading, a list, a rule or code.
            ' ' | '#' | '+' | '-' | '=' | '0'..='9' => at == 0,
            // What would become a link by itself.
            ':' => text[at..].starts_with("://"),
            '.' => text[..at].to_ascii_lowercase().ends_with("www"),
            _ => false,
        };
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if is_marked => {
                let _ = write!(escaped, "&#{};", u32::from(letter));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}
