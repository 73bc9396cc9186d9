//! What arrived of other traces while a run was waited for.

use std::time::Duration;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Span;

use crate::base::clock;
use crate::receive::source::Source;
use crate::storage::store;

/// Export requests that are searched.
const LOOKED_AT: u64 = 200;
/// What these may take in memory, in bytes.
const LOOKED_AT_BYTES: u64 = 16 << 20;
/// The tolerated clock skew of the system under test.
const CLOCK_ERROR: Duration = Duration::from_secs(2);

/// Spans of another trace that arrived together.
#[derive(Debug)]
pub(super) struct ForeignSpans {
    pub(super) trace: TraceId,
    /// Whether a run has caused that trace.
    pub(super) is_of_run: bool,
    pub(super) spans: Vec<Span>,
}

/// Returns the latest spans of other traces than this one that have arrived since.
pub(super) async fn foreign_spans(
    source: &Source,
    own: TraceId,
    since: Timestamp,
) -> Result<Vec<ForeignSpans>, store::Error> {
    let arrivals = source.store().arrivals_before(clock::now() + CLOCK_ERROR, LOOKED_AT).await?;
    let (traces, times): (Vec<TraceId>, Vec<Timestamp>) =
        arrivals.into_iter().filter(|(trace, at)| *at >= since && *trace != own).unzip();
    let of_runs = source.store().traces_of_runs(&traces).await?;
    let arrivals = source.arrivals(&times, LOOKED_AT_BYTES).await?.into_iter();
    let foreign = arrivals.filter(|(trace, _)| *trace != own).filter_map(|(trace, arrival)| {
        Some(ForeignSpans { trace, is_of_run: of_runs.contains(&trace), spans: arrival.spans? })
    });
    Ok(foreign.collect())
}

/// A span as texts name it: with its service, if that is known.
pub(super) fn named(name: &str, service: &str) -> String {
    if service.is_empty() { format!("`{name}`") } else { format!("`{name}` ({service})") }
}

/// Whether a span was made between these times, as far as clocks agree.
pub(super) fn is_during(span: &Span, start: Timestamp, end: Timestamp) -> bool {
    span.start + CLOCK_ERROR >= start && span.end.unwrap_or(span.start) <= end + CLOCK_ERROR
}
