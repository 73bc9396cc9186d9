//! The JUnit XML report: one suite per test, one case per assertion of a spec.

use std::time::Duration;

use qualitytrace_server::wire::verdict::{Assertion, SpanResult, Spec};
use qualitytrace_server::wire::{self, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};

use super::{Outcome, TestEnding, TestReport, problem, visible};

/// How many failing spans the message of a case names; the rest is counted.
const NAMED_CULPRITS: usize = 20;

/// Renders the whole file.
pub(crate) fn document(reports: &[TestReport], took: Duration) -> anyhow::Result<String> {
    let mut document = Report::new("qualitytrace");
    document.set_time(took).add_test_suites(reports.iter().map(suite));
    Ok(document.to_string()?)
}

/// One test of the report: an assertion, a gate or the run as a whole.
struct Case {
    name: String,
    /// The indexes of its spec and assertion, if it is one.
    place: Option<(usize, usize)>,
    /// How long it took: the longest span that the assertion is about, or the run as a whole.
    time: Duration,
    problem: Option<(Kind, String)>,
    /// Its failures in earlier runs of the same test.
    earlier: Vec<(Kind, String)>,
}

impl Case {
    fn new(name: &str, time: Duration, problem: Option<(Kind, String)>) -> Self {
        Self { name: name.to_owned(), place: None, time, problem, earlier: Vec::new() }
    }

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
    /// The JUnit element of a case without success. What was skipped in an earlier run is no failure of an assertion.
    const fn element(self) -> NonSuccessKind {
        match self {
            Self::Failure => NonSuccessKind::Failure,
            Self::Error | Self::Inconclusive | Self::Skipped => NonSuccessKind::Error,
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

fn suite(report: &TestReport) -> TestSuite {
    let mut cases = self::cases(report);
    for earlier in report.earlier.iter().flat_map(self::cases) {
        let Some(problem) =
            earlier.problem.filter(|(kind, _)| report.instead_of_specs.is_none() || *kind != Kind::Skipped)
        else {
            continue;
        };
        match cases.iter_mut().find(|case| case.name == earlier.name && case.place == earlier.place) {
            Some(case) => case.earlier.push(problem),
            // The problem is about the earlier run as a whole: no verdict, or an incomplete trace.
            None => {
                let case = Case::new(&earlier.name, earlier.time, None);
                cases.push(Case { earlier: vec![problem], place: earlier.place, ..case });
            }
        }
    }
    // A failed repetition is a failure, whatever the last one says.
    if report.outcome == (Outcome::Flaky { recovered: false }) {
        for case in cases.iter_mut().filter(|case| case.problem.is_none() && !case.earlier.is_empty()) {
            case.problem = Some(case.earlier.remove(0));
        }
    }
    let mut suite = TestSuite::new(visible::text(&report.title()));
    suite.set_time(report.phases.total);
    suite.add_test_cases(cases.iter().map(|case| test_case(case, report)));
    if let Some(link) = &report.link {
        suite.add_property(("url", link.as_str()));
    }
    if !report.notes.is_empty() {
        let notes: Vec<String> = report.notes.iter().map(|note| visible::text(note)).collect();
        suite.set_system_out(notes.join("\n"));
    }
    suite
}

/// Converts a case to the elements of Surefire, which CI systems know: a case that passed on a retry has flaky failures,
/// one that never passed has rerun failures.
fn test_case(case: &Case, report: &TestReport) -> TestCase {
    let reruns = case.earlier.iter().map(|(kind, message)| {
        let mut rerun = TestRerun::new(kind.element());
        rerun.set_type(kind.word()).set_message(visible::text(message));
        rerun
    });
    let mut status = match &case.problem {
        None => TestCaseStatus::success(),
        Some((Kind::Skipped, _)) => TestCaseStatus::skipped(),
        Some((kind, _)) => TestCaseStatus::non_success(kind.element()),
    };
    status.add_reruns(reruns);
    if let Some((kind, message)) = &case.problem {
        status.set_type(kind.word()).set_message(visible::text(message));
    }
    let mut test_case = TestCase::new(visible::text(&case.name), status);
    test_case.set_classname(visible::text(&class(report))).set_time(case.time);
    if let Some(source) = &report.source {
        test_case.extra.insert("file".into(), visible::text(&source.path).into());
        test_case.extra.insert("line".into(), source.line_of(case.place).to_string().into());
    }
    test_case
}

/// The class of the cases of a test: its file and title, so that no two tests share one.
fn class(report: &TestReport) -> String {
    match &report.source {
        Some(source) => format!("{} › {}", source.path, report.title()),
        None => report.title(),
    }
}

fn cases(report: &TestReport) -> Vec<Case> {
    let total = report.phases.total;
    match &report.ending {
        TestEnding::Judged(verdict) => {
            let failed = report.failed_gates.iter().map(|gate| {
                let kind = if gate.is_open { Kind::Inconclusive } else { Kind::Failure };
                Case::new(&format!("gate › {}", gate.name), total, Some((kind, gate.message.clone())))
            });
            let Some(passed) = &report.instead_of_specs else {
                return judged(verdict, total).into_iter().chain(failed).collect();
            };
            // The gates are what was tested: as many failures here as the exit code reflects.
            let passed = passed.iter().map(|name| Case::new(&format!("gate › {name}"), total, None));
            judged(verdict, total).into_iter().map(Case::not_required).chain(failed).chain(passed).collect()
        }
        TestEnding::Broken(why) => {
            let is_open = report.outcome == Outcome::Inconclusive;
            let (kind, why) = if is_open {
                (Kind::Inconclusive, format!("inconclusive: {why}"))
            } else {
                (Kind::Error, why.clone())
            };
            vec![Case::new("run", total, Some((kind, why)))]
        }
        TestEnding::Skipped(why) => {
            vec![Case::new("run", total, Some((Kind::Skipped, why.to_string())))]
        }
    }
}

fn judged(verdict: &Verdict, total: Duration) -> Vec<Case> {
    let missing = verdict.missing.join("; ");
    let specs = verdict.specs.iter().enumerate().flat_map(|(at, spec)| {
        let time = Duration::from_nanos(spec.longest.unwrap_or(0));
        let title = if spec.name.is_empty() { &spec.selector } else { &spec.name };
        let missing = &missing;
        spec.assertions.iter().enumerate().map(move |(number, assertion)| {
            let problem = match assertion.outcome {
                wire::Outcome::Inconclusive => {
                    // In a test that failed for good each spec gives its own reason.
                    let of_spec = spec.problem.as_ref().filter(|_| missing.is_empty());
                    let reason = of_spec.unwrap_or(missing).clone();
                    let said =
                        [Some(reason), culprits(assertion).map(|(_, said)| said)].into_iter().flatten();
                    let said = said.filter(|part| !part.is_empty()).chain(advice(spec, assertion));
                    let said: Vec<String> = said.collect();
                    Some((Kind::Inconclusive, format!("inconclusive: {}", said.join("; "))))
                }
                wire::Outcome::Passed | wire::Outcome::Failed => problem_of(spec, assertion),
            };
            let name = format!("{title} › {}", assertion.assertion);
            Case { place: Some((at, number)), ..Case::new(&name, time, problem) }
        })
    });
    let mut cases: Vec<Case> = specs.collect();
    let is_told = cases.iter().any(|case| matches!(case.problem, Some((Kind::Inconclusive, _))));
    // Missing parts are reported once: by the assertions that they leave undecided, or in a case of their own.
    if !missing.is_empty() && !is_told {
        let problem = Some((Kind::Inconclusive, format!("inconclusive: {missing}")));
        cases.push(Case::new("the trace is complete", total, problem));
    }
    cases
}

fn problem_of(spec: &Spec, assertion: &Assertion) -> Option<(Kind, String)> {
    if assertion.outcome == wire::Outcome::Passed {
        return None;
    }
    let without = || {
        let said = spec.problem.clone().unwrap_or_else(|| "did not hold".to_owned());
        (Kind::Failure, said)
    };
    let (kind, said) = culprits(assertion).unwrap_or_else(without);
    Some((kind, [said].into_iter().chain(advice(spec, assertion)).collect::<Vec<_>>().join("; ")))
}

/// What helps to correct an assertion that has not passed.
fn advice<'a>(spec: &'a Spec, assertion: &'a Assertion) -> impl Iterator<Item = String> + 'a {
    spec.advice.iter().chain(&assertion.advice).cloned()
}

/// The message about the spans that break an assertion; `None` where there are none.
fn culprits(assertion: &Assertion) -> Option<(Kind, String)> {
    let mut culprits = assertion.culprits().map(|result| culprit(&assertion.assertion, result));
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
fn culprit(assertion: &str, result: &SpanResult) -> (Kind, String) {
    let kind = match result.error.as_deref() {
        None | Some("no match") => Kind::Failure,
        Some(_) => Kind::Error,
    };
    (kind, problem::told(assertion, result))
}
