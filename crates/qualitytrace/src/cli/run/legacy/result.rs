//! The result of a run as Tracetest's command line prints it. Programs read these lines.

use qualitytrace_server::wire::run::{Results, SpanResult};
use serde_json::{Value, json};

use crate::client::EndedRun;
use crate::report::{Outcome, visible};
use crate::terminal::style;

/// The state of a run that was judged.
const FINISHED: &str = "FINISHED";

/// The result of a test.
#[derive(Debug)]
pub(super) struct TestResult {
    pub(super) id: String,
    pub(super) run: u64,
    name: String,
    link: String,
    /// The titles of its specs.
    titles: Vec<String>,
    ended: EndedRun,
    /// The outcome over all of its runs, where there may be several.
    outcome: Outcome,
}

impl TestResult {
    /// An `ended` run without a state is still running.
    pub(super) fn new(
        page: &str,
        id: &str,
        run: u64,
        name: String,
        titles: Vec<String>,
        ended: EndedRun,
        outcome: Outcome,
    ) -> Self {
        let link = format!("{page}/test/{id}/run/{run}/test");
        Self { id: id.to_owned(), run, name, link, titles, ended, outcome }
    }

    /// Replaces how its runs ended, which late spans may have changed.
    pub(super) fn renew(&mut self, ended: EndedRun, outcome: Outcome) {
        (self.ended, self.outcome) = (ended, outcome);
    }

    /// Whether it passed; a running one counts as passed.
    pub(super) fn passed(&self) -> bool {
        let EndedRun { state, result, required_gates_result: gates, .. } = &self.ended;
        let is_good = state == FINISHED && result.all_passed && gates.passed;
        state.is_empty() || (is_good && self.outcome.is_pass())
    }

    /// Whether missing spans could change its outcome.
    pub(super) fn is_inconclusive(&self) -> bool {
        self.outcome == Outcome::Inconclusive
    }

    pub(super) fn json(&self) -> Value {
        json!({ "testRunWebUrl": self.link, "results": self.ended.result })
    }

    /// The lines, each with `indent` more tabs.
    pub(super) fn pretty(&self, indent: usize) -> String {
        let mut lines = Lines { indent, text: String::new() };
        let is_running = self.ended.state.is_empty();
        if !is_running && self.ended.state != FINISHED {
            lines.push(false, 0, &format!("✘ {} ({})", self.name, self.link));
            lines.push(false, 1, &format!("Reason: {}", self.ended.last_error_state));
            return lines.text;
        }
        let passed = self.passed();
        let head =
            format!("{} {} ({}) - trace id: {}", mark(passed), self.name, self.link, self.ended.trace_id);
        lines.push(passed, 0, &head);
        self.specs(&self.ended.result, passed, &mut lines);
        let gates = &self.ended.required_gates_result;
        if !passed && !gates.required.is_empty() {
            lines.text.push('\n');
            lines.push(gates.passed, 1, &format!("{} Required gates", mark(gates.passed)));
            for gate in &gates.required {
                let passed = !gates.failed.contains(gate);
                lines.push(passed, 2, &format!("{} {gate}", mark(passed)));
            }
        }
        lines.text
    }

    fn specs(&self, results: &Results, passed: bool, lines: &mut Lines) {
        for (index, spec) in results.results.iter().enumerate() {
            let all = spec.results.iter().flat_map(|assertion| &assertion.span_results);
            let is_good = all.clone().all(|result| result.passed);
            let title = self.titles.get(index).filter(|title| !title.is_empty());
            let title = title.unwrap_or(&spec.selector.query);
            lines.push(is_good, 1, &format!("{} {title}", mark(is_good)));
            if passed {
                continue;
            }
            let mut spans: Vec<&str> = Vec::new();
            for result in all {
                if !spans.contains(&result.span_id.as_str()) {
                    spans.push(&result.span_id);
                }
            }
            // Results without a span come first.
            spans.sort_by_key(|span| !span.is_empty());
            for span in spans {
                let of_span = spec.results.iter().flat_map(|assertion| {
                    let results = assertion.span_results.iter().filter(|result| result.span_id == span);
                    results.map(|result| (assertion.assertion.as_str(), result))
                });
                let is_good = of_span.clone().all(|(_, result)| result.passed);
                let name = if span.is_empty() { "meta" } else { span };
                lines.push(is_good, 2, &format!("{} #{name}", mark(is_good)));
                for (assertion, result) in of_span {
                    lines.push(result.passed, 3, &self.assertion(index, assertion, result));
                }
            }
        }
    }

