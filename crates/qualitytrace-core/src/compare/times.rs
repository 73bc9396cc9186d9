//! Own times of spans, and when a difference of them counts.

use super::{Speed, Thresholds};
use crate::time::Timestamp;
use crate::trace::{Span, SpanKind, Trace};

/// Returns the nanoseconds from start to end; `None` where one of the two is missing.
pub(super) fn total(span: &Span) -> Option<u64> {
    let end = span.end.filter(|_| span.start != Timestamp::default())?;
    Some(end.as_nanos().saturating_sub(span.start.as_nanos()))
}

/// Returns the nanoseconds of a span in which none of its children ran that `counts`. `None` where it did not end.
pub(super) fn own(trace: &Trace, at: usize, counts: impl Fn(usize) -> bool) -> Option<u64> {
    let total = total(trace.span(at))?;
    let parent = (trace.span(at).start.as_nanos(), trace.span(at).start.as_nanos() + total);
    let children = trace.children(at).filter(|child| counts(*child));
    let mut covered: Vec<(u64, u64)> =
        children.filter_map(|child| interval(trace.span(child), parent)).collect();
    covered.sort_unstable();
    let (mut own, mut until) = (total, parent.0);
    for (start, end) in covered {
        own -= end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    Some(own)
}

/// Returns the part of the parent's time in which this child ran.
fn interval(child: &Span, parent: (u64, u64)) -> Option<(u64, u64)> {
    let total = total(child)?;
    let mut start = child.start.as_nanos();
    // A server answers within the call. If it seems not to, its clock differs from the caller's.
    if child.kind == SpanKind::Server && total <= parent.1 - parent.0 {
        start = start.clamp(parent.0, parent.1 - total);
    }
    let (start, end) = (start.max(parent.0), start.saturating_add(total).min(parent.1));
    (start < end).then_some((start, end))
}

/// Returns the direction of a difference that exceeds both thresholds.
pub(super) fn speed(before: u64, after: u64, thresholds: Thresholds) -> Option<Speed> {
    let difference = u128::from(before.abs_diff(after));
    let is_large = difference > thresholds.least.as_nanos()
        && difference * 100 > u128::from(before) * u128::from(thresholds.percent);
    is_large.then_some(if after > before { Speed::Slower } else { Speed::Faster })
}
