//! Bounded lists of results: what a run stores must be readable within the default limits, however many spans its trace
//! has. Failures are kept first; what is omitted is counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results that a verdict keeps in all.
pub(crate) const MAX_RESULTS: usize = 10_000;

/// The number of results that were omitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Omitted {
    /// Those that hold.
    pub passed: u64,
    /// Those that do not.
    pub failed: u64,
}

impl Omitted {
    /// Whether nothing was omitted.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The room that the lists of one run share: each takes at most an equal part of what the lists before it left.
pub(crate) struct Room {
    results: usize,
    lists: usize,
}

impl Room {
    /// Room for [`MAX_RESULTS`] in this many lists.
    pub(crate) fn new(lists: usize) -> Self {
        Self { results: MAX_RESULTS, lists }
    }

    /// Keeps as many items as one list may, failures first, in their order.
    pub(crate) fn keep<'i, T>(
        &mut self,
        items: &'i [T],
        is_failure: impl Fn(&T) -> bool,
    ) -> (Vec<&'i T>, Omitted) {
        let share = self.results.div_ceil(self.lists.max(1)).max(1);
        let failures = items.iter().filter(|item| is_failure(item)).count();
        let mut failed = failures.min(share);
        let mut passed = (items.len() - failures).min(share - failed);
        self.results = self.results.saturating_sub(failed + passed);
        self.lists = self.lists.saturating_sub(1);
        let omitted =
            Omitted { failed: (failures - failed) as u64, passed: (items.len() - failures - passed) as u64 };
        let kept = items.iter().filter(|item| {
            let left = if is_failure(item) { &mut failed } else { &mut passed };
            let is_kept = *left > 0;
            *left = left.saturating_sub(1);
            is_kept
        });
        (kept.collect(), omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_kept_first_and_in_order() {
        let mut room = Room { results: 3, lists: 1 };
        let (kept, omitted) = room.keep(&[1, -1, 2, -2, 3], |item| *item < 0);
        assert_eq!((kept, omitted), (vec![&1, &-1, &-2], Omitted { passed: 2, failed: 0 }));
    }

    #[test]
    fn a_long_list_leaves_room_for_the_others() {
        let mut room = Room::new(3);
        let long = vec![1; 4 * MAX_RESULTS];
        let (kept, omitted) = room.keep(&long[..5], |_| true);
        assert_eq!((kept.len(), omitted), (5, Omitted::default()));
        let (first, _) = room.keep(&long, |_| false);
        let (second, omitted) = room.keep(&long, |_| true);
        assert_eq!(first.len() + second.len() + 5, MAX_RESULTS);
        assert!(first.len().abs_diff(second.len()) <= 1, "{} {}", first.len(), second.len());
        assert_eq!(omitted.failed, (long.len() - second.len()) as u64);
    }
}
