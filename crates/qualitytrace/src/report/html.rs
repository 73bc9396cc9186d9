//! The report as one HTML file that needs no network and no script: what passed, what did not and why, and the waterfall
//! of the trace.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use qualitytrace_server::wire::verdict::Assertion;
use qualitytrace_server::wire::{Span, Trace};

use super::exchange::Message;
use super::{TestEnding, TestReport, problems, visible};
use crate::terminal::{counted, duration};

/// Limit on rows of a waterfall; the rest is counted.
const MAX_ROWS: usize = 500;

/// The file is well-formed XML, too: what another parser reads in it is what was meant.
const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<meta charset=\"utf-8\"/>
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>
<title>Qualitytrace report</title>
<style>
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
details { border: 1px solid #8884; border-radius: .4rem; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; display: flex; gap: .8rem; }
summary .time { margin-left: auto; opacity: .7; font-variant-numeric: tabular-nums; }
.passed, .recovered { color: #178a3c; } .failed, .broken, .stopped, .unknown, .flaky { color: #c8281e; }
.inconclusive { color: #a66b00; } .skipped { opacity: .6; }
.row { display: grid; grid-template-columns: minmax(10rem, 2fr) 8rem 3fr 6rem; gap: .5rem; align-items: center; }
.row > span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.axis { position: relative; height: .8rem; background: #8881; }
.bar { position: absolute; height: 100%; min-width: 2px; background: #178a3c; }
.culprit .bar { background: #c8281e; } .culprit { color: #c8281e; font-weight: 600; }
.num { text-align: right; font-variant-numeric: tabular-nums; }
pre { overflow-x: auto; margin: .3rem 0; }
</style>
";

/// Renders the file.
pub(crate) fn document(reports: &[TestReport], took: Duration) -> String {
    let passed = reports.iter().filter(|report| report.outcome.is_pass()).count();
    let all = counted(reports.len(), "test");
    let mut text = HEAD.to_owned();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "<h1>{passed} of {all} passed</h1>\n<p>in {}</p>", duration(took));
    for report in reports {
        let open = if report.outcome.is_pass() { "" } else { " open" };
        let word = report.outcome.word();
        let _ = writeln!(
            text,
            "<details{open}><summary><b class=\"{word}\">{word}</b> <span>{}</span> <span class=\"time\">{}</span></summary>",
            html(&report.title()),
            duration(report.phases.total)
        );
        body(&mut text, report);
        text.push_str("</details>\n");
    }
    text.push_str("</html>\n");
    text
}

fn body(text: &mut String, report: &TestReport) {
    let problems = problems(report);
    if let Some(source) = &report.source {
        let line = source.line_of(problems.first().and_then(|problem| problem.place));
        let _ = writeln!(text, "<p>{}:{line}</p>", html(&source.path));
    }
    if !problems.is_empty() {
        text.push_str("<ul>\n");
        for problem in &problems {
            let _ = writeln!(text, "<li>{}</li>", html(&problem.sentence()));
        }
        text.push_str("</ul>\n");
    }
    for note in &report.notes {
        let _ = writeln!(text, "<p class=\"inconclusive\">{}</p>", html(note));
    }
    if let TestEnding::Judged(verdict) = &report.ending {
        for spec in &verdict.specs {
            let title = if spec.name.is_empty() { &spec.selector } else { &spec.name };
            for hint in spec.nearest.iter().chain(&spec.advice) {
                let _ = writeln!(text, "<p>{}: {}</p>", html(title), html(hint));
            }
        }
    }
    for missing in report.debts.iter().filter(|_| !report.outcome.is_pass()) {
        let _ = writeln!(text, "<p class=\"inconclusive\">missing: {}</p>", html(missing));
    }
    for (title, message) in [("Request", &report.exchange.request), ("Response", &report.exchange.response)] {
        if let Some(message) = message {
            self::message(text, title, message);
        }
    }
    if !report.trace_id.is_empty() {
        let run = match &report.link {
            Some(link) => format!("<a href=\"{}\">Run {}</a>", html(link.as_str()), report.run),
            None => format!("Run {}", report.run),
        };
        let _ = writeln!(text, "<p>{run} of test {}, trace {}</p>", html(&report.id), html(&report.trace_id));
    }
    if let Some(trace) = &report.trace {
        waterfall(text, trace, report);
    }
}

/// A text on one line that is no HTML, within an element or an attribute.
fn html(text: &str) -> String {
    let text = visible::text(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

fn message(text: &mut String, title: &str, message: &Message) {
    let _ = writeln!(text, "<details><summary>{title}: {}</summary><pre>", html(&message.line));
    for header in &message.headers {
        let _ = writeln!(text, "{}: {}", html(&header.key), html(&header.value));
    }
    for line in message.body.lines() {
        let _ = writeln!(text, "{}", html(line));
    }
    text.push_str("</pre></details>\n");
}

fn waterfall(text: &mut String, trace: &Trace, report: &TestReport) {
    let culprits: HashSet<&str> = match &report.ending {
        TestEnding::Judged(verdict) => {
            let assertions = verdict.specs.iter().flat_map(|spec| &spec.assertions);
            assertions.flat_map(Assertion::culprits).filter_map(|result| result.span_id.as_deref()).collect()
        }
        TestEnding::Broken(_) | TestEnding::Skipped(_) => HashSet::new(),
    };
    let first = trace.spans.iter().map(|span| span.start).min().unwrap_or(0);
    let last = trace.spans.iter().map(|span| span.end).max().unwrap_or(0);
    let whole = last.saturating_sub(first).max(1);
    for span in trace.spans.iter().take(MAX_ROWS) {
        row(text, span, first, whole, culprits.contains(span.id.as_str()));
    }
    if trace.spans.len() > MAX_ROWS {
        let _ = writeln!(text, "<p>and {} more spans</p>", trace.spans.len() - MAX_ROWS);
    }
}

fn row(text: &mut String, span: &Span, first: u64, whole: u64, is_culprit: bool) {
    // Tenths of a percent of the time axis.
    let part = |time: u64| u128::from(time) * 1000 / u128::from(whole);
    let (start, length) = (part(span.start.saturating_sub(first)), part(span.end.saturating_sub(span.start)));
    let class = if is_culprit { "row culprit" } else { "row" };
    let _ = writeln!(
        text,
        "<div class=\"{class}\"><span style=\"padding-left:{}rem\">{}{}</span><span>{}</span><span class=\"axis\"><span class=\"bar\" style=\"left:{}.{}%;width:{}.{}%\"></span></span><span class=\"num\">{}</span></div>",
        span.depth.min(40),
        if is_culprit { "✘ " } else { "" },
        html(&span.name),
        html(&span.service),
        start / 10,
        start % 10,
        length / 10,
        length % 10,
        duration(Duration::from_nanos(span.end.saturating_sub(span.start))),
    );
}
