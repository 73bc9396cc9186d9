//! The JUnit XML report: one suite per test, one case per assertion of a spec.

use std::fmt::Write;
use std::time::Duration;

use qualitytrace_server::wire::verdict::{Assertion, SpanResult, Spec};
use qualitytrace_server::wire::{self, Verdict};

use super::{Ending, Outcome, TestReport};

/// How many failing spans the message of a case names; the rest is counted.
const NAMED_CULPRITS: usize = 20;

/// Renders the whole file.
pub(crate) fn document(reports: &[TestReport], took: Duration) -> String {
    let suites: Vec<Suite> = reports.iter().map(Suite::of).collect();
    let sum = |count: fn(&Suite) -> usize| suites.iter().map(count).sum::<usize>();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    push(
        &mut xml,
        0,
        &format!(
            "<testsuites name=\"qualitytrace\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
            sum(|suite| suite.cases.len()),
            sum(|suite| suite.count(Kind::Failure)),
            sum(|suite| suite.count(Kind::Error)),
            sum(|suite| suite.count(Kind::Skipped)),
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
    notes: Vec<String>,
}

#[derive(Clone)]
struct Case {
    class: String,
    name: String,
    problem: Option<(Kind, String)>,
    /// Its failures in earlier runs of the same test.
    earlier: Vec<(Kind, String)>,
}

impl Case {
    fn new(class: &str, name: &str, problem: Option<(Kind, String)>) -> Self {
        Self { class: class.to_owned(), name: name.to_owned(), problem, earlier: Vec::new() }
    }
}

impl Case {
    /// Turns its problem into a skip, where the spec is not required.
    fn not_required(self) -> Self {
        let problem = self.problem.map(|(_, why)| (Kind::Skipped, format!("not required: {why}")));
        Self { problem, ..self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Failure,
    Error,
    Inconclusive,
    Skipped,
}

impl Kind {
    /// The JUnit element that it counts as.
    const fn counts_as(self) -> Self {
        match self {
            Self::Inconclusive => Self::Error,
            Self::Failure | Self::Error | Self::Skipped => self,
        }
    }

    /// The `type` attribute.
    const fn word(self) -> &'static str {
        match self {
            Self::Failure => "assertion",
            Self::Error => "error",
            Self::Inconclusive => "inconclusive",
            Self::Skipped => "skipped",
        }
    }
}

impl Suite {
    fn of(report: &TestReport) -> Self {
        let mut cases = self::cases(report);
        for earlier in report.earlier.iter().flat_map(self::cases) {
            let Some(problem) = earlier
                .problem
                .filter(|(kind, _)| report.instead_of_specs.is_none() || *kind != Kind::Skipped)
            else {
                continue;
            };
            match cases.iter_mut().find(|case| case.class == earlier.class && case.name == earlier.name) {
                Some(case) => case.earlier.push(problem),
                // The problem is about the earlier run as a whole: no verdict, or an incomplete trace.
                None => cases
                    .push(Case { earlier: vec![problem], ..Case::new(&earlier.class, &earlier.name, None) }),
            }
        }
        // A failed repetition is a failure, whatever the last one says.
        if report.outcome == (Outcome::Flaky { recovered: false }) {
            for case in cases.iter_mut().filter(|case| case.problem.is_none() && !case.earlier.is_empty()) {
                case.problem = Some(case.earlier.remove(0));
            }
        }
        Self { name: report.title(), time: report.phases.total, cases, notes: report.notes.clone() }
    }

    fn count(&self, kind: Kind) -> usize {
        self.cases
            .iter()
            .filter(|case| case.problem.as_ref().is_some_and(|(found, _)| found.counts_as() == kind))
            .count()
    }

    fn write(&self, xml: &mut String) {
        push(
            xml,
            1,
            &format!(
                "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
                escaped(&self.name),
                self.cases.len(),
                self.count(Kind::Failure),
                self.count(Kind::Error),
                self.count(Kind::Skipped),
                self.time.as_secs_f64(),
            ),
        );
        for case in &self.cases {
            case.write(xml);
        }
        if !self.notes.is_empty() {
            push(xml, 2, &format!("<system-out>{}</system-out>", escaped(&self.notes.join("\n"))));
        }
        push(xml, 1, "</testsuite>");
    }
}

impl Case {
    /// Writes it with the elements of Surefire, which CI systems know: a case that passed on a retry has flaky
    /// failures, one that never passed has rerun failures.
    fn write(&self, xml: &mut String) {
        let (class, name) = (escaped(&self.class), escaped(&self.name));
        if self.problem.is_none() && self.earlier.is_empty() {
            push(xml, 2, &format!("<testcase classname=\"{class}\" name=\"{name}\"></testcase>"));
            return;
        }
        push(xml, 2, &format!("<testcase classname=\"{class}\" name=\"{name}\">"));
        let mut tell = |tag: &str, kind: &str, message: &str| {
            push(xml, 3, &format!("<{tag} type=\"{kind}\" message=\"{}\"></{tag}>", escaped(message)));
        };
        if let Some((kind, message)) = &self.problem {
            let tag = match kind {
                Kind::Failure => "failure",
                Kind::Error | Kind::Inconclusive => "error",
                Kind::Skipped => "skipped",
            };
            tell(tag, kind.word(), message);
        }
        for (kind, message) in &self.earlier {
            let tag = match (self.problem.is_some(), kind) {
                (false, Kind::Failure) => "flakyFailure",
                (false, Kind::Error | Kind::Inconclusive | Kind::Skipped) => "flakyError",
                (true, Kind::Failure) => "rerunFailure",
                (true, Kind::Error | Kind::Inconclusive | Kind::Skipped) => "rerunError",
            };
            tell(tag, kind.word(), message);
        }
        push(xml, 2, "</testcase>");
    }
}

fn cases(report: &TestReport) -> Vec<Case> {
    match &report.ending {
        Ending::Judged(verdict) => {
            let failed = report.failed_gates.iter().map(|gate| {
                let kind = if gate.is_open { Kind::Inconclusive } else { Kind::Failure };
                Case::new("gate", gate.name, Some((kind, gate.message.clone())))
            });
            let Some(passed) = &report.instead_of_specs else {
                return judged(verdict).into_iter().chain(failed).collect();
            };
            // The gates are what was tested: as many failures here as the exit code reflects.
            let passed = passed.iter().map(|name| Case::new("gate", name, None));
            judged(verdict).into_iter().map(Case::not_required).chain(failed).chain(passed).collect()
        }
        Ending::Broken(why) => vec![Case::new(&report.id, "run", Some((Kind::Error, why.clone())))],
        Ending::Skipped(why) => vec![Case::new(&report.id, "run", Some((Kind::Skipped, (*why).to_owned())))],
    }
}

fn judged(verdict: &Verdict) -> Vec<Case> {
    let missing = verdict.missing.join("; ");
    let specs = verdict.specs.iter().flat_map(|spec| {
        let class = if spec.name.is_empty() { &spec.selector } else { &spec.name };
        spec.assertions.iter().map(|assertion| {
            let problem = match assertion.outcome {
                wire::Outcome::Inconclusive => {
                    // In a test that failed for good each spec gives its own reason.
                    let of_spec = spec.problem.as_ref().filter(|_| missing.is_empty());
                    let reason = of_spec.unwrap_or(&missing).clone();
                    let said = [Some(reason), culprits(assertion).map(|(_, said)| said)];
                    let said: Vec<String> =
                        said.into_iter().flatten().filter(|part| !part.is_empty()).collect();
                    Some((Kind::Inconclusive, format!("inconclusive: {}", said.join("; "))))
                }
                wire::Outcome::Passed | wire::Outcome::Failed => problem(spec, assertion),
            };
            Case::new(class, &assertion.assertion, problem)
        })
    });
    let mut cases: Vec<Case> = specs.collect();
    let is_told = cases.iter().any(|case| matches!(case.problem, Some((Kind::Inconclusive, _))));
    // Missing parts are reported once: by the assertions that they leave undecided, or in a case of their own.
    if !missing.is_empty() && !is_told {
        let problem = Some((Kind::Inconclusive, format!("inconclusive: {missing}")));
        cases.push(Case::new("trace", "is complete", problem));
    }
    cases
}

fn problem(spec: &Spec, assertion: &Assertion) -> Option<(Kind, String)> {
    if assertion.outcome == wire::Outcome::Passed {
        return None;
    }
    let without = || {
        let said = spec.problem.clone().unwrap_or_else(|| "did not hold".to_owned());
        (Kind::Failure, said)
    };
    Some(culprits(assertion).unwrap_or_else(without))
}

/// The message about the spans that break an assertion; `None` where there are none.
fn culprits(assertion: &Assertion) -> Option<(Kind, String)> {
    let mut culprits = assertion.culprits().map(culprit);
    let (kind, first) = culprits.next()?;
    let mut said = vec![first];
    said.extend(culprits.by_ref().take(NAMED_CULPRITS - 1).map(|(_, told)| told));
    let rest = culprits.count() as u64 + assertion.omitted.failed;
    if rest > 0 {
        said.push(format!("and {rest} more"));
    }
    Some((kind, said.join("; ")))
}

/// The message about one span, or about the selection.
fn culprit(result: &SpanResult) -> (Kind, String) {
    let place = if result.span.is_empty() { "the selection" } else { &result.span };
    match result.error.as_deref() {
        None if result.passed => {
            (Kind::Failure, format!("{place}: the claim holds here, got {}", result.observed))
        }
        None | Some("no match") => {
            (Kind::Failure, format!("{place}: got {}, expected {}", result.observed, result.expected))
        }
        Some(error) => (Kind::Error, format!("{place}: {error}")),
    }
}

fn push(xml: &mut String, indent: usize, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(xml, "{}{line}", "\t".repeat(indent));
}

/// Escapes text for an attribute value. Characters that XML cannot represent become the replacement character.
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
