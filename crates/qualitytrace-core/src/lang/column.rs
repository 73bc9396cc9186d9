//! One field of the spans of a trace, with each different value kept once.
//!
//! Specs ask for few fields and spans repeat few values. A column asks each span at most once and lets a condition
//! look at each different value once; after that a span costs one look into a table.

use std::cell::RefCell;
use std::collections::HashMap;

use super::field::{Field, Scene, Seen};
use crate::value::Value;

/// The values of one field, as far as they were asked for.
#[derive(Debug)]
pub(crate) struct Column<'t> {
    field: Field,
    known: RefCell<Known<'t>>,
}

#[derive(Debug)]
struct Known<'t> {
    /// For each span the number of its value.
    numbers: Vec<u32>,
    values: Vec<Seen<'t>>,
    by_value: HashMap<Key<'t>, u32>,
}

/// The number of a span that was not asked yet.
const UNASKED: u32 = u32::MAX;
/// The number of a span that has no value.
const ABSENT: u32 = u32::MAX - 1;

#[derive(Debug, PartialEq, Eq, Hash)]
enum Key<'t> {
    Text(&'t str),
    Int(i64),
    Bool(bool),
}

impl<'t> Column<'t> {
    pub(crate) fn new(field: &Field, spans: usize) -> Self {
        Self {
            field: field.clone(),
            known: RefCell::new(Known {
                numbers: vec![UNASKED; spans],
                values: Vec::new(),
                by_value: HashMap::new(),
            }),
        }
    }

    /// Keeps the spans for whose value `test` is true; it is asked once for each different value.
    pub(crate) fn retain(
        &self,
        scene: &Scene<'t>,
        candidates: &mut Vec<usize>,
        test: impl Fn(Option<&Seen<'t>>) -> bool,
    ) {
        let absent = test(None);
        let mut known = self.known.borrow_mut();
        let mut answers: Vec<Option<bool>> = Vec::new();
        candidates.retain(|at| {
            let mut number = known.numbers[*at];
            if number == UNASKED {
                number = known.number(self.field.look(scene, *at).map(|(seen, _)| seen));
                known.numbers[*at] = number;
            }
            if number == ABSENT {
                return absent;
            }
            let number = number as usize;
            if number >= answers.len() {
                answers.resize(known.values.len(), None);
            }
            *answers[number].get_or_insert_with(|| test(Some(&known.values[number])))
        });
    }
}

impl<'t> Known<'t> {
    fn number(&mut self, seen: Option<Seen<'t>>) -> u32 {
        let Some(seen) = seen else { return ABSENT };
        let next = u32::try_from(self.values.len()).unwrap_or(ABSENT - 1);
        let Some(key) = key(&seen) else {
            self.values.push(seen);
            return next;
        };
        *self.by_value.entry(key).or_insert_with(|| {
            self.values.push(seen);
            next
        })
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
