//! Comparison of two traces: what was added, removed or moved, what became slower or faster, and which attributes
//! changed.
//!
//! Spans are aligned as waiting aligns them: two spans correspond when they have the same service, kind and name below
//! corresponding parents, where numbers and ids in names do not matter (`wait::shape`). Of several such siblings,
//! those with the same attributes correspond first, and the others in their order (`align`).
//!
//! What is named is what happened at the span itself. A span is slower or faster by its *own time*, in which none of
//! its children ran, so that a slow child does not make its ancestors slow (`times`). Attributes that differ from
//! call to call by their nature are reported, but do not make a span a changed one (`attributes`).
//!
//! Scopes, links and trace state are not compared.

mod align;
mod attributes;
mod order;
mod resources;
mod times;

use std::time::Duration;

use crate::budget::{Budget, BudgetError};
use crate::names;
use crate::trace::Trace;
use align::Pairs;

pub use attributes::{Difference, differences};
pub use resources::{ServiceDifferences, services};

/// How much longer or shorter a span's own time must be to be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// More than this many percent of the own time before.
    pub percent: u32,
    /// And more than this much.
    pub least: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { percent: 20, least: Duration::from_millis(1) }
    }
}

/// A value of each of the two traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sides<T> {
    /// Of the first trace.
    pub a: T,
    /// Of the second trace.
    pub b: T,
}

/// Two spans that correspond, or one that has no counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Their positions in the two traces; one of them is there.
    pub spans: Sides<Option<usize>>,
    /// The number of ancestors among the rows.
    pub depth: usize,
    /// Whether the second has another place in the tree.
    pub is_moved: bool,
    /// Whether the own time changed by more than the thresholds.
    pub speed: Option<Speed>,
    /// Whether attributes changed that do not differ by their nature.
    pub is_changed: bool,
    /// Whether attributes changed that differ from call to call by their nature.
    pub is_volatile: bool,
    /// Nanoseconds from start to end; `None` where the span did not end.
    pub durations: Sides<Option<u64>>,
    /// Nanoseconds in which no child ran; `None` where the span did not end.
    pub own_times: Sides<Option<u64>>,
}

/// In which direction an own time changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// It became longer.
    Slower,
    /// It became shorter.
    Faster,
}

/// The word for a row: the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Only the second trace has the span.
    Added,
    /// Only the first trace has the span.
    Removed,
    /// The span has another place in the tree.
    Moved,
    /// Its own time became longer.
    Slower,
    /// Its own time became shorter.
    Faster,
    /// Attributes changed.
    Changed,
    /// Nothing to name.
    Same,
}

impl Change {
    /// Returns its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Moved => "moved",
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Changed => "changed",
            Self::Same => "same",
        }
    }
}

impl Row {
    /// Returns the word for this row.
    pub const fn change(&self) -> Change {
        match (self.spans.a, self.spans.b) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            _ if self.is_moved => Change::Moved,
            _ => match self.speed {
                Some(Speed::Slower) => Change::Slower,
                Some(Speed::Faster) => Change::Faster,
                None if self.is_changed => Change::Changed,
                None => Change::Same,
            },
        }
    }
}

/// How many rows have which change. A row that both moved and became slower counts twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Spans that only the second trace has.
    pub added: usize,
    /// Spans that only the first trace has.
    pub removed: usize,
    /// Spans with another place in the tree.
    pub moved: usize,
    /// Spans whose own time became longer.
    pub slower: usize,
    /// Spans whose own time became shorter.
    pub faster: usize,
    /// Spans whose attributes changed.
    pub changed: usize,
    /// Rows with nothing to name.
    pub same: usize,
    /// Rows with attributes that differ from call to call by their nature.
    pub volatile: usize,
}

impl Summary {
    fn of(rows: &[Row]) -> Self {
        let count = |holds: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| holds(row)).count();
        Self {
            added: count(&|row| row.spans.a.is_none()),
            removed: count(&|row| row.spans.b.is_none()),
            moved: count(&|row| row.is_moved),
            slower: count(&|row| row.speed == Some(Speed::Slower)),
            faster: count(&|row| row.speed == Some(Speed::Faster)),
            changed: count(&|row| row.is_changed),
            same: count(&|row| row.change() == Change::Same),
            volatile: count(&|row| row.is_volatile),
        }
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The rows in the order of the second trace's tree. A removed span stands where it stood in the first one.
    pub rows: Vec<Row>,
    /// How many rows have which change.
    pub summary: Summary,
}

/// Compares two traces, in time linear in their spans but for sorting siblings.
///
/// Where only one of them has a trigger's span as its root, that span is left out: the other one is a trace that was
/// stored without a run.
pub fn compare(
    a: &Trace,
    b: &Trace,
    thresholds: Thresholds,
    budget: &Budget,
) -> Result<Comparison, BudgetError> {
    let (in_a, in_b) = (has_trigger(a), has_trigger(b));
    let firsts = Sides { a: usize::from(in_a && !in_b), b: usize::from(in_b && !in_a) };
    let pairs = Pairs::of(a, b, firsts, budget)?;
    let mut rows = Vec::with_capacity(a.spans().len().max(b.spans().len()));
    for ordered in order::rows(a, b, firsts, &pairs) {
        budget.work(1)?;
        rows.push(row(a, b, ordered, &pairs, thresholds, budget)?);
    }
    let summary = Summary::of(&rows);
    Ok(Comparison { rows, summary })
}

/// Whether the only root is the span of a trigger.
fn has_trigger(trace: &Trace) -> bool {
    let mut roots = trace.roots();
    let (Some(root), None) = (roots.next(), roots.next()) else { return false };
    let root = trace.span(root);
    names::span(&root.name) == names::TRIGGER_SPAN && root.service() == names::TRIGGER_SERVICE
}

fn row(
    a: &Trace,
    b: &Trace,
    ordered: order::OrderedRow,
    pairs: &Pairs,
    thresholds: Thresholds,
    budget: &Budget,
) -> Result<Row, BudgetError> {
    let spans = ordered.spans;
    let own_times = Sides {
        a: spans.a.and_then(|at| times::own(a, at, |_| true)),
        b: spans.b.and_then(|at| times::own(b, at, |_| true)),
    };
    let mut row = Row {
        spans,
        depth: ordered.depth,
        is_moved: false,
        speed: None,
        is_changed: false,
        is_volatile: false,
        durations: Sides {
            a: spans.a.and_then(|at| times::total(a.span(at))),
            b: spans.b.and_then(|at| times::total(b.span(at))),
        },
        own_times,
    };
    if let (Some(at), Some(bt)) = (spans.a, spans.b) {
        row.is_moved = pairs.is_moved(bt);
        // A child that only one side has takes its time from its parent, or adds to it. Both are told by that child.
        let shared = Sides {
            a: times::own(a, at, |child| pairs.is_child_of(child, b, bt)),
            b: times::own(b, bt, |child| pairs.has_child(child, a, at)),
        };
        let speed = |times: Sides<Option<u64>>| times::speed(times.a?, times.b?, thresholds);
        row.speed = speed(own_times).filter(|named| speed(shared) == Some(*named));
        for difference in differences(a.span(at), b.span(bt)) {
            budget.work(1)?;
            row.is_changed |= !difference.is_volatile;
            row.is_volatile |= difference.is_volatile;
        }
    }
    Ok(row)
}