    fn assertion(&self, spec: usize, assertion: &str, result: &SpanResult) -> String {
        let observed = match result.observed_value.as_str() {
            "" => String::new(),
            value => format!(" ({value})"),
        };
        let link = match (result.passed, result.span_id.as_str()) {
            (true, _) => String::new(),
            (false, "") => format!(" ({}?selectedAssertion={spec})", self.link),
            (false, span) => format!(" ({}?selectedAssertion={spec}&selectedSpan={span})", self.link),
        };
        format!("{} {assertion}{observed}{link}", mark(result.passed))
    }
}

/// The result of a suite.
#[derive(Debug)]
pub(super) struct SuiteResult {
    pub(super) name: String,
    pub(super) link: String,
    /// The steps that ended, in this order.
    pub(super) steps: Vec<TestResult>,
    /// Why it did not pass, where no step says so.
    pub(super) error: Option<String>,
    /// Whether something inconclusive ended the suite, which is an error of it: a step of setup, a server that was
    /// restarted.
    pub(super) is_cut_short: bool,
    pub(super) is_running: bool,
}

impl SuiteResult {
    pub(super) fn passed(&self) -> bool {
        self.is_running || (self.error.is_none() && self.steps.iter().all(TestResult::passed))
    }

    /// Whether missing spans could change its outcome: no step has failed or could not be run.
    pub(super) fn is_inconclusive(&self) -> bool {
        let mut open = self.steps.iter().filter(|step| !step.passed()).peekable();
        let is_whole = self.error.is_none() || self.is_cut_short;
        is_whole && (open.peek().is_some() || self.is_cut_short) && open.all(TestResult::is_inconclusive)
    }

    pub(super) fn json(&self) -> Value {
        let steps = self.steps.iter().map(|step| json!({ "name": step.name, "results": step.ended.result }));
        json!({ "testRunWebUrl": self.link, "steps": steps.collect::<Vec<_>>() })
    }

    pub(super) fn pretty(&self) -> String {
        let mut lines = Lines { indent: 0, text: String::new() };
        let passed = self.passed();
        lines.push(passed, 0, &format!("{} {} ({})", mark(passed), self.name, self.link));
        // A step that did not pass is the reason.
        if let Some(error) = self.error.as_ref().filter(|_| self.steps.iter().all(TestResult::passed)) {
            lines.push(false, 1, &format!("Reason: {error}"));
        }
        let steps: Vec<String> = self.steps.iter().map(|step| step.pretty(1)).collect();
        lines.text + &steps.concat()
    }
}

struct Lines {
    indent: usize,
    text: String,
}

impl Lines {
    fn push(&mut self, is_good: bool, depth: usize, text: &str) {
        let line = format!("{}{}", "\t".repeat(self.indent + depth), visible::text(text));
        self.text.push_str(&if is_good { style::good(line) } else { style::bad(line) });
        self.text.push('\n');
    }
}

const fn mark(is_good: bool) -> &'static str {
    if is_good { "✔" } else { "✘" }
}

#[cfg(test)]
mod tests {
    use Outcome::{Broken, Failed, Inconclusive, Passed};
    use qualitytrace_server::wire::run::Gates;

    use super::*;

    fn step(outcome: Outcome) -> TestResult {
        let passed = outcome.is_pass();
        let ended = EndedRun {
            state: FINISHED.to_owned(),
            result: Results { all_passed: passed, ..Results::default() },
            required_gates_result: Gates { passed, ..Gates::default() },
            ..EndedRun::default()
        };
        TestResult::new("", "t", 1, String::new(), Vec::new(), ended, outcome)
    }

    fn check(steps: &[Outcome], error: Option<&str>, expected: bool) {
        let suite = SuiteResult {
            name: String::new(),
            link: String::new(),
            steps: steps.iter().map(|outcome| step(*outcome)).collect(),
            error: error.map(ToOwned::to_owned),
            is_cut_short: false,
            is_running: false,
        };
        assert_eq!(suite.is_inconclusive(), expected, "{steps:?}, {error:?}");
    }

    #[test]
    fn a_suite_is_inconclusive_because_of_a_step_and_never_because_of_an_error() {
        check(&[Passed, Inconclusive], None, true);
        check(&[Inconclusive, Failed], None, false);
        check(&[Inconclusive, Broken], None, false);
        check(&[Passed], Some("a step could not be run"), false);
        check(&[], Some("the server stopped during the run of the suite"), false);
        check(&[Inconclusive], Some("step `b`: its test is gone"), false);
    }
}
