//! The server's one clock. It is monotonic, whatever happens to the machine's clock: a timeout of four seconds takes
//! four seconds. When nothing is being timed, it is set to the machine's clock again.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use qualitytrace_core::time::Timestamp;

static CLOCK: LazyLock<Clock> = LazyLock::new(|| Clock::set_to(machine_time(), Instant::now()));

/// Returns the current time.
pub fn now() -> Timestamp {
    CLOCK.at(Instant::now())
}

/// Sets the clock to the machine's time. A measurement that is under way would include the difference.
pub fn adjust() {
    CLOCK.set(machine_time(), Instant::now());
}

/// Returns the machine's time in nanoseconds since the epoch.
fn machine_time() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nanos(since_epoch)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Debug)]
struct Clock {
    began: Instant,
    /// The time at `began`, in nanoseconds since the epoch.
    base: AtomicU64,
}

impl Clock {
    fn set_to(time: u64, began: Instant) -> Self {
        Self { began, base: AtomicU64::new(time) }
    }

    fn at(&self, instant: Instant) -> Timestamp {
        let passed = nanos(instant.saturating_duration_since(self.began));
        Timestamp::from_nanos(self.base.load(Ordering::Relaxed).saturating_add(passed))
    }

    fn set(&self, time: u64, instant: Instant) {
        let passed = nanos(instant.saturating_duration_since(self.began));
        self.base.store(time.saturating_sub(passed), Ordering::Relaxed);
    }
}

/// A sequence is never further ahead of the clock than this, unless the clock was set back.
const AHEAD: u64 = 1_000_000_000;

/// A source of unique timestamps. They go back only when the server's clock is set back.
#[derive(Debug, Default)]
pub struct Sequence(AtomicU64);

impl Sequence {
    /// Returns a time later than all returned before.
    pub fn next(&self) -> Timestamp {
        self.next_at(now().as_nanos())
    }

    fn next_at(&self, now: u64) -> Timestamp {
        let after = |last: u64| if last > now.saturating_add(AHEAD) { now } else { now.max(last + 1) };
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
        Timestamp::from_nanos(after(last.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn it_goes_on_evenly_until_it_is_set() {
        let began = Instant::now();
        let clock = Clock::set_to(5_000 * SECOND, began);
        let at = |seconds: u64| clock.at(began + Duration::from_secs(seconds)).as_nanos() / SECOND;
        assert_eq!([at(0), at(1), at(60)], [5_000, 5_001, 5_060]);
        clock.set(1_400 * SECOND, began + Duration::from_mins(1));
        assert_eq!([at(60), at(61)], [1_400, 1_401]);
    }

    #[test]
    fn a_sequence_only_grows() {
        let sequence = Sequence::default();
        let times: Vec<Timestamp> = (0..100).map(|_| sequence.next()).collect();
        assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
        let ahead = sequence.next_at(9 * SECOND);
        assert_eq!(sequence.next_at(9 * SECOND - 7), Timestamp::from_nanos(ahead.as_nanos() + 1));
    }

    #[test]
    fn a_sequence_goes_back_with_the_clock() {
        let sequence = Sequence::default();
        sequence.next_at(5_000 * SECOND);
        assert_eq!(sequence.next_at(1_400 * SECOND), Timestamp::from_nanos(1_400 * SECOND));
    }
}
