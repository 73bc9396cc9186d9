//! Annotations of GitHub Actions: workflow commands that show a problem at its file and line.

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
        let title = visible::text(&format!("{} {}", report.title(), report.outcome.word()));
        for problem in problems(report) {
            let place = report.source.as_ref();
            let place = place.map(|source| (source.path.as_str(), source.line_of(problem.place), None));
            let link = report.link.as_ref().map(|link| format!(" {link}")).unwrap_or_default();
            let message = visible::text(&problem.sentence()) + &link;
            text.push_str(&annotation(level, place, &title, &message));
        }
    }
    text
}

/// The command that shows a message, at a file, a line and a column.
pub(crate) fn annotation(
    level: &str,
    place: Option<(&str, usize, Option<usize>)>,
    title: &str,
    message: &str,
) -> String {
    let place = place.map(|(path, line, column)| {
        let column = column.map(|column| format!("col={column},")).unwrap_or_default();
        format!("file={},line={line},{column}", property(&visible::text(path)))
    });
    let (place, title, message) = (place.unwrap_or_default(), property(title), data(message));
    format!("::{level} {place}title={title}::{message}\n")
}

/// A message: line ends and percent signs are escaped.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A value of a property, which commas and colons would end.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
