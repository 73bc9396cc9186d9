//! Limits on concurrency: `--parallel` bounds triggers, and open files bound the runs that are followed.
//!
//! A run that only waits for its spans holds no trigger permit: as many can wait as can be followed.

use tokio::sync::{Mutex, watch};

/// Limit on runs followed at a time, where open files allow it.
const MOST_FOLLOWED: usize = 1_000;
/// Open files per followed run: both ends of a connection are in this process when the server is, and the server needs
/// files of its own.
const FILES_PER_RUN: usize = 4;
/// Open files that are allowed in any case.
const USUAL_FILES: usize = 1_024;
/// The file limit that this process asks for. Some systems allow no more.
#[cfg(unix)]
const WANTED_FILES: u64 = 10_240;

/// A semaphore for triggers that can be exceeded by those which the server sends by itself.
#[derive(Debug)]
pub(crate) struct TriggerLimit {
    bound: usize,
    under_way: watch::Sender<usize>,
    /// Held by the first waiter, so that triggers are sent in order.
    turn: Mutex<()>,
}

/// A permit for a trigger, released on drop.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a TriggerLimit);

impl TriggerLimit {
    pub(crate) fn new(bound: usize) -> Self {
        Self { bound: bound.max(1), under_way: watch::Sender::new(0), turn: Mutex::new(()) }
    }

    /// How many runs may be followed at a time.
    pub(super) fn followed(&self) -> usize {
        (open_files() / FILES_PER_RUN).min(MOST_FOLLOWED).max(self.bound)
    }

    /// Waits for a permit; first come, first served.
    pub(super) async fn acquire(&self) -> UnderWay<'_> {
        let _turn = self.turn.lock().await;
        let mut changes = self.under_way.subscribe();
        loop {
            let is_acquired = self.under_way.send_if_modified(|count| {
                let is_free = *count < self.bound;
                *count += usize::from(is_free);
                is_free
            });
            if is_acquired {
                return UnderWay(self);
            }
            // The sender lives as long as this function.
            let _ = changes.wait_for(|count| *count < self.bound).await;
        }
    }

    /// Counts a trigger that the server sends in any case, because it is the next of a series or of a suite.
    pub(super) fn count(&self) -> UnderWay<'_> {
        self.under_way.send_modify(|count| *count += 1);
        UnderWay(self)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|count| *count -= 1);
    }
}

/// The limit on open files, after raising it.
#[cfg(unix)]
fn open_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED_FILES, |maximum| maximum.min(WANTED_FILES));
    let Some(current) = limit.current else { return usize::MAX };
    let is_raised = current < wanted
        && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).is_ok();
    usize::try_from(if is_raised { wanted } else { current }).unwrap_or(USUAL_FILES)
}

#[cfg(not(unix))]
fn open_files() -> usize {
    USUAL_FILES
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn triggers_that_are_only_counted_hold_back_those_that_ask() {
        let limit = TriggerLimit::new(2);
        let (first, counted) = (limit.acquire().await, limit.count());
        assert!(limit.acquire().now_or_never().is_none());
        let beyond = limit.count();
        drop(first);
        assert!(limit.acquire().now_or_never().is_none(), "two are still under way");
        drop((counted, beyond));
        assert!(limit.acquire().now_or_never().is_some());
    }

    #[tokio::test]
    async fn triggers_are_let_through_in_the_order_in_which_they_asked() {
        let limit = TriggerLimit::new(1);
        let first = limit.acquire().await;
        let (mut second, mut third) = (Box::pin(limit.acquire()), Box::pin(limit.acquire()));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none(), "the second asked before it");
        assert!(second.now_or_never().is_some());
    }

    #[test]
    fn as_many_runs_are_followed_as_triggers_may_be_under_way() {
        assert!(TriggerLimit::new(2).followed() >= 2);
        assert_eq!(TriggerLimit::new(100_000).followed(), 100_000);
    }
}
