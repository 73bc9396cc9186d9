//! Secrets of triggers that were sent without a run, by the trace that they cause.
//!
//! Those of runs are stored with the run. These are kept in memory only: nothing of such a trigger is stored. The
//! oldest are forgotten beyond [`MAX_TRACES`] or [`MAX_BYTES`].

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use qualitytrace_core::id::TraceId;

use super::Store;

/// Traces whose secrets are remembered.
const MAX_TRACES: usize = 10_000;
/// Bytes of secrets that are remembered.
const MAX_BYTES: usize = 4 << 20;

/// The secrets that were sent.
#[derive(Default)]
pub(super) struct SentSecrets(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    secrets: HashMap<TraceId, Vec<String>>,
    /// The traces, the oldest first.
    order: VecDeque<TraceId>,
    bytes: usize,
}

impl std::fmt::Debug for SentSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SentSecrets").finish_non_exhaustive()
    }
}

impl Store {
    /// Remembers the secrets of a trigger that is sent without a run. `false` if they are too large to be remembered.
    pub(crate) fn withhold(&self, trace: TraceId, secrets: Vec<String>) -> bool {
        self.withheld.add(trace, secrets)
    }

    /// Returns the secrets of triggers that were sent without a run and caused these traces.
    pub(crate) fn withheld(&self, traces: &[TraceId]) -> HashMap<TraceId, Vec<String>> {
        self.withheld.of(traces)
    }
}

impl SentSecrets {
    fn add(&self, trace: TraceId, secrets: Vec<String>) -> bool {
        let size = bytes(&secrets);
        if size > MAX_BYTES {
            return false;
        }
        if secrets.is_empty() {
            return true;
        }
        let mut known = self.lock();
        while known.order.len() >= MAX_TRACES || known.bytes + size > MAX_BYTES {
            let Some(oldest) = known.order.pop_front() else { break };
            let gone = known.secrets.remove(&oldest).unwrap_or_default();
            known.bytes -= bytes(&gone);
        }
        known.bytes += size;
        known.order.push_back(trace);
        known.secrets.insert(trace, secrets);
        true
    }

    fn of(&self, traces: &[TraceId]) -> HashMap<TraceId, Vec<String>> {
        let known = self.lock();
        traces.iter().filter_map(|trace| Some((*trace, known.secrets.get(trace)?.clone()))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(secrets: &[String]) -> usize {
    secrets.iter().map(String::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(number: usize) -> TraceId {
        format!("{:032x}", number + 1).parse().unwrap()
    }

    #[test]
    fn the_oldest_secrets_make_room() {
        let withheld = SentSecrets::default();
        assert!(!withheld.add(trace(0), vec!["x".repeat(MAX_BYTES + 1)]));
        for number in 0..5 {
            assert!(withheld.add(trace(number), vec!["x".repeat(MAX_BYTES / 4)]));
        }
        assert!(withheld.of(&[trace(0)]).is_empty());
        assert_eq!(withheld.of(&[trace(1), trace(4), trace(9)]).len(), 2);
        for number in 5..=MAX_TRACES + 5 {
            assert!(withheld.add(trace(number), vec!["y".to_owned()]));
        }
        let known = withheld.lock();
        assert_eq!(
            (known.secrets.len(), known.order.len(), known.bytes),
            (MAX_TRACES, MAX_TRACES, MAX_TRACES)
        );
        assert_eq!(known.secrets[&trace(MAX_TRACES + 5)], ["y"]);
    }
}
