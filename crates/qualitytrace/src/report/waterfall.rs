//! The waterfall of a trace: one row per span, indented by depth, with a bar for its time.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use qualitytrace_server::wire::verdict::Assertion;
use qualitytrace_server::wire::{Span, Trace, Verdict};

use super::visible;
use crate::terminal::{columns, duration, fitting, style};

/// Limit on rows; the rest is counted.
const MAX_ROWS: usize = 40;
/// Widths of the columns with names (indentation included), bars and services.
const WIDTHS: [usize; 3] = [44, 30, 12];
/// The smallest widths.
const LEAST: [usize; 3] = [16, 8, 6];
/// The width of the rest of a row: indentation, mark, time, and the gaps.
const AROUND: usize = 15;

/// How a span is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Plain,
    /// An assertion failed on it.
    Culprit,
    /// A selector selects it.
    Selected,
}

/// Renders the rows. Spans on which an assertion failed are marked, and so are those that report an error.
pub(crate) fn draw(trace: &Trace, verdict: &Verdict) -> Vec<String> {
    let culprits: HashSet<&str> = verdict
        .specs
        .iter()
        .flat_map(|spec| &spec.assertions)
        .flat_map(Assertion::culprits)
        .filter_map(|result| result.span_id.as_deref())
        .collect();
    rows(trace, MAX_ROWS, |at| {
        let is_culprit = culprits.contains(trace.spans[at].id.as_str());
        if is_culprit { Mark::Culprit } else { Mark::Plain }
    })
}

/// Renders the first `most` rows, each with the mark of its span; the rest is counted.
pub(crate) fn rows(trace: &Trace, most: usize, mark: impl Fn(usize) -> Mark) -> Vec<String> {
    let first = trace.spans.iter().map(|span| span.start).min().unwrap_or(0);
    let last = trace.spans.iter().map(|span| span.end).max().unwrap_or(0);
    let widths = fitting(WIDTHS, LEAST, AROUND);
    let shown = trace.spans.iter().enumerate().take(most);
    let mut rows: Vec<String> = shown.map(|(at, span)| row(span, widths, first..last, mark(at))).collect();
    if trace.spans.len() > most {
        rows.push(style::faint(format!("and {} more spans", trace.spans.len() - most)));
    }
    rows
}

fn row(span: &Span, [name, bar, service]: [usize; 3], time: Range<u64>, mark: Mark) -> String {
    let sign = match (mark, span.status.as_str()) {
        (Mark::Culprit, _) => style::bad("✘"),
        (Mark::Selected, _) => style::good("▶"),
        (Mark::Plain, "error") => style::bad("!"),
        (Mark::Plain, _) => " ".to_owned(),
    };
    let name = columns::fitted(&format!("{}{}", "  ".repeat(span.depth), visible::text(&span.name)), name);
    let service = style::faint(columns::fitted(&visible::text(&span.service), service));
    let bar = self::bar(span, bar, time);
    let is_bad = mark == Mark::Culprit || span.status == "error";
    let bar = if is_bad { style::bad(bar) } else { style::good(bar) };
    let took = duration(Duration::from_nanos(span.end.saturating_sub(span.start)));
    format!("{sign} {name} {service} {bar} {took:>8}")
}

/// The bar of a span on the time axis; at least one character.
fn bar(span: &Span, width: usize, Range { start: first, end: last }: Range<u64>) -> String {
    let whole = last.saturating_sub(first).max(1);
    let column = |at: u64| {
        let offset = u128::from(at.saturating_sub(first)) * width as u128 / u128::from(whole);
        usize::try_from(offset).unwrap_or(width)
    };
    let start = column(span.start).min(width - 1);
    let end = column(span.end).clamp(start + 1, width);
    (0..width).map(|at| if (start..end).contains(&at) { '━' } else { '·' }).collect()
}
