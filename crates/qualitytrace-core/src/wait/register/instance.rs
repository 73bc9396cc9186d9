//! One process of a service, and up to which end time it has delivered its spans.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{Largest, text};
use crate::time::Timestamp;
use crate::trace::Resource;
use crate::value::Value;

/// Maximum number of watermark steps remembered of an instance.
const MAX_WATERMARKS: usize = 16;
/// Intervals between metrics to be known before one counts as overdue.
const ENOUGH_METRICS: u32 = 3;

/// The kind of telemetry that a process sends besides spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Sent regularly, with or without work.
    Metrics,
    /// Sent when there is something to log.
    Logs,
}

/// What is known of one instance.
#[derive(Debug, Clone, Default)]
pub(in crate::wait) struct Instance {
    /// The history of the watermark: the latest end among the delivered spans, and when its span arrived.
    watermarks: VecDeque<(Timestamp, Timestamp)>,
    /// The latest end among the delivered spans.
    pub(in crate::wait) watermark: Option<Timestamp>,
    /// The watermark before the latest delivery.
    watermark_before: Option<Timestamp>,
    pub(in crate::wait) first_arrival: Timestamp,
    /// When its spans last arrived.
    pub(in crate::wait) last_arrival: Timestamp,
    /// When its metrics or logs last arrived.
    pub(in crate::wait) last_signal: Option<Timestamp>,
    last_metrics: Option<Timestamp>,
    /// The largest interval between its metrics, and how many intervals are known.
    metrics_gap: Largest,
    metrics_gaps: u32,
    /// When its last delivery began.
    pub(super) counted: Timestamp,
    /// The latest end among the spans of earlier deliveries.
    watermark_of_earlier: Option<Timestamp>,
}

impl Instance {
    /// Begins a new delivery.
    pub(super) fn begin_delivery(&mut self, at: Timestamp) {
        self.counted = at;
        self.watermark_of_earlier = self.watermark;
    }

    /// Returns how long after a span that ended later this one arrived.
    pub(super) fn disorder(&self, end: Timestamp, at: Timestamp) -> Duration {
        let passed = self.watermarks.partition_point(|(watermark, _)| *watermark <= end);
        match self.watermarks.get(passed) {
            None => Duration::ZERO,
            // The step at which the watermark passed this end is forgotten, but it was not before this delivery,
            // or not before the end itself.
            Some(_) if passed == 0 && self.watermarks.len() == MAX_WATERMARKS => {
                let in_this_delivery = self.watermark_of_earlier.is_none_or(|earlier| earlier < end);
                at.since(if in_this_delivery { self.counted } else { end })
            }
            Some((_, passed_at)) => at.since(*passed_at),
        }
    }

    /// Returns how long before the watermark of earlier deliveries a span ended that arrives at `at`.
    pub(super) fn overtaken_by(&self, end: Timestamp, at: Timestamp) -> Duration {
        let before = if at > self.last_arrival { self.watermark } else { self.watermark_before };
        before.map_or(Duration::ZERO, |watermark| watermark.since(end))
    }

    pub(super) fn arrived(&mut self, end: Timestamp, at: Timestamp) {
        self.heard_first(at);
        if at > self.last_arrival {
            self.watermark_before = self.watermark;
        }
        self.last_arrival = self.last_arrival.max(at);
        self.watermark = self.watermark.max(Some(end));
        if self.watermarks.back().is_some_and(|(watermark, _)| *watermark >= end) {
            return;
        }
        if self.watermarks.len() == MAX_WATERMARKS {
            self.watermarks.pop_front();
        }
        self.watermarks.push_back((end, at));
    }
}

impl Instance {
    /// Returns when it last sent any telemetry.
    pub(in crate::wait) fn last_heard(&self) -> Timestamp {
        self.last_signal.map_or(self.last_arrival, |at| at.max(self.last_arrival))
    }

    pub(super) fn signalled(&mut self, signal: Signal, at: Timestamp) {
        self.heard_first(at);
        self.last_signal = self.last_signal.max(Some(at));
        if signal == Signal::Logs {
            return;
        }
        if let Some(before) = self.last_metrics.replace(at) {
            self.metrics_gap.saw(at.since(before));
            self.metrics_gaps = self.metrics_gaps.saturating_add(1);
        }
    }

    /// Whether it used to send metrics, and the next ones are overdue.
    pub(in crate::wait) fn stopped_signalling(&self, now: Timestamp) -> bool {
        let gap = self.metrics_gap.get();
        self.metrics_gaps >= ENOUGH_METRICS && self.last_metrics.is_some_and(|at| now > at + gap + gap / 2)
    }

    fn heard_first(&mut self, at: Timestamp) {
        if self.watermark.is_none() && self.last_signal.is_none() {
            self.first_arrival = at;
        }
    }
}

/// Whether a resource identifies the process of its service.
pub fn names_instance(resource: &Resource) -> bool {
    !instance_id(resource).is_empty()
}

/// Returns the id that distinguishes the processes of a service; empty when the resource has none.
pub(super) fn instance_id(resource: &Resource) -> Arc<str> {
    let host = || text(resource, "host.name").unwrap_or_default();
    match (text(resource, "service.instance.id"), resource.attributes.get("process.pid")) {
        (Some(id), _) => id,
        (None, Some(Value::Int(pid))) => format!("{}/{pid}", host()).into(),
        (None, _) => host(),
    }
}
