//! The server's one clock. It is monotonic, whatever happens to the machine's clock: a timeout of four seconds takes
//! four seconds. When nothing is being timed, it is set to the machine's clock again.
//!
//! A machine's clock can be wrong by years: a battery is empty, a virtual machine is restored. Stored data would then be
//! old at once. So its age is not taken from a clock that jumped forward until there was time to correct it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use qualitytrace_core::time::Timestamp;

static CLOCK: LazyLock<Clock> = LazyLock::new(|| Clock::set_to(machine_time(), Instant::now()));

/// A difference between two clocks beyond this is a jump.
const JUMP: Duration = Duration::from_hours(24);
/// How long a jump forward is doubted.
const DOUBT: Duration = Duration::from_hours(1);

/// Returns the current time.
pub fn now() -> Timestamp {
    CLOCK.at(Instant::now())
}

/// Returns the time that tells the age of stored data: now, without a jump forward that is still doubted.
pub fn trusted() -> Timestamp {
    CLOCK.trusted(Instant::now())
}

/// Sets the clock to the machine's time. A measurement that is under way would include the difference.
pub fn adjust() {
    match CLOCK.set(machine_time(), Instant::now()) {
        Some(Jump::Forward(by)) => tracing::warn!(
            "the machine's clock went forward by {} days: correct it within an hour if it is wrong; until then, nothing \
             is removed for its age",
            days(by)
        ),
        Some(Jump::Back(by)) => tracing::warn!(
            "the machine's clock went back by {} days: correct it if it is wrong; what is stored now is listed as older \
             than what was stored before",
            days(by)
        ),
        None => {}
    }
}

/// Compares the clock at the start with the time of what was stored last.
pub(crate) fn compare_with_stored(last: Timestamp) {
    let now = Instant::now();
    match Jump::between(last.as_nanos(), CLOCK.at(now).as_nanos()) {
        Some(Jump::Forward(by)) => {
            CLOCK.doubt(by, now);
            tracing::warn!(
                "the machine's clock is {} days ahead of what was stored last: correct it within an hour if it is \
                 wrong; until then, nothing is removed for its age",
                days(by)
            );
        }
        Some(Jump::Back(by)) => tracing::warn!(
            "the machine's clock is {} days behind what was stored last: correct it if it is wrong; what is stored now \
             is listed as older than that",
            days(by)
        ),
        None => {}
    }
}

/// Whole days, rounded.
fn days(time: Duration) -> u64 {
    (time.as_secs() + 12 * 3600) / (24 * 3600)
}

/// Returns the machine's time in nanoseconds since the epoch.
fn machine_time() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nanos(since_epoch)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A difference between two clocks that does not come from running a little faster or slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jump {
    Forward(Duration),
    Back(Duration),
}

impl Jump {
    /// The jump from one time to another, in nanoseconds since the epoch.
    fn between(from: u64, to: u64) -> Option<Self> {
        let by = Duration::from_nanos(from.abs_diff(to));
        (by > JUMP).then_some(if to > from { Self::Forward(by) } else { Self::Back(by) })
    }
}

#[derive(Debug)]
struct Clock {
    began: Instant,
    /// The time at `began`, in nanoseconds since the epoch.
    base: AtomicU64,
    /// By how much the clock may be ahead, and until when that is doubted.
    doubt: Mutex<Option<(Duration, Instant)>>,
}

impl Clock {
    fn set_to(time: u64, began: Instant) -> Self {
        Self { began, base: AtomicU64::new(time), doubt: Mutex::default() }
    }

    fn at(&self, instant: Instant) -> Timestamp {
        let passed = nanos(instant.saturating_duration_since(self.began));
        Timestamp::from_nanos(self.base.load(Ordering::Relaxed).saturating_add(passed))
    }

    fn trusted(&self, instant: Instant) -> Timestamp {
        let doubt = *self.doubt.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = doubt.filter(|(_, until)| instant < *until).map_or(Duration::ZERO, |(by, _)| by);
        self.at(instant) - ahead
    }

    /// Sets the clock, and returns by how much it jumped.
    fn set(&self, time: u64, instant: Instant) -> Option<Jump> {
        let before = self.at(instant).as_nanos();
        let passed = nanos(instant.saturating_duration_since(self.began));
        self.base.store(time.saturating_sub(passed), Ordering::Relaxed);
        let jump = Jump::between(before, time);
        match jump {
            Some(Jump::Forward(by)) => self.doubt(by, instant),
            // Back again: that was the correction. What is left of the first jump is not known to be wrong.
            Some(Jump::Back(_)) => *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = None,
            None => {}
        }
        jump
    }

    /// Doubts that the clock is right, which is ahead by this much.
    fn doubt(&self, by: Duration, instant: Instant) {
        let mut doubt = self.doubt.lock().unwrap_or_else(PoisonError::into_inner);
        let before = doubt.filter(|(_, until)| instant < *until).map_or(Duration::ZERO, |(by, _)| by);
        *doubt = Some((before.saturating_add(by), instant + DOUBT));
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
    fn a_jump_forward_is_trusted_after_an_hour_and_one_back_at_once() {
        const DAY: u64 = 24 * 3600;
        let began = Instant::now();
        let clock = Clock::set_to(100 * DAY * SECOND, began);
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let trusted = |seconds: u64| clock.trusted(at(seconds)).as_nanos() / SECOND;
        // An hour more is no jump: summer time does not change this clock, but people do.
        assert_eq!(clock.set((100 * DAY + 3_600) * SECOND, at(0)), None);
        assert_eq!(trusted(0), 100 * DAY + 3_600);
        clock.set(100 * DAY * SECOND, at(0));
        let year = Duration::from_secs(365 * DAY);
        assert_eq!(clock.set(465 * DAY * SECOND, at(0)), Some(Jump::Forward(year)));
        assert_eq!([trusted(0), trusted(3_599)], [100 * DAY, 100 * DAY + 3_599]);
        assert_eq!(trusted(3_600), 465 * DAY + 3_600);
        // Two jumps are doubted together.
        clock.set(830 * DAY * SECOND, at(4_000));
        clock.set(1_195 * DAY * SECOND, at(5_000));
        assert_eq!(trusted(5_000) / DAY, 465);
        assert!(matches!(clock.set(465 * DAY * SECOND, at(5_001)), Some(Jump::Back(_))));
        assert_eq!(trusted(5_001), 465 * DAY);
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
