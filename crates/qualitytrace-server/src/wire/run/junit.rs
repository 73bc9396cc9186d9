//! A run as JUnit XML, in the layout of the original.

use std::fmt::Write as _;

use crate::wire::verdict::{Spec, Verdict};

/// What a comparison that does not hold says.
const NO_MATCH: &str = "no match";

/// The report: one suite a spec, one case a span and assertion. `problem` is why there is no verdict.
pub fn junit(test: &str, verdict: Option<&Verdict>, problem: Option<&str>, seconds: u64) -> String {
    let specs = verdict.map_or(&[][..], |verdict| &verdict.specs);
    let missing = verdict.map(|verdict| verdict.missing.join("; ")).filter(|missing| !missing.is_empty());
    let lack = match (missing, problem) {
        (Some(missing), _) => Some(("trace", "is complete", format!("inconclusive: {missing}"))),
        (None, Some(problem)) => Some(("run", "comes to a verdict", problem.to_owned())),
        (None, None) => None,
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

/// Cases, failures and errors.
fn counts(spec: &Spec) -> (usize, usize, usize) {
    let results = || spec.assertions.iter().flat_map(|assertion| &assertion.results);
    let failures = results().filter(|result| !result.passed && is_no_match(result.error.as_deref())).count();
    let errors = results().filter(|result| !result.passed && !is_no_match(result.error.as_deref())).count();
    (results().count(), failures, errors)
}

fn is_no_match(error: Option<&str>) -> bool {
    error.is_none_or(|error| error == NO_MATCH)
}

fn suite(out: &mut String, spec: &Spec) {
    let (tests, failures, errors) = counts(spec);
    let _ = write!(
        out,
        "\n\t<testsuite name=\"{}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\">",
        escaped(&spec.selector)
    );
    for assertion in &spec.assertions {
        let name = escaped(&assertion.assertion);
        for result in &assertion.results {
            let _ = write!(out, "\n\t\t<testcase name=\"{name}\">");
            if result.passed {
                out.push_str("</testcase>");
                continue;
            }
            let fault = match result.error.as_deref().filter(|error| *error != NO_MATCH) {
                None => {
                    format!("<failure type=\"{name}\" message=\"{}\"></failure>", escaped(&result.observed))
                }
                Some(error) => format!("<error type=\"error\" message=\"{}\"></error>", escaped(error)),
            };
            let _ = write!(out, "\n\t\t\t{fault}\n\t\t</testcase>");
        }
    }
    out.push_str("\n\t</testsuite>");
}

/// Text as the value of an attribute; what XML cannot hold becomes a question mark.
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
