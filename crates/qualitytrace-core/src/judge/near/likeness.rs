//! The similarity of two texts.

use std::collections::HashMap;

use qualitytrace_config::nearest::edit_distance;

/// A cache of similarities: spans repeat their values.
#[derive(Default)]
pub(super) struct Likeness(HashMap<String, HashMap<String, f64>>);

impl Likeness {
    pub(super) fn of(&mut self, expected: &str, actual: &str) -> f64 {
        if !self.0.contains_key(expected) {
            self.0.insert(expected.to_owned(), HashMap::new());
        }
        let Some(known) = self.0.get_mut(expected) else {
            return 0.0;
        };
        if let Some(near) = known.get(actual) {
            return *near;
        }
        let near = similarity(expected, actual);
        known.insert(actual.to_owned(), near);
        near
    }
}

/// Returns 1 for equal texts, 0 for texts that have nothing in common.
fn similarity(left: &str, right: &str) -> f64 {
    if left == right {
        return 1.0;
    }
    let longest = left.chars().count().max(right.chars().count()).clamp(1, 64);
    let near = 1.0 - ratio(edit_distance(left, right), longest).min(1.0);
    let contained = !left.is_empty() && !right.is_empty() && (left.contains(right) || right.contains(left));
    if contained { near.max(0.5) } else { near * 0.98 }
}

pub(super) fn ratio(part: usize, whole: usize) -> f64 {
    let float = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    float(part) / float(whole.max(1))
}
