//! A trace as a picture: one row a span, indented by depth, with a bar for its time.

use std::collections::HashSet;
use std::time::Duration;

use qualitytrace_server::wire::{Span, Trace, Verdict};

use super::pretty::duration;
use super::style;

/// Rows drawn of one trace; the rest is counted.
const MAX_ROWS: usize = 40;
/// Width of the column with names, indentation included.
const NAME_WIDTH: usize = 44;
/// Width of the column with services.
const SERVICE_WIDTH: usize = 12;
/// Width of the column with bars.
const BAR_WIDTH: u64 = 30;

/// The rows of the picture. Spans on which an assertion failed are marked.
pub(crate) fn draw(trace: &Trace, verdict: &Verdict) -> Vec<String> {
    let culprits: HashSet<&str> = verdict
        .specs
        .iter()
        .flat_map(|spec| &spec.assertions)
        .flat_map(|assertion| &assertion.results)
        .filter(|result| !result.passed)
        .filter_map(|result| result.span_id.as_deref())
        .collect();
    let first = trace.spans.iter().map(|span| span.start).min().unwrap_or(0);
    let last = trace.spans.iter().map(|span| span.end).max().unwrap_or(0);
    let mut rows: Vec<String> = trace
        .spans
        .iter()
        .take(MAX_ROWS)
        .map(|span| row(span, first, last, culprits.contains(span.id.as_str())))
        .collect();
    if trace.spans.len() > MAX_ROWS {
        rows.push(style::faint(format!("and {} more spans", trace.spans.len() - MAX_ROWS)));
    }
    rows
}

fn row(span: &Span, first: u64, last: u64, is_culprit: bool) -> String {
    let mark = if is_culprit { style::bad("✘") } else { " ".to_owned() };
    let name = fitted(&format!("{}{}", "  ".repeat(span.depth), span.name), NAME_WIDTH);
    let service = style::faint(fitted(&span.service, SERVICE_WIDTH));
    let bar = bar(span, first, last);
    let bar = if is_culprit || span.status == "error" { style::bad(bar) } else { style::good(bar) };
    let took = duration(Duration::from_nanos(span.end.saturating_sub(span.start)));
    format!("{mark} {name} {service} {bar} {took:>8}")
}

/// The part of the time axis that the span covers; at least one mark.
fn bar(span: &Span, first: u64, last: u64) -> String {
    let whole = last.saturating_sub(first).max(1);
    let column = |at: u64| {
        let offset = u128::from(at.saturating_sub(first)) * u128::from(BAR_WIDTH) / u128::from(whole);
        u64::try_from(offset).unwrap_or(BAR_WIDTH)
    };
    let start = column(span.start).min(BAR_WIDTH - 1);
    let end = column(span.end).clamp(start + 1, BAR_WIDTH);
    (0..BAR_WIDTH).map(|at| if (start..end).contains(&at) { '━' } else { '·' }).collect()
}

fn fitted(text: &str, width: usize) -> String {
    let cut: String = text.chars().take(width).collect();
    format!("{cut:width$}")
}
