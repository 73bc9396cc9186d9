//! The report for a terminal.

use std::fmt::Write;
use std::time::Duration;

use qualitytrace_server::wire::verdict::{Assertion, Output, SpanResult, Spec};
use qualitytrace_server::wire::{self, Verdict};

use super::expectation::{expected, or_nothing};
use super::shared_errors::SharedErrors;
use super::{Exchange, Level, Outcome, Phases, TestEnding, TestReport, problems, visible, waterfall};
use crate::terminal::{columns, counted, duration, fitting, style};

/// How many different failing results of an assertion are shown; the rest is counted.
const SHOWN_RESULTS: usize = 5;
/// Tests whose reports fill more than a screen.
const SCREEN: usize = 20;
/// Width of the column with names.
const NAME_WIDTH: usize = 48;
/// The smallest width of this column.
const LEAST_NAME: usize = 16;

/// How many lines of a request or response are shown.
const SHOWN_LINES: usize = 12;

/// Renders a test: its line, its specs, and the details of what did not pass.
pub(crate) fn test(report: &TestReport, level: Level) -> String {
    let report = &visible::report(report);
    let mut text = String::new();
    let name = report.title();
    if report.outcome == Outcome::Skipped {
        line(&mut text, 0, &style::faint(format!("- {name}  not run")));
        return text;
    }
    // Without a result the duration is unknown.
    let known = Some(&report.phases).filter(|_| report.outcome != Outcome::Unknown);
    let total = known.map(|phases| format!("  {:>8}", duration(phases.total))).unwrap_or_default();
    let parts = known.map(times).unwrap_or_default();
    let around = 2 + columns::width(&total);
    let [_, room] = fitting([NAME_WIDTH, columns::width(&parts)], [LEAST_NAME, 0], around);
    // A truncated list of times is worse than none.
    let parts = if room < columns::width(&parts) { String::new() } else { parts };
    let [name_width] = fitting([NAME_WIDTH], [LEAST_NAME], around + columns::width(&parts));
    let name = style::strong(columns::fitted(&name, name_width));
    let head = format!("{} {name}{}{}", mark(report.outcome), style::strong(total), style::faint(parts));
    line(&mut text, 0, &head);
    match &report.ending {
        TestEnding::Broken(why) => {
            let is_open = report.outcome == Outcome::Inconclusive;
            line(&mut text, 1, &if is_open { style::unsure(why) } else { style::bad(why) });
            for note in &report.notes {
                line(&mut text, 1, &style::unsure(note));
            }
            exchange(&mut text, &report.exchange, level);
        }
        TestEnding::Judged(verdict) => judged(&mut text, report, verdict, level),
        TestEnding::Skipped(_) => {}
    }
    attempts(&mut text, report);
    text
}

fn times(phases: &Phases) -> String {
    let (trigger, wait) = (duration(phases.trigger), duration(phases.wait));
    format!("  trigger {trigger} · wait {wait} · judge {}", duration(phases.judge))
}

/// Lists the runs before the last one, with what did not pass in each.
fn attempts(text: &mut String, report: &TestReport) {
    if report.earlier.is_empty() {
        return;
    }
    let runs = report.earlier.len() + 1;
    let last = match &report.ending {
        TestEnding::Judged(verdict) => verdict.outcome == wire::Outcome::Passed,
        TestEnding::Broken(_) | TestEnding::Skipped(_) => false,
    };
    let passed =
        report.earlier.iter().filter(|run| run.outcome == Outcome::Passed).count() + usize::from(last);
    let rate = report
        .flakiness
        .filter(|known| known.flaky > 0)
        .map(|known| format!("; flaky in {} of its last {} series", known.flaky, known.series));
    let word = match report.outcome {
        Outcome::Flaky { recovered: true } => "flaky, passed after a retry",
        Outcome::Flaky { recovered: false } => "flaky",
        Outcome::Passed
        | Outcome::Failed
        | Outcome::Inconclusive
        | Outcome::Broken
        | Outcome::Stopped
        | Outcome::Unknown
        | Outcome::Skipped => "run more than once",
    };
    let summary = format!("{word}: {passed} of {runs} runs passed{}", rate.unwrap_or_default());
    line(text, 1, &style::unsure(summary));
    let own = findings(report);
    let (same, others) = report
        .earlier
        .iter()
        .filter(|run| run.outcome != Outcome::Passed)
        .partition::<Vec<_>, _>(|run| findings(run) == own);
    if !same.is_empty() {
        line(text, 1, &style::faint(format!("{} of test {} ended like this too", numbers(&same), report.id)));
    }
    for (findings, runs) in alike(others, |run| findings(run)) {
        let (first, numbers) = (runs[0], numbers(&runs));
        line(text, 1, &style::faint(format!("{numbers} of test {}, trace {}:", first.id, first.trace_id)));
        text.push_str(&findings);
    }
}

