//! How far the clock of a process is ahead of this server's.
//!
//! A call and the server span that answers it bound the difference of two clocks on both sides: by one clock, the
//! server begins after the call does and ends before it. From the trigger, whose times are this server's own, the
//! differences add up.

use std::collections::VecDeque;
use std::time::Duration;

/// Pairs of a call and its server span that are remembered.
const MAX_PAIRS: usize = 16;
/// What no delay explains: a span that arrives this long before it ended, by the clock of its process, or so long after
/// its end that no exporter holds it back for as long. A collector that holds everything for some seconds looks exactly like a
/// clock that is behind by as much.
const EARLIEST: i64 = -2_000_000_000;
const LATEST: i64 = 60_000_000_000;
/// Added where the difference of the clocks is only estimated.
const ESTIMATE_MARGIN: Duration = Duration::from_secs(1);

/// By how much the clock of a process is ahead of this server's, in nanoseconds; negative when it is behind.
#[derive(Debug, Clone, Default)]
pub(in crate::wait) struct ClockOffset {
    pairs: VecDeque<i64>,
    median: Option<i64>,
    /// The smallest time from the end of a span to its arrival, and the largest.
    lags: Option<(i64, i64)>,
}

impl ClockOffset {
    /// Notes the difference that a call and its server span show. Returns whether the known difference changed by more than
    /// a second.
    pub(super) fn paired(&mut self, ahead: i64) -> bool {
        let before = self.ahead();
        if self.pairs.len() == MAX_PAIRS {
            self.pairs.pop_front();
        }
        self.pairs.push_back(ahead);
        let mut sorted: Vec<i64> = self.pairs.iter().copied().collect();
        let middle = sorted.len() / 2;
        let (_, median, _) = sorted.select_nth_unstable(middle);
        self.median = Some(*median);
        before.abs_diff(self.ahead()) > 1_000_000_000
    }

    /// Notes the time from the end of a span, by its process' clock, to its arrival.
    pub(super) fn arrived(&mut self, lag: i64) {
        let (low, high) = self.lags.unwrap_or((lag, lag));
        self.lags = Some((low.min(lag), high.max(lag)));
    }

    /// By how much the clock is ahead, as far as it is known.
    pub(in crate::wait) fn ahead(&self) -> i64 {
        self.median.or_else(|| self.estimate().map(|(ahead, _)| ahead)).unwrap_or(0)
    }

    /// Whether only the lags of its spans say how far the clock is ahead.
    pub(super) fn is_estimated(&self) -> bool {
        self.median.is_none() && self.estimate().is_some()
    }

    /// What a comparison with a time of this process must allow for.
    pub(in crate::wait) fn margin(&self) -> Duration {
        match (self.median, self.estimate()) {
            (None, Some((_, spread))) => spread.saturating_add(ESTIMATE_MARGIN),
            (Some(_), _) | (None, None) => Duration::ZERO,
        }
    }

    /// The difference that no delay explains, and by how much the lags differ.
    fn estimate(&self) -> Option<(i64, Duration)> {
        let (low, high) = self.lags.filter(|(low, _)| !(EARLIEST..=LATEST).contains(low))?;
        Some((-low, Duration::from_nanos(high.abs_diff(low))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_delay_is_not_taken_for_a_clock_that_is_behind() {
        let mut clock = ClockOffset::default();
        clock.arrived(4 * SECOND);
        clock.arrived(30 * SECOND);
        assert_eq!((clock.ahead(), clock.margin()), (0, Duration::ZERO));
    }

    #[test]
    fn what_no_delay_explains_is_a_clock() {
        for (lag, ahead) in [(-300 * SECOND, 300 * SECOND), (600 * SECOND, -600 * SECOND)] {
            let mut clock = ClockOffset::default();
            clock.arrived(lag);
            clock.arrived(lag + 2 * SECOND);
            assert_eq!(clock.ahead(), ahead);
            assert_eq!(clock.margin(), Duration::from_secs(3));
        }
    }

    #[test]
    fn pairs_win_over_estimates_and_their_median_counts() {
        let mut clock = ClockOffset::default();
        clock.arrived(-300 * SECOND);
        assert!(clock.paired(5 * SECOND), "it was taken to be 300 s");
        assert!(!clock.paired(5 * SECOND));
        assert!(!clock.paired(500 * SECOND), "one odd pair changes nothing");
        assert_eq!((clock.ahead(), clock.margin()), (5 * SECOND, Duration::ZERO));
    }
}
