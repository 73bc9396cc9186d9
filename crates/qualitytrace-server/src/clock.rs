//! The server's one clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use qualitytrace_core::time::Timestamp;

/// The time now.
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_nanos(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
}

/// A clock that never shows the same time twice and never goes back, even when the machine's clock does.
#[derive(Debug, Default)]
pub struct Sequence(AtomicU64);

impl Sequence {
    /// A time later than every time given out before.
    pub fn next(&self) -> Timestamp {
        let now = now().as_nanos();
        let advance = |last: u64| Some(now.max(last + 1));
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance).unwrap_or_default();
        Timestamp::from_nanos(now.max(last + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_only_grows() {
        let sequence = Sequence(AtomicU64::new(u64::MAX / 2));
        let times: Vec<Timestamp> = (0..100).map(|_| sequence.next()).collect();
        assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    }
}