/// Formats `run 3`, or `runs 1, 2 and 5 more`.
fn numbers(runs: &[&TestReport]) -> String {
    let shown: Vec<String> = runs.iter().take(SHOWN_RESULTS).map(|run| run.run.to_string()).collect();
    let word = if runs.len() == 1 { "run" } else { "runs" };
    let rest = match runs.len().saturating_sub(SHOWN_RESULTS) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("{word} {}{rest}", shown.join(", "))
}

/// What did not pass in a run, without details that differ from run to run anyway.
fn findings(run: &TestReport) -> String {
    let mut text = String::new();
    match &run.ending {
        TestEnding::Broken(why) => line(&mut text, 2, &style::bad(why)),
        TestEnding::Judged(verdict) => {
            let failed = verdict.specs.iter().filter(|spec| spec.outcome != wire::Outcome::Passed);
            let failed: Vec<Spec> = failed.map(|spec| Spec { longest: None, ..spec.clone() }).collect();
            let mut told = Vec::new();
            for failed in &failed {
                spec(&mut text, failed, &run.exchange, &mut told);
            }
        }
        TestEnding::Skipped(_) => {}
    }
    text
}

/// Notes the missing parts of a trace whose test passed: the verdict does not depend on them, but they may be of
/// interest.
fn unpaid(text: &mut String, report: &TestReport) {
    let mut debts = report.expected.iter().filter_map(|at| report.debts.get(*at));
    if let Some(first) = debts.next() {
        let more = match debts.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        line(text, 1, &style::faint(format!("not needed: {first}{more}")));
    }
}

fn judged(text: &mut String, report: &TestReport, verdict: &Verdict, level: Level) {
    // Missing parts are reported once: below, or by the first spec that they leave undecided.
    let mut told: Vec<&String> = verdict.missing.iter().collect();
    for spec in &verdict.specs {
        self::spec(text, spec, &report.exchange, &mut told);
    }
    for output in &verdict.outputs {
        self::output(text, output, &told);
    }
    for note in &report.notes {
        line(text, 1, &style::unsure(note));
    }
    for (index, gate) in report.failed_gates.iter().enumerate() {
        let outcome = if gate.is_open { Outcome::Inconclusive } else { Outcome::Failed };
        // Undecided gates share one reason.
        let is_told = report.failed_gates[..index].iter().any(|earlier| earlier.message == gate.message);
        let message = if is_told { "likewise".to_owned() } else { without_reasons(&gate.message, &told) };
        line(text, 1, &format!("{} gate {}: {message}", mark(outcome), gate.name));
    }
    if verdict.outcome == wire::Outcome::Inconclusive {
        line(text, 1, &style::unsure("the trace is not complete, so the verdict could still change:"));
        for missing in &verdict.missing {
            line(text, 2, missing);
        }
    }
    if verdict.outcome == wire::Outcome::Passed {
        unpaid(text, report);
    }
    if verdict.outcome != wire::Outcome::Passed {
        // A reason begins with what is missing, and says more.
        let is_told = |debt: &str| told.iter().any(|reason| reason.starts_with(debt));
        for debt in report.debts.iter().filter(|debt| !is_told(debt)) {
            line(text, 1, &style::faint(format!("missing: {debt}")));
        }
    }
    // A test that failed one of its gates or repetitions is explained, too.
    if !report.outcome.is_pass() || verdict.outcome != wire::Outcome::Passed || level == Level::Details {
        exchange(text, &report.exchange, level);
        if let Some(trace) = &report.trace {
            text.push('\n');
            for row in waterfall::draw(trace, verdict) {
                line(text, 1, &row);
            }
        }
        line(
            text,
            1,
            &style::faint(format!("trace {}, run {} of test {}", report.trace_id, report.run, report.id)),
        );
        if let Some(link) = &report.link {
            line(text, 1, &style::faint(link));
        }
        text.push('\n');
    }
}

