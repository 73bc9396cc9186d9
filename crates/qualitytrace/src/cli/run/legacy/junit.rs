//! One JUnit report of several that the server wrote.

/// Joins reports of runs. A single one stays as it is.
pub(super) fn merged(mut reports: Vec<String>) -> String {
    if reports.len() == 1 {
        return reports.remove(0);
    }
    let sum = |name: &str| reports.iter().map(|report| attribute(report, name)).sum::<u64>();
    let head = ["tests", "failures", "errors", "skipped", "time"]
        .map(|name| format!(" {name}=\"{}\"", sum(name)))
        .concat();
    let suites: Vec<&str> = reports.iter().map(|report| content(report)).collect();
    format!("<testsuites{head}>{}\n</testsuites>", suites.concat())
}

/// A number in the first element.
fn attribute(report: &str, name: &str) -> u64 {
    let head = report.split_once('>').map_or("", |(head, _)| head);
    let value = head.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
    value.and_then(|(value, _)| value.parse().ok()).unwrap_or(0)
}

/// What is inside of the first element.
fn content(report: &str) -> &str {
    let inner = report.split_once('>').map_or("", |(_, rest)| rest);
    inner.rsplit_once("</testsuites>").map_or("", |(inner, _)| inner).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_and_suites_stay() {
        let one = "<testsuites name=\"a\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\" time=\"3\">\n\t<testsuite name=\"s\"></testsuite>\n</testsuites>";
        let other = "<testsuites name=\"b &gt; c\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" time=\"2\"></testsuites>";
        assert_eq!(merged(vec![one.to_owned()]), one);
        assert_eq!(
            merged(vec![one.to_owned(), other.to_owned()]),
            "<testsuites tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\" time=\"5\">\n\t<testsuite name=\"s\"></testsuite>\n</testsuites>"
        );
    }
}
