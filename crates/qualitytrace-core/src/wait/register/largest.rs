//! The largest of the latest durations.

use std::time::Duration;

/// The largest of many durations; old ones are forgotten.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::wait) struct Largest {
    now: Duration,
    before: Duration,
}

impl Largest {
    pub(in crate::wait) fn new(duration: Duration) -> Self {
        Self { now: duration, before: Duration::ZERO }
    }

    pub(in crate::wait) fn get(self) -> Duration {
        self.now.max(self.before)
    }

    pub(super) fn saw(&mut self, duration: Duration) {
        self.now = self.now.max(duration);
    }

    pub(super) fn age(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }
}