fn spec<'v>(text: &mut String, spec: &'v Spec, exchange: &Exchange, told: &mut Vec<&'v String>) {
    let title = if spec.name.is_empty() { &spec.selector } else { &spec.name };
    let title = if title.is_empty() { "all spans" } else { title };
    let spans = counted(spec.selected, "span");
    let longest =
        spec.longest.map(|nanos| format!(" ≤ {}", duration(Duration::from_nanos(nanos)))).unwrap_or_default();
    let facts = format!("{spans}{longest}");
    let [width] = fitting([NAME_WIDTH - 2], [LEAST_NAME], 6 + columns::width(&facts));
    let title = columns::fitted(title, width);
    line(text, 1, &format!("{} {title}  {}", mark(spec.outcome.into()), style::faint(facts)));
    if spec.outcome == wire::Outcome::Passed {
        return;
    }
    if !spec.name.is_empty() && !spec.selector.is_empty() {
        line(text, 2, &style::faint(&spec.selector));
    }
    if let Some(problem) = &spec.problem {
        let is_open = spec.outcome == wire::Outcome::Inconclusive;
        if !is_open || !told.contains(&problem) {
            line(text, 2, &style::bad(problem));
            told.push(problem);
        }
    }
    // Hints about the nearest spans are of no use where the assertion is that there is no span.
    let claims_absence = spec.selected == 0
        && spec
            .assertions
            .iter()
            .any(|claim| !claim.results.is_empty() && claim.results.iter().all(|result| result.passed));
    for hint in spec.nearest.iter().filter(|_| !claims_absence) {
        let (said, selector) = corrected(hint);
        line(text, 3, &style::unsure(said));
        if let Some(selector) = selector {
            line(text, 3, &format!("try {}", style::good(selector)));
        }
    }
    if let Some(advice) = &spec.advice {
        line(text, 3, &style::unsure(advice));
    }
    let mut errors = SharedErrors::of(spec, exchange);
    for assertion in spec.assertions.iter().filter(|assertion| assertion.outcome != wire::Outcome::Passed) {
        self::assertion(text, assertion, &mut errors);
    }
}

/// Splits a hint into what it says and the selector that it suggests.
fn corrected(hint: &str) -> (&str, Option<&str>) {
    let split = hint.rsplit_once("; try `").and_then(|(said, rest)| Some((said, rest.strip_suffix('`')?)));
    split.map_or((hint, None), |(said, selector)| (said, Some(selector)))
}

/// Shows what was sent and what was answered.
fn exchange(text: &mut String, Exchange { request, response }: &Exchange, level: Level) {
    for (arrow, message) in [("→", request), ("←", response)] {
        let Some(message) = message else { continue };
        line(text, 1, &format!("{} {}", style::faint(arrow), visible::text(&message.line)));
        let headers = message.headers.iter().filter(|_| level == Level::Details);
        let headers = headers.map(|header| format!("{}: {}", header.key, header.value));
        let body = message.body.lines().map(ToOwned::to_owned);
        let lines: Vec<String> = headers.chain(body).collect();
        for shown in lines.iter().take(SHOWN_LINES) {
            line(text, 1, &style::faint(format!("│ {}", visible::text(shown))));
        }
        if lines.len() > SHOWN_LINES {
            line(text, 1, &style::faint(format!("│ and {} more lines", lines.len() - SHOWN_LINES)));
        }
    }
}

fn assertion(text: &mut String, assertion: &Assertion, errors: &mut SharedErrors) {
    line(text, 2, &format!("{} {}", mark(assertion.outcome.into()), assertion.assertion));
    let groups = alike(assertion.culprits(), |result| (&result.observed, &result.expected, &result.error));
    for (_, group) in groups.iter().take(SHOWN_RESULTS) {
        if let Some(result) = errors.once(&assertion.assertion, group[0]) {
            line(text, 3, &span_result(&assertion.assertion, &result, group.len() - 1));
        }
    }
    if groups.len() > SHOWN_RESULTS {
        let spans: usize = groups[SHOWN_RESULTS..].iter().map(|(_, group)| group.len()).sum();
        line(text, 3, &style::faint(format!("and {spans} more spans with other values")));
    }
    if assertion.omitted.failed > 0 {
        let omitted = assertion.omitted.failed;
        line(text, 3, &style::faint(format!("and {omitted} more spans, which there was no room to list")));
    }
    if let Some(advice) = &assertion.advice {
        line(text, 3, &style::unsure(advice));
    }
}

/// Groups things by `said`, in the order of first occurrence.
fn alike<T, K: PartialEq>(things: impl IntoIterator<Item = T>, said: impl Fn(&T) -> K) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for thing in things {
        let key = said(&thing);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(thing),
            None => groups.push((key, vec![thing])),
        }
    }
    groups
}

