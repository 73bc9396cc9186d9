//! The callers of queued runs: the span of a run continues the trace of the request that asked for it.
//!
//! An entry ends when its run is claimed, here or elsewhere, stopped or deleted. One that ends too early costs the
//! run its place in the trace of its caller, nothing else.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use qualitytrace_core::id::TraceId;

use crate::observability::Caller;
use crate::runner::{RunId, lock};

/// The most callers that are remembered; beyond it, the oldest is forgotten.
const MAX_CALLERS: usize = 10_000;

/// The callers of the runs that were requested here and are queued.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// The callers of runs that are being stored: they have no number yet, and may be claimed before it is known.
    starting: HashMap<TraceId, Caller>,
    queued: HashMap<RunId, Queued>,
    /// The position of the next queued run.
    next: u64,
}

#[derive(Debug)]
struct Queued {
    caller: Caller,
    position: u64,
}

/// A run that is being stored. Dropped without a number, its caller is forgotten.
#[derive(Debug)]
pub(super) struct Starting<'c> {
    callers: &'c Callers,
    trace: TraceId,
}

impl Callers {
    /// Remembers the caller of a run that is about to be stored.
    pub(super) fn starting(&self, trace: TraceId, caller: Caller) -> Starting<'_> {
        lock(&self.0).starting.insert(trace, caller);
        Starting { callers: self, trace }
    }

    /// Takes the caller of a run that was claimed here; the default if it came from another server.
    pub(super) fn take(&self, run: &RunId, trace: TraceId) -> Caller {
        let mut entries = lock(&self.0);
        let queued = entries.queued.remove(run).map(|queued| queued.caller);
        queued.or_else(|| entries.starting.remove(&trace)).unwrap_or_default()
    }

    /// Forgets the caller of a run.
    pub(super) fn forget(&self, run: &RunId) {
        lock(&self.0).queued.remove(run);
    }

    /// The position of the next queued run.
    pub(super) fn position(&self) -> u64 {
        lock(&self.0).next
    }

    /// Whether there are runs before this position.
    pub(super) fn has_before(&self, position: u64) -> bool {
        lock(&self.0).queued.values().any(|queued| queued.position < position)
    }

    /// Forgets the callers of runs before this position that are not `queued`.
    pub(super) fn retain(&self, position: u64, queued: &HashSet<RunId>) {
        lock(&self.0).queued.retain(|run, entry| entry.position >= position || queued.contains(run));
    }

    /// The number of runs that are queued or being stored.
    pub(super) fn count(&self) -> usize {
        let entries = lock(&self.0);
        entries.starting.len() + entries.queued.len()
    }
}

impl Starting<'_> {
    /// Notes the number of the run, unless it was claimed already.
    pub(super) fn queued(self, run: RunId) {
        let mut entries = lock(&self.callers.0);
        let Some(caller) = entries.starting.remove(&self.trace) else { return };
        if entries.queued.len() >= MAX_CALLERS {
            let oldest = entries.queued.iter().min_by_key(|(_, queued)| queued.position);
            if let Some(oldest) = oldest.map(|(run, _)| run.clone()) {
                entries.queued.remove(&oldest);
            }
        }
        let position = entries.next;
        entries.next += 1;
        entries.queued.insert(run, Queued { caller, position });
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        lock(&self.callers.0).starting.remove(&self.trace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64) -> RunId {
        RunId { test: "t".to_owned(), number }
    }

    fn trace(number: u64) -> TraceId {
        format!("{:032x}", number + 1).parse().unwrap()
    }

    fn enqueue(callers: &Callers, number: u64) {
        callers.starting(trace(number), Caller::default()).queued(run(number));
    }

    #[test]
    fn an_entry_ends_with_the_claim_even_before_the_number_is_known() {
        let callers = Callers::default();
        let starting = callers.starting(trace(1), Caller::default());
        assert_eq!(callers.count(), 1);
        callers.take(&run(1), trace(1));
        starting.queued(run(1));
        assert_eq!(callers.count(), 0);

        enqueue(&callers, 2);
        assert_eq!(callers.count(), 1);
        callers.take(&run(2), trace(2));
        assert_eq!(callers.count(), 0);
    }

    #[test]
    fn a_run_that_is_not_stored_leaves_nothing_behind() {
        let callers = Callers::default();
        drop(callers.starting(trace(1), Caller::default()));
        assert_eq!(callers.count(), 0);
    }

    #[test]
    fn runs_that_another_server_claimed_are_not_counted() {
        let callers = Callers::default();
        enqueue(&callers, 1);
        enqueue(&callers, 2);
        callers.forget(&run(1));
        assert_eq!(callers.count(), 1, "another server told that it has run 1");

        enqueue(&callers, 3);
        let position = callers.position();
        assert!(callers.has_before(position));
        enqueue(&callers, 4);
        callers.retain(position, &HashSet::from([run(3)]));
        assert_eq!(callers.count(), 2, "run 3 is queued, and run 4 came after the question");
        callers.retain(callers.position(), &HashSet::new());
        assert_eq!(callers.count(), 0);
        assert!(!callers.has_before(callers.position()));
    }

    #[test]
    fn the_oldest_entry_makes_room() {
        let callers = Callers::default();
        let most = u64::try_from(MAX_CALLERS).unwrap();
        for number in 0..=most {
            enqueue(&callers, number);
        }
        assert_eq!(callers.count(), MAX_CALLERS);
        let entries = lock(&callers.0);
        assert!(!entries.queued.contains_key(&run(0)));
        assert!(entries.queued.contains_key(&run(1)) && entries.queued.contains_key(&run(most)));
    }
}
