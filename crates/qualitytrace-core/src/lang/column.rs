//! One field of every span of a trace, with each different value kept once.
//!
//! Specs ask for few fields and spans repeat few values. A column asks each span once and lets a condition look at
//! each different value once; after that a span costs one look into a table.

use std::collections::HashMap;

use super::field::{Field, Scene, Seen};
use crate::value::Value;

/// The values of one field.
#[derive(Debug)]
pub(crate) struct Column<'t> {
    /// For each span the number of its value; [`ABSENT`] where it has none.
    numbers: Vec<u32>,
    values: Vec<Seen<'t>>,
}

const ABSENT: u32 = u32::MAX;

#[derive(PartialEq, Eq, Hash)]
enum Key<'t> {
    Text(&'t str),
    Int(i64),
    Bool(bool),
}

impl<'t> Column<'t> {
    pub(crate) fn new(field: &Field, scene: &Scene<'t>) -> Self {
        let mut values = Vec::new();
        let mut known = HashMap::new();
        let mut number = |seen: Seen<'t>| {
            let next = u32::try_from(values.len()).unwrap_or(ABSENT - 1);
            let Some(key) = key(&seen) else {
                values.push(seen);
                return next;
            };
            *known.entry(key).or_insert_with(|| {
                values.push(seen);
                next
            })
        };
        let numbers = (0..scene.trace.spans().len())
            .map(|at| field.look(scene, at).map_or(ABSENT, |(seen, _)| number(seen)))
            .collect();
        Self { numbers, values }
    }

    /// Keeps the spans for whose value `test` is true; it is asked once for each different value.
    pub(crate) fn retain(&self, candidates: &mut Vec<usize>, test: impl Fn(Option<&Seen<'t>>) -> bool) {
        let absent = test(None);
        let mut known: Vec<Option<bool>> = vec![None; self.values.len()];
        candidates.retain(|at| match self.numbers[*at] {
            ABSENT => absent,
            number => {
                let number = number as usize;
                *known[number].get_or_insert_with(|| test(Some(&self.values[number])))
            }
        });
    }
}

fn key<'t>(seen: &Seen<'t>) -> Option<Key<'t>> {
    let value: &'t Value = match seen {
        Seen::Text(text) => return Some(Key::Text(text)),
        Seen::Value(value) => value,
        Seen::Nanos(_) | Seen::Made(_) => return None,
    };
    match value {
        Value::String(text) => Some(Key::Text(text)),
        Value::Int(number) => Some(Key::Int(*number)),
        Value::Bool(truth) => Some(Key::Bool(*truth)),
        _ => None,
    }
}