/// Formats the result of one span, and how many others have the same.
fn span_result(assertion: &str, result: &SpanResult, others: usize) -> String {
    let place = match (result.span.is_empty(), result.service.is_empty()) {
        (true, _) => "the selection".to_owned(),
        (false, true) => format!("`{}`", result.span),
        (false, false) => format!("`{}` ({})", result.span, result.service),
    };
    let place = match others {
        0 => place,
        _ => format!("{place} and {}", counted(others, "more span")),
    };
    let alias = result.alias.as_ref().map(|name| format!(" (read from {name})")).unwrap_or_default();
    match result.error.as_deref() {
        None if result.passed => {
            format!("{place}: the claim holds here, got {}{alias}", style::bad(or_nothing(&result.observed)))
        }
        None | Some("no match") => {
            let (observed, expected) = (or_nothing(&result.observed), expected(assertion, &result.expected));
            format!("{place}: got {}{alias}, expected {}", style::bad(observed), style::good(expected))
        }
        Some(error) => format!("{place}: {}", style::bad(error)),
    }
}

/// A sentence without the reasons that are given elsewhere in the same report.
fn without_reasons(sentence: &str, told: &[&String]) -> String {
    told.iter().fold(sentence.to_owned(), |sentence, reason| sentence.replace(&format!(": {reason}"), ""))
}

fn output(text: &mut String, output: &Output, told: &[&String]) {
    let value = match &output.error {
        Some(error) => style::bad(without_reasons(error, told)),
        None => style::faint(&output.value),
    };
    line(text, 1, &format!("{} {} = {value}", style::faint("→"), output.name));
}

/// The last lines: the number of tests per outcome, and the duration.
pub(crate) fn summary(reports: &[TestReport], took: Duration) -> String {
    let count = |is: fn(Outcome) -> bool| reports.iter().filter(|report| is(report.outcome)).count();
    let passed = count(|outcome| outcome == Outcome::Passed);
    let others = [
        (count(|outcome| outcome == Outcome::Failed), style::bad as fn(String) -> String, "failed"),
        (count(|outcome| outcome == Outcome::Inconclusive), style::unsure, "inconclusive"),
        (count(|outcome| outcome == Outcome::Broken), style::bad, "broken"),
        (count(|outcome| outcome == Outcome::Stopped), style::bad, "stopped"),
        (count(|outcome| matches!(outcome, Outcome::Flaky { .. })), style::unsure, "flaky"),
        (count(|outcome| outcome == Outcome::Skipped), style::faint, "not run"),
        (count(|outcome| outcome == Outcome::Unknown), style::bad, "without a result"),
    ];
    let others = others.into_iter().filter(|(count, ..)| *count > 0);
    let others = others.map(|(count, styled, word)| styled(format!("{count} {word}")));
    let parts: Vec<String> = std::iter::once(style::good(format!("{passed} passed"))).chain(others).collect();
    let slowest = reports.iter().filter_map(|report| report.phases.after_last_span).max();
    let slowest = slowest
        .map(|time| format!("; verdicts at most {} after the last span", duration(time)))
        .unwrap_or_default();
    format!(
        "{}\n{}: {} in {}{}\n",
        listed_again(reports),
        counted(reports.len(), "test"),
        parts.join(", "),
        duration(took),
        style::faint(slowest),
    )
}

/// What did not pass, once more, where the reports above fill more than a screen.
fn listed_again(reports: &[TestReport]) -> String {
    let mut text = String::new();
    for report in reports.iter().filter(|_| reports.len() > SCREEN) {
        if report.outcome.is_pass() || report.outcome == Outcome::Skipped {
            continue;
        }
        let place = report.source.as_ref().map(|source| {
            let place = problems(report).first().and_then(|problem| problem.place);
            style::faint(format!("  {}:{}", visible::text(&source.path), source.line_of(place)))
        });
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n{} {}{}",
            mark(report.outcome),
            visible::text(&report.title()),
            place.unwrap_or_default()
        );
    }
    if text.is_empty() { text } else { text + "\n" }
}

fn mark(outcome: Outcome) -> String {
    match outcome {
        Outcome::Passed => style::good("✔"),
        Outcome::Failed | Outcome::Broken | Outcome::Stopped | Outcome::Unknown => style::bad("✘"),
        Outcome::Inconclusive => style::unsure("?"),
        Outcome::Flaky { .. } => style::unsure("~"),
        Outcome::Skipped => style::faint("-"),
    }
}

fn line(text: &mut String, indent: usize, content: &str) {
    let line = format!("{}{content}", "  ".repeat(indent));
    let line = match style::width() {
        Some(columns) => columns::wrapped(&line, columns, 2 * indent + 2),
        None => line,
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}
