//! Counts of responses inside the measured window, and their report.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::answer::Answer;

/// Counts of one run. Responses outside the window are left out.
#[derive(Debug)]
pub(crate) struct Tally {
    from: Instant,
    until: Instant,
    spans_per_request: u64,
    acknowledged_spans: u64,
    rejected_spans: u64,
    refused_requests: BTreeMap<String, u64>,
    errors: BTreeMap<String, u64>,
    skipped: u64,
    latencies: Vec<Duration>,
}

impl Tally {
    pub(crate) fn new(from: Instant, until: Instant, spans_per_request: u64) -> Self {
        Self {
            from,
            until,
            spans_per_request,
            acknowledged_spans: 0,
            rejected_spans: 0,
            refused_requests: BTreeMap::new(),
            errors: BTreeMap::new(),
            skipped: 0,
            latencies: Vec::new(),
        }
    }

    fn covers(&self, time: Instant) -> bool {
        (self.from..self.until).contains(&time)
    }

    /// Counts a response at `now` to a request that was sent `latency` ago.
    pub(crate) fn answered(&mut self, now: Instant, latency: Duration, answer: anyhow::Result<Answer>) {
        if !self.covers(now) {
            return;
        }
        match answer {
            Ok(Answer::Acknowledged { rejected }) => {
                self.acknowledged_spans += self.spans_per_request.saturating_sub(rejected);
                self.rejected_spans += rejected;
                self.latencies.push(latency);
            }
            Ok(Answer::Refused { code }) => *self.refused_requests.entry(code).or_default() += 1,
            Err(error) => *self.errors.entry(format!("{error:#}")).or_default() += 1,
        }
    }

    /// Counts requests that were due at `now` without a free sender.
    pub(crate) fn skipped(&mut self, now: Instant, requests: u64) {
        if self.covers(now) {
            self.skipped += requests;
        }
    }

    /// Reports all counts as JSON.
    pub(crate) fn report(&mut self) -> Value {
        let seconds = (self.until - self.from).as_secs_f64();
        let refused =
            self.refused_requests.values().sum::<u64>() * self.spans_per_request + self.rejected_spans;
        self.latencies.sort_unstable();
        json!({
            "seconds": seconds,
            "acknowledged_spans": self.acknowledged_spans,
            "spans_per_second": per_second(self.acknowledged_spans, seconds),
            "refused_spans": refused,
            "refused_requests": self.refused_requests,
            "errors": self.errors,
            "skipped_requests": self.skipped,
            "latency_ms": { "p50": self.percentile(50), "p99": self.percentile(99), "max": self.percentile(100) },
        })
    }

    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.latencies.len() * percent).div_ceil(100).saturating_sub(1);
        self.latencies.get(rank).map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    // Counts of a benchmark stay far below 2^52.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    let count = count as f64;
    (count / seconds).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_inside_the_window_count() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = Tally::new(at(1000), at(2000), 100);
        let taken = || Ok(Answer::Acknowledged { rejected: 10 });
        for ms in [999, 1000, 1999, 2000] {
            tally.answered(at(ms), Duration::from_millis(5), taken());
        }
        tally.answered(at(1500), Duration::from_millis(5), Ok(Answer::Refused { code: "grpc 8".to_owned() }));
        tally.skipped(at(1500), 3);
        let report = tally.report();
        assert_eq!(report["acknowledged_spans"], 180);
        assert_eq!(report["refused_spans"], 120);
        assert_eq!(report["skipped_requests"], 3);
        assert_eq!(report["latency_ms"]["p99"], 5.0);
    }
}
