//! Scores of plugins and of the whole analysis.

use super::Level;

/// Returns the score of a plugin and whether it passed, from its rules as `(level, weight, passed)`.
///
/// Only rules at level `error` count. When none of them has a weight, they weigh the same.
pub fn plugin_score(rules: impl IntoIterator<Item = (Level, u32, bool)>) -> (u32, bool) {
    let errors: Vec<(u64, bool)> = rules
        .into_iter()
        .filter(|(level, _, _)| *level == Level::Error)
        .map(|(_, weight, passed)| (u64::from(weight), passed))
        .collect();
    let all_passed = errors.iter().all(|(_, passed)| *passed);
    let weightless = errors.iter().all(|(weight, _)| *weight == 0);
    let share = |only_passed: bool| -> u64 {
        errors
            .iter()
            .filter(|(_, passed)| *passed || !only_passed)
            .map(|(weight, _)| if weightless { 1 } else { *weight })
            .sum()
    };
    let score = (100 * share(true)).checked_div(share(false)).unwrap_or(100);
    (u32::try_from(score).unwrap_or(100), all_passed)
}

/// Returns the mean, rounded down; 100 when there are no scores.
pub(super) fn mean(scores: impl ExactSizeIterator<Item = u32>) -> u32 {
    let count = u32::try_from(scores.len()).unwrap_or(u32::MAX);
    scores.sum::<u32>().checked_div(count).unwrap_or(100)
}
