//! Bounded lists of results: what a run stores must be readable within the default limits, however many spans its trace
//! has. Failures are kept first; what is omitted is counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results that a verdict, or an analysis, keeps in all.
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

/// Keeps as many items as there is room for, failures first, in their order. Takes what it keeps out of `room`.
pub(crate) fn bounded<'i, T>(
    items: &'i [T],
    room: &mut usize,
    is_failure: impl Fn(&T) -> bool,
) -> (Vec<&'i T>, Omitted) {
    let failures = items.iter().filter(|item| is_failure(item)).count();
    let (mut failed, mut passed) = (failures.min(*room), 0);
    passed += (items.len() - failures).min(*room - failed);
    *room -= failed + passed;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_kept_first_and_in_order() {
        let items = [1, -1, 2, -2, 3];
        let is_failure = |item: &i32| *item < 0;
        let mut room = 3;
        let (kept, omitted) = bounded(&items, &mut room, is_failure);
        assert_eq!((kept, omitted, room), (vec![&1, &-1, &-2], Omitted { passed: 2, failed: 0 }, 0));
        let (kept, omitted) = bounded(&items, &mut room, is_failure);
        assert_eq!((kept.len(), omitted), (0, Omitted { passed: 3, failed: 2 }));
        let mut room = 9;
        let (kept, omitted) = bounded(&items, &mut room, is_failure);
        assert_eq!((kept.len(), omitted.is_none(), room), (5, true, 4));
    }
}
