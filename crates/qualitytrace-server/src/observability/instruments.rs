//! The metric instruments: runs, phases, ingest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use qualitytrace_telemetry::{Histogram, KeyValue, Meter, Telemetry};

use crate::receive::ingest::{Counters, Ingest};
use crate::wire::Outcome;

/// Histogram bounds in seconds: runs wait for seconds, some for minutes.
const PHASE_BOUNDS: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Counters and histograms.
#[derive(Debug, Clone)]
pub(super) struct Instruments {
    runs: opentelemetry::metrics::Counter<u64>,
    phase_duration: Histogram,
}

impl Instruments {
    pub(super) fn new(telemetry: &Telemetry) -> Self {
        Self {
            runs: telemetry
                .meter("qualitytrace")
                .u64_counter("qualitytrace.runs")
                .with_unit("{run}")
                .with_description("Runs that ended, by state and outcome.")
                .build(),
            phase_duration: telemetry.histogram(
                "qualitytrace",
                "qualitytrace.run.phase.duration",
                "s",
                "Duration of the phases of runs.",
                PHASE_BOUNDS,
            ),
        }
    }

    pub(super) fn run_ended(&self, state: &'static str, outcome: Option<Outcome>) {
        let outcome = match outcome {
            Some(Outcome::Passed) => "passed",
            Some(Outcome::Failed) => "failed",
            Some(Outcome::Inconclusive) => "inconclusive",
            None => "none",
        };
        self.runs.add(1, &[KeyValue::new("state", state), KeyValue::new("outcome", outcome)]);
    }

    pub(super) fn phase(&self, phase: &'static str, took: Duration) {
        self.phase_duration.record(took.as_secs_f64(), &[KeyValue::new("phase", phase)]);
    }
}

/// Exports the counters of delivered items and refused requests, and the size of the store.
pub(super) fn observe_ingest(meter: &Meter, ingest: &Arc<Ingest>) {
    let observed = Arc::downgrade(ingest);
    let _ = meter
        .u64_observable_counter("qualitytrace.ingest.items")
        .with_unit("{item}")
        .with_description("What became of spans, log records and metric points that were delivered.")
        .with_callback(move |observer| {
            with(&observed, |counters| {
                for (signal, fate, counter) in [
                    ("spans", "stored", &counters.spans_stored),
                    ("spans", "rejected", &counters.spans_rejected),
                    ("logs", "stored", &counters.logs_stored),
                    ("logs", "without_trace", &counters.logs_unbound),
                    ("metrics", "counted", &counters.metric_points),
                ] {
                    let labels = [KeyValue::new("signal", signal), KeyValue::new("fate", fate)];
                    observer.observe(read(counter), &labels);
                }
            });
        })
        .build();
    let observed = Arc::downgrade(ingest);
    let _ = meter
        .u64_observable_counter("qualitytrace.ingest.refused_requests")
        .with_unit("{request}")
        .with_description("OTLP requests that were refused, by reason.")
        .with_callback(move |observer| {
            with(&observed, |counters| {
                for (reason, counter) in [
                    ("busy", &counters.refused_busy),
                    ("full", &counters.refused_full),
                    ("failed", &counters.refused_failed),
                    ("invalid", &counters.refused_invalid),
                ] {
                    observer.observe(read(counter), &[KeyValue::new("reason", reason)]);
                }
            });
        })
        .build();
    let observed = Arc::downgrade(ingest);
    let _ = meter
        .u64_observable_gauge("qualitytrace.store.retained_bytes")
        .with_unit("By")
        .with_description("Bytes of traces and logs in the store.")
        .with_callback(move |observer| {
            if let Some(ingest) = observed.upgrade() {
                observer.observe(ingest.retained_bytes(), &[]);
            }
        })
        .build();
}

/// Exports how many runs are queued and how many are under way, and how many are watched for late spans.
pub(super) fn observe_runs(
    meter: &Meter,
    unfinished: impl Fn() -> Option<(usize, usize)> + Send + Sync + 'static,
    watched: impl Fn() -> Option<(usize, usize)> + Send + Sync + 'static,
) {
    let _ = meter
        .u64_observable_gauge("qualitytrace.runs.watched")
        .with_unit("{run}")
        .with_description("Judged runs of this server that are watched for late spans.")
        .with_callback(move |observer| {
            if let Some((loaded, parked)) = watched() {
                observer.observe(loaded as u64, &[KeyValue::new("state", "loaded")]);
                observer.observe(parked as u64, &[KeyValue::new("state", "parked")]);
            }
        })
        .build();
    let _ = meter
        .u64_observable_gauge("qualitytrace.runs.unfinished")
        .with_unit("{run}")
        .with_description("Runs of this server that are queued or in progress.")
        .with_callback(move |observer| {
            if let Some((waiting, under_way)) = unfinished() {
                observer.observe(waiting as u64, &[KeyValue::new("state", "waiting")]);
                observer.observe(under_way as u64, &[KeyValue::new("state", "under_way")]);
            }
        })
        .build();
}

fn with(ingest: &Weak<Ingest>, read: impl FnOnce(&Counters)) {
    if let Some(ingest) = ingest.upgrade() {
        read(ingest.counters());
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
