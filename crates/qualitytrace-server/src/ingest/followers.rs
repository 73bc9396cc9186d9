//! Who wants to know when a trace changes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use qualitytrace_core::id::TraceId;
use tokio::sync::watch;

/// Traces that somebody follows. A trace that nobody follows costs nothing.
#[derive(Debug, Default)]
pub(super) struct Followers(Mutex<HashMap<TraceId, watch::Sender<u64>>>);

impl Followers {
    pub(super) fn follow(&self, trace: TraceId) -> watch::Receiver<u64> {
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|_, sender| sender.receiver_count() > 0);
        followed
            .entry(trace)
            .or_insert_with(|| watch::channel(0).0)
            .subscribe()
    }

    pub(super) fn wake(&self, traces: impl Iterator<Item = TraceId>) {
        let followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.is_empty() {
            return;
        }
        for sender in traces.filter_map(|trace| followed.get(&trace)) {
            sender.send_modify(|changes| *changes += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_followers_of_the_trace_are_woken() {
        let [one, two] = [[1; 16], [2; 16]].map(|bytes| TraceId::from_bytes(bytes).unwrap());
        let followers = Followers::default();
        let (first, second) = (followers.follow(one), followers.follow(two));
        followers.wake([one].into_iter());
        assert!(first.has_changed().unwrap());
        assert!(!second.has_changed().unwrap());
    }
}
