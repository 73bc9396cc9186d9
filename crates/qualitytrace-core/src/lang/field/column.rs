//! Columns: one field of the spans of a trace, with each distinct value kept once.
//!
//! Specs use few fields and spans repeat few values. A column reads each span at most once, and a condition is
//! evaluated once per distinct value. Where a condition applies to all spans, the positions of each value are
//! stored together, so that its cost is proportional to its matches.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use super::{Field, FieldValue, TraceIndex};
use crate::value::Value;

/// The values of one field, as far as they were read.
#[derive(Debug)]
pub(crate) struct Column<'t> {
    field: Field,
    known: RefCell<ColumnValues<'t>>,
}

#[derive(Debug)]
struct ColumnValues<'t> {
    /// For each span the index of its value.
    numbers: Vec<u32>,
    values: Vec<FieldValue<'t>>,
    by_value: HashMap<Key<'t>, u32>,
    /// The positions of the spans of each value, once all were read.
    by_number: Option<PositionsByValue>,
}

/// The positions of all spans, sorted by the index of their value; those without a value come last.
#[derive(Debug)]
struct PositionsByValue {
    positions: Vec<u32>,
    /// Where the positions of each index begin.
    starts: Vec<u32>,
}

/// The values that satisfy a condition.
#[derive(Debug)]
pub(crate) struct Hits {
    numbers: Vec<usize>,
    /// The number of spans that have one of these values.
    pub(crate) spans: usize,
}

/// The index of a span that was not read yet.
const UNASKED: u32 = u32::MAX;
/// The index of a span without a value.
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
            known: RefCell::new(ColumnValues {
                numbers: vec![UNASKED; spans],
                values: Vec::new(),
                by_value: HashMap::new(),
                by_number: None,
            }),
        }
    }

    /// Reads the field of one span, unless it was read already.
    pub(crate) fn ask(&self, scene: &TraceIndex<'t>, at: usize) {
        self.known.borrow_mut().ask(&self.field, scene, at);
    }

    /// Returns the values of all spans that satisfy `test`, which is called once per distinct value.
    pub(crate) fn hits(
        &self,
        scene: &TraceIndex<'t>,
        test: impl Fn(Option<&FieldValue<'t>>) -> bool,
    ) -> Hits {
        let mut known = self.known.borrow_mut();
        known.ask_all_and_sort(&self.field, scene);
        let ColumnValues { values, by_number: Some(by_number), .. } = &*known else {
            return Hits { numbers: Vec::new(), spans: 0 };
        };
        let present = values.iter().map(Some).enumerate();
        let numbers: Vec<usize> = present
            .chain([(values.len(), None)])
            .filter(|(_, value)| test(*value))
            .map(|(number, _)| number)
            .collect();
        let spans = numbers.iter().map(|number| by_number.of(*number).len()).sum();
        Hits { numbers, spans }
    }

    /// Returns the positions in `range` of the spans with these values, in order.
    pub(crate) fn gather(&self, hits: &Hits, range: &Range<usize>) -> Vec<usize> {
        let known = self.known.borrow();
        let Some(by_number) = &known.by_number else { return Vec::new() };
        let mut found = Vec::new();
        for number in &hits.numbers {
            let positions = by_number.of(*number);
            let start = positions.partition_point(|at| (*at as usize) < range.start);
            let end = positions.partition_point(|at| (*at as usize) < range.end);
            found.extend(positions[start..end].iter().map(|at| *at as usize));
        }
        if hits.numbers.len() > 1 {
            found.sort_unstable();
        }
        found
    }

    /// Keeps the spans whose value satisfies `test`, which is called once per distinct value.
    pub(crate) fn retain(
        &self,
        scene: &TraceIndex<'t>,
        candidates: &mut Vec<usize>,
        test: impl Fn(Option<&FieldValue<'t>>) -> bool,
    ) {
        let absent = test(None);
        let mut known = self.known.borrow_mut();
        let mut answers: Vec<Option<bool>> = Vec::new();
        candidates.retain(|at| {
            let number = known.ask(&self.field, scene, *at);
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

impl PositionsByValue {
    fn of(&self, number: usize) -> &[u32] {
        &self.positions[self.starts[number] as usize..self.starts[number + 1] as usize]
    }
}

impl<'t> ColumnValues<'t> {
    fn ask(&mut self, field: &Field, scene: &TraceIndex<'t>, at: usize) -> u32 {
        if self.numbers[at] == UNASKED {
            self.numbers[at] = self.number(field.look(scene, at).map(|(seen, _)| seen));
        }
        self.numbers[at]
    }

    fn ask_all_and_sort(&mut self, field: &Field, scene: &TraceIndex<'t>) {
        if self.by_number.is_some() || scene.budget.work(self.numbers.len()).is_err() {
            return;
        }
        for at in 0..self.numbers.len() {
            self.ask(field, scene, at);
        }
        let none = self.values.len();
        let bucket = |number: u32| if number == ABSENT { none } else { number as usize };
        let mut starts = vec![0_u32; none + 2];
        for number in &self.numbers {
            starts[bucket(*number) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut positions = vec![0; self.numbers.len()];
        for (at, number) in (0..).zip(&self.numbers) {
            let slot = &mut next[bucket(*number)];
            positions[*slot as usize] = at;
            *slot += 1;
        }
        self.by_number = Some(PositionsByValue { positions, starts });
    }

    fn number(&mut self, seen: Option<FieldValue<'t>>) -> u32 {
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

fn key<'t>(seen: &FieldValue<'t>) -> Option<Key<'t>> {
    let value: &'t Value = match seen {
        FieldValue::Text(text) => return Some(Key::Text(text)),
        FieldValue::Value(value) => value,
        FieldValue::Nanos(_) | FieldValue::Made(_) => return None,
    };
    match value {
        Value::String(text) => Some(Key::Text(text)),
        Value::Int(number) => Some(Key::Int(*number)),
        Value::Bool(truth) => Some(Key::Bool(*truth)),
        _ => None,
    }
}
