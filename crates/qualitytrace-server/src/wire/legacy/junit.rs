//! A run as JUnit XML, in Tracetest's layout.

use std::fmt::Write as _;

use qualitytrace_core::run::State;

use crate::wire::run::{Run, SpecResult};

/// The error of a comparison that does not hold.
const NO_MATCH: &str = "no match";

/// Builds the report: one test suite for each spec, one test case for each span and assertion.
pub fn junit(test: &str, run: &Run) -> String {
    let (specs, seconds) = (&run.result.results, run.execution_time);
    let lack = if run.missing.is_empty() {
        problem(run).map(|problem| ("run", "comes to a verdict", problem.to_owned()))
    } else {
        Some(("trace", "is complete", format!("inconclusive: {}", run.missing.join("; "))))
    };
    let lacking = usize::from(lack.is_some());
    let (tests, failures, errors) =
        specs.iter().map(counts).fold((lacking, 0, lacking), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let mut out = format!(
        "<testsuites name=\"{}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" time=\"{seconds}\">",
        escaped(test)
    );
    for spec in specs {
        suite(&mut out, spec);
    }
    if let Some((suite, case, message)) = &lack {
        let message = escaped(message);
        let _ = write!(
            out,
            "\n\t<testsuite name=\"{suite}\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\">\
             \n\t\t<testcase name=\"{case}\">\
             \n\t\t\t<error type=\"error\" message=\"{message}\"></error>\
             \n\t\t</testcase>\n\t</testsuite>"
        );
    }
    if lack.is_some() || !specs.is_empty() {
        out.push('\n');
    }
    out.push_str("</testsuites>");
    out
}

/// Returns why there is no verdict.
fn problem(run: &Run) -> Option<&str> {
    match State::named(&run.state) {
        _ if !run.last_error_state.is_empty() => Some(&run.last_error_state),
        Some(State::Stopped) => Some("the run was stopped"),
        Some(state) if !state.is_final() => Some("the run is still in progress"),
        _ => None,
    }
}

/// Counts test cases, failures and errors.
fn counts(spec: &SpecResult) -> (usize, usize, usize) {
    let results = || spec.results.iter().flat_map(|assertion| &assertion.span_results);
    let failures = results().filter(|result| !result.passed && is_no_match(&result.error)).count();
    let errors = results().filter(|result| !result.passed && !is_no_match(&result.error)).count();
    (results().count(), failures, errors)
}

fn is_no_match(error: &str) -> bool {
    error.is_empty() || error == NO_MATCH
}

fn suite(out: &mut String, spec: &SpecResult) {
    let (tests, failures, errors) = counts(spec);
    let _ = write!(
        out,
        "\n\t<testsuite name=\"{}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\">",
        escaped(&spec.selector.query)
    );
    for assertion in &spec.results {
        let name = escaped(&assertion.assertion);
        for result in &assertion.span_results {
            let _ = write!(out, "\n\t\t<testcase name=\"{name}\">");
            if result.passed {
                out.push_str("</testcase>");
                continue;
            }
            let fault = if is_no_match(&result.error) {
                let observed = escaped(&result.observed_value);
                format!("<failure type=\"{name}\" message=\"{observed}\"></failure>")
            } else {
                format!("<error type=\"error\" message=\"{}\"></error>", escaped(&result.error))
            };
            let _ = write!(out, "\n\t\t\t{fault}\n\t\t</testcase>");
        }
    }
    out.push_str("\n\t</testsuite>");
}

/// Escapes text for an attribute; characters that XML cannot hold become U+FFFD.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, letter| {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '\t' => out.push_str("&#x9;"),
            '\n' => out.push_str("&#xA;"),
            '\r' => out.push_str("&#xD;"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
        out
    })
}
