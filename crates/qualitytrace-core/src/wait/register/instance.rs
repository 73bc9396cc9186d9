//! One process of a service: up to which end time it has delivered its spans, how late it delivers, and whether it is
//! still there.

use std::collections::VecDeque;
use std::time::Duration;

use super::clock::ClockOffset;
use super::{DELIVERY_GAP, LAG_WINDOW, Largest, MAX_LAG, SETTLED_DELIVERIES};
use crate::time::Timestamp;

/// Maximum number of watermark steps remembered of an instance.
const MAX_WATERMARKS: usize = 16;
/// By how much a clock may be ahead without being noticed.
const MAX_CLOCK_ERROR: Duration = Duration::from_secs(2);
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
    /// When its spans first arrived.
    pub(in crate::wait) first_span: Timestamp,
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
    pub(in crate::wait) deliveries: u32,
    lag: Largest,
    /// The lag of the first delivery, whose spans may have waited for this server to listen.
    first_lag: Duration,
    /// By how much a late span ended before spans that were delivered already.
    pub(in crate::wait) overtaking: Largest,
    /// The longest time between two deliveries.
    pub(in crate::wait) longest_pause: Duration,
    pub(in crate::wait) clock: ClockOffset,
    /// Whether it is one process; else several may hide behind one entry.
    pub(in crate::wait) is_named: bool,
    /// Whether it may be stopped between two calls.
    pub(in crate::wait) can_freeze: bool,
}

impl Instance {
    /// Begins a new delivery.
    pub(super) fn begin_delivery(&mut self, at: Timestamp) {
        if self.deliveries > 0 {
            self.longest_pause = self.longest_pause.max(at.since(self.counted));
        }
        self.counted = at;
        self.watermark_of_earlier = self.watermark;
        self.deliveries = self.deliveries.saturating_add(1);
        if self.deliveries.is_multiple_of(LAG_WINDOW) {
            self.lag.age();
            self.overtaking.age();
        }
    }

    /// Whether a span shows that the times of this process follow no clock, as those of samples that are sent again and
    /// again: nothing explains them, and they do not go on from one delivery to the next. How late it is is not known.
    pub(super) fn stands_still(&self, end: Timestamp, at: Timestamp) -> bool {
        let earlier = if self.begins_delivery(at) { self.watermark } else { self.watermark_of_earlier };
        self.clock.is_estimated() && earlier.is_some_and(|earlier| end <= earlier)
    }

    /// Whether what arrives now is a delivery of its own. A collector may split one into pieces.
    pub(super) fn begins_delivery(&self, at: Timestamp) -> bool {
        self.watermark.is_none() || at >= self.counted + DELIVERY_GAP
    }

    /// Notes how late a span of the current delivery is.
    fn note_lag(&mut self, end: Timestamp, at: Timestamp) {
        if self.stands_still(end, at) {
            return;
        }
        let raw = at.nanos_since(end);
        self.clock.arrived(raw);
        let lag = raw.saturating_add(self.clock.ahead());
        if lag.unsigned_abs() > nanos(MAX_LAG) {
            return;
        }
        let lag = Duration::from_nanos(lag.max(0).unsigned_abs());
        if self.deliveries <= 1 {
            self.first_lag = self.first_lag.max(lag);
        } else {
            self.lag.saw(lag);
        }
    }

    /// Notes how far its clock is ahead, as a call and its server span show. What was measured by another clock is
    /// forgotten.
    pub(super) fn paired(&mut self, ahead: i64) {
        if self.clock.paired(ahead) {
            (self.deliveries, self.lag, self.first_lag) = (0, Largest::default(), Duration::ZERO);
        }
    }

    /// Returns how late its deliveries are at most.
    pub(in crate::wait) fn largest_lag(&self) -> Duration {
        let first = if self.deliveries < SETTLED_DELIVERIES { self.first_lag } else { Duration::ZERO };
        self.lag.get().max(first)
    }

    /// Returns the latest end among the delivered spans, by this server's clock.
    pub(in crate::wait) fn delivered_until(&self) -> Option<Timestamp> {
        self.watermark.map(|watermark| watermark.shifted(-self.clock.ahead()))
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
        if self.watermark.is_none() {
            self.first_span = at;
        }
        self.overtaking.saw(self.overtaken_by(end, at));
        self.note_lag(end, at);
        // No span ends after it arrived: a made-up time must not prove that everything before it was sent.
        let end = end.min(at.shifted(self.clock.ahead().max(0)) + MAX_CLOCK_ERROR);
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::process::Identity;
    use crate::wait::register::Register;

    const SECOND: u64 = 1_000_000_000;

    /// The deliveries and the largest lag, in seconds, that are known after spans with these ends arrived.
    fn known(arrivals: &[(u64, u64)]) -> (u32, u64) {
        let mut register = Register::default();
        for (end, at) in arrivals {
            let [end, at] = [end, at].map(|seconds| Timestamp::from_nanos(seconds * SECOND));
            register.delivered("shop", &Identity::default(), end, at);
        }
        let shop = register.get("shop").unwrap();
        (shop.deliveries, shop.largest_lag().as_secs())
    }

    #[test]
    fn samples_that_are_sent_again_say_nothing_about_lags() {
        assert_eq!(known(&[(100, 90_000), (100, 90_020), (99, 90_040), (100, 90_090)]), (1, 0));
        // A clock that is behind goes on; the first delivery is the most prompt one.
        assert_eq!(known(&[(100, 90_000), (120, 90_022), (140, 90_045)]), (3, 5));
        // A delivery that is late by a right clock counts.
        assert_eq!(known(&[(90_000, 90_001), (89_990, 90_020)]), (2, 30));
    }
}
