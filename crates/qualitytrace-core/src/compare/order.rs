//! The order of the rows: the tree of the second trace, with removed spans where they stood in the first one.

use std::collections::HashMap;

use super::Sides;
use super::align::{Pairs, below};
use crate::trace::Trace;

/// The spans of a row, and the number of their ancestors among the rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderedRow {
    pub(super) spans: Sides<Option<usize>>,
    pub(super) depth: usize,
}

/// Returns every span of both traces once, pairs together. `firsts` are the first positions that are compared.
pub(super) fn rows(a: &Trace, b: &Trace, firsts: Sides<usize>, pairs: &Pairs) -> Vec<OrderedRow> {
    let mut rows = Vec::with_capacity(a.spans().len().max(b.spans().len()));
    let mut stack = merged(&below(a, None, firsts.a), &below(b, None, firsts.b), 0, pairs);
    stack.reverse();
    while let Some(row) = stack.pop() {
        rows.push(row);
        let of = |trace: &Trace, at: Option<usize>, first| {
            at.map_or_else(Vec::new, |at| below(trace, Some(at), first))
        };
        let children =
            merged(&of(a, row.spans.a, firsts.a), &of(b, row.spans.b, firsts.b), row.depth + 1, pairs);
        stack.extend(children.into_iter().rev());
    }
    rows
}

/// Merges siblings: those of `b` in their order, and behind the counterpart of its predecessor each of `a` that has
/// none. What has its counterpart elsewhere is shown there.
fn merged(a: &[usize], b: &[usize], depth: usize, pairs: &Pairs) -> Vec<OrderedRow> {
    let here: HashMap<usize, usize> = b.iter().enumerate().map(|(index, at)| (*at, index + 1)).collect();
    let mut removed: Vec<(usize, usize)> = Vec::new();
    let mut behind = 0;
    for at in a {
        match pairs.of_a(*at) {
            Some(counterpart) => behind = here.get(&counterpart).copied().unwrap_or(behind),
            None => removed.push((behind, *at)),
        }
    }
    // A stable sort keeps removed siblings in their order.
    removed.sort_by_key(|(behind, _)| *behind);
    let mut removed = removed.into_iter().peekable();
    let mut merged = Vec::with_capacity(a.len().max(b.len()));
    for index in 0..=b.len() {
        if let Some(at) = index.checked_sub(1).map(|index| b[index]) {
            merged.push(OrderedRow { spans: Sides { a: pairs.of_b(at), b: Some(at) }, depth });
        }
        while let Some((_, at)) = removed.next_if(|(behind, _)| *behind == index) {
            merged.push(OrderedRow { spans: Sides { a: Some(at), b: None }, depth });
        }
    }
    merged
}
