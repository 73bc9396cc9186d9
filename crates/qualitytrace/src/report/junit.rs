//! The report for continuous integration: JUnit XML, one suite a test, one case a spec's assertion.

use std::fmt::Write;
use std::time::Duration;

use qualitytrace_server::wire::verdict::{Assertion, Spec};
use qualitytrace_server::wire::{Outcome, Verdict};

use super::{Ending, TestReport};

/// The whole file.
pub(crate) fn document(reports: &[TestReport], took: Duration) -> String {
    let suites: Vec<Suite> = reports.iter().map(Suite::of).collect();
    let sum = |count: fn(&Suite) -> usize| suites.iter().map(count).sum::<usize>();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    push(
        &mut xml,
        0,
        &format!(
            "<testsuites name=\"qualitytrace\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{:.3}\">",
            sum(|suite| suite.cases.len()),
            sum(|suite| suite.count(Kind::Failure)),
            sum(|suite| suite.count(Kind::Error)),
            took.as_secs_f64(),
        ),
    );
    for suite in &suites {
        suite.write(&mut xml);
    }
    push(&mut xml, 0, "</testsuites>");
    xml
}

struct Suite {
    name: String,
    time: Duration,
    cases: Vec<Case>,
}

struct Case {
    class: String,
    name: String,
    problem: Option<(Kind, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Failure,
    Error,
}

impl Suite {
    fn of(report: &TestReport) -> Self {
        let cases = match &report.ending {
            Ending::Judged(verdict) => cases(verdict),
            Ending::Broken(why) => {
                vec![Case {
                    class: report.id.clone(),
                    name: "run".to_owned(),
                    problem: Some((Kind::Error, why.clone())),
                }]
            }
        };
        Self { name: report.name.clone(), time: report.phases.total, cases }
    }

    fn count(&self, kind: Kind) -> usize {
        self.cases
            .iter()
            .filter(|case| case.problem.as_ref().is_some_and(|(found, _)| *found == kind))
            .count()
    }

    fn write(&self, xml: &mut String) {
        push(
            xml,
            1,
            &format!(
                "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{:.3}\">",
                escaped(&self.name),
                self.cases.len(),
                self.count(Kind::Failure),
                self.count(Kind::Error),
                self.time.as_secs_f64(),
            ),
        );
        for Case { class, name, problem } in &self.cases {
            let (class, name) = (escaped(class), escaped(name));
            let Some((kind, message)) = problem else {
                push(xml, 2, &format!("<testcase classname=\"{class}\" name=\"{name}\"></testcase>"));
                continue;
            };
            let (tag, kind) = match kind {
                Kind::Failure => ("failure", "assertion"),
                Kind::Error => ("error", "error"),
            };
            push(xml, 2, &format!("<testcase classname=\"{class}\" name=\"{name}\">"));
            push(xml, 3, &format!("<{tag} type=\"{kind}\" message=\"{}\"></{tag}>", escaped(message)));
            push(xml, 2, "</testcase>");
        }
        push(xml, 1, "</testsuite>");
    }
}

fn cases(verdict: &Verdict) -> Vec<Case> {
    let missing = verdict.missing.join("; ");
    let inconclusive = (!missing.is_empty()).then(|| Case {
        class: "trace".to_owned(),
        name: "is complete".to_owned(),
        problem: Some((Kind::Error, format!("inconclusive: {missing}"))),
    });
    let specs = verdict.specs.iter().flat_map(|spec| {
        let class = if spec.name.is_empty() { &spec.selector } else { &spec.name };
        spec.assertions.iter().map(move |assertion| Case {
            class: class.clone(),
            name: assertion.assertion.clone(),
            problem: problem(spec, assertion),
        })
    });
    specs.chain(inconclusive).collect()
}

fn problem(spec: &Spec, assertion: &Assertion) -> Option<(Kind, String)> {
    if assertion.outcome == Outcome::Passed {
        return None;
    }
    let failing = assertion.results.iter().find(|result| !result.passed);
    Some(match (failing, &spec.problem) {
        (Some(result), _) if result.error.as_deref().is_none_or(|error| error == "no match") => (
            Kind::Failure,
            format!("{}: got {}, expected {}", place(&result.span), result.observed, result.expected),
        ),
        (Some(result), _) => {
            (Kind::Error, format!("{}: {}", place(&result.span), result.error.as_deref().unwrap_or_default()))
        }
        (None, Some(problem)) => (Kind::Failure, problem.clone()),
        (None, None) => (Kind::Failure, "did not hold".to_owned()),
    })
}

fn place(span: &str) -> &str {
    if span.is_empty() { "the selection" } else { span }
}

fn push(xml: &mut String, indent: usize, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(xml, "{}{line}", "\t".repeat(indent));
}

/// Text as an attribute value. Characters that XML cannot carry at all become the replacement character.
fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&#34;".to_owned(),
            '\n' => "&#xA;".to_owned(),
            '\r' => "&#xD;".to_owned(),
            '\t' => "&#x9;".to_owned(),
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => "\u{fffd}".to_owned(),
            c => c.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_values_survive_any_text() {
        assert_eq!(escaped("a<b>\"c\" & \u{0}\nö"), "a&lt;b&gt;&#34;c&#34; &amp; \u{fffd}&#xA;ö");
    }
}
