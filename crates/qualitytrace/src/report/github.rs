//! Annotations of GitHub Actions: workflow commands that show a problem at its file and line.

use std::fmt::Write as _;

use super::{Outcome, TestReport, problems, visible};

/// Renders the commands; GitHub shows at most ten of a kind.
pub(crate) fn document(reports: &[TestReport]) -> String {
    let mut text = String::new();
    for report in reports {
        let level = match report.outcome {
            Outcome::Passed | Outcome::Skipped => continue,
            Outcome::Flaky { recovered: true } | Outcome::Inconclusive => "warning",
            Outcome::Flaky { recovered: false }
            | Outcome::Failed
            | Outcome::Broken
            | Outcome::Stopped
            | Outcome::Unknown => "error",
        };
        let title = property(&visible::text(&format!("{} {}", report.title(), report.outcome.word())));
        for problem in problems(report) {
            let place = match &report.source {
                Some(source) => {
                    let line = source.line_of(problem.place);
                    format!("file={},line={line},", property(&visible::text(&source.path)))
                }
                None => String::new(),
            };
            let link = report.link.as_ref().map(|link| format!(" {link}")).unwrap_or_default();
            let message = data(&(visible::text(&problem.sentence()) + &link));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "::{level} {place}title={title}::{message}");
        }
    }
    text
}

/// A message: line ends and percent signs are escaped.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A value of a property, which commas and colons would end.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
