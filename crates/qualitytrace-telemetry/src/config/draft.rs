//! Sinks and views that are being read: every setting of the table has a field here, which begins with its default.

use std::time::Duration;

use super::{MetricView, Role, Sink, Transport, metrics};

/// The format that a sink is written in; the defaults differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `telemetry.exporters.<name>`
    Exporter,
    /// `tracer.<id>`
    Tracer,
    /// `metrics.open-telemetry`
    Metrics,
}

/// A sink and the settings that decide whether it exists and what it sends.
#[derive(Debug)]
pub(super) struct SinkDraft {
    pub(super) sink: Sink,
    /// `false` leaves the sink out.
    pub(super) enabled: bool,
    /// Whether an endpoint without a scheme is plain.
    pub(super) insecure: bool,
    pub(super) signals: Signals,
}

/// The signals that a sink sends.
#[derive(Debug)]
pub(super) struct Signals {
    pub(super) spans: bool,
    pub(super) metrics: bool,
    pub(super) logs: bool,
}

impl SinkDraft {
    /// The defaults.
    pub(super) fn new(id: &str, transport: Transport, role: Role, dialect: Dialect) -> Self {
        let mut sink = Sink { role, ..Sink::new(id, transport) };
        if dialect == Dialect::Exporter {
            sink.interval = Duration::from_secs(10);
            sink.delivery.throttle = Duration::from_millis(100);
        }
        let signals = Signals { spans: true, metrics: dialect == Dialect::Exporter, logs: false };
        Self { sink, enabled: true, insecure: true, signals }
    }
}

/// A view and the parameters of its aggregation.
#[derive(Debug)]
pub(super) struct ViewDraft {
    pub(super) view: MetricView,
    /// Numbers as they are written; they count only for explicit buckets.
    pub(super) boundaries: Option<Vec<String>>,
    pub(super) max_size: u32,
    pub(super) max_scale: i8,
    pub(super) record_min_max: bool,
}

impl Default for ViewDraft {
    fn default() -> Self {
        Self {
            view: MetricView::default(),
            boundaries: None,
            max_size: metrics::DEFAULT_MAX_SIZE,
            max_scale: metrics::DEFAULT_MAX_SCALE,
            record_min_max: metrics::DEFAULT_RECORD_MIN_MAX,
        }
    }
}
