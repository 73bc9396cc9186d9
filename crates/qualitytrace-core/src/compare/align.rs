//! Alignment: which spans of two traces correspond.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Sides, attributes, times};
use crate::budget::{Budget, BudgetError};
use crate::trace::Trace;
use crate::wait::shape::{Key, Node, Shape, fold};

/// The spans of two traces that correspond.
#[derive(Debug)]
pub(super) struct Pairs {
    of_a: Vec<Option<usize>>,
    of_b: Vec<Option<usize>>,
    /// By the position in the second trace.
    is_moved: Vec<bool>,
}

impl Pairs {
    /// Aligns two traces from these first positions on.
    pub(super) fn of(
        a: &Trace,
        b: &Trace,
        firsts: Sides<usize>,
        budget: &Budget,
    ) -> Result<Self, BudgetError> {
        let mut shape = Shape::default();
        let a = Side::of(a, firsts.a, &mut shape, budget)?;
        let b = Side::of(b, firsts.b, &mut shape, budget)?;
        let pairs = Self {
            of_a: vec![None; a.trace.spans().len()],
            of_b: vec![None; b.trace.spans().len()],
            is_moved: vec![false; b.trace.spans().len()],
        };
        let mut alignment = Alignment { a, b, budget, pairs };
        alignment.below(None)?;
        alignment.find_moved()?;
        Ok(alignment.pairs)
    }

    /// Returns the counterpart of a span of the first trace.
    pub(super) fn of_a(&self, at: usize) -> Option<usize> {
        self.of_a[at]
    }

    /// Returns the counterpart of a span of the second trace.
    pub(super) fn of_b(&self, at: usize) -> Option<usize> {
        self.of_b[at]
    }

    /// Whether this span of the second trace has another place than its counterpart.
    pub(super) fn is_moved(&self, at: usize) -> bool {
        self.is_moved[at]
    }

    /// Whether this span of the first trace has its counterpart right below `parent` in the second one.
    pub(super) fn is_child_of(&self, at: usize, b: &Trace, parent: usize) -> bool {
        self.of_a[at].is_some_and(|counterpart| b.parent(counterpart) == Some(parent))
    }

    /// Whether this span of the second trace has its counterpart right below `parent` in the first one.
    pub(super) fn has_child(&self, at: usize, a: &Trace, parent: usize) -> bool {
        self.of_b[at].is_some_and(|counterpart| a.parent(counterpart) == Some(parent))
    }
}

/// Returns the spans right below `parent`; without one, the topmost spans from `first` on.
pub(super) fn below(trace: &Trace, parent: Option<usize>, first: usize) -> Vec<usize> {
    match parent.or_else(|| first.checked_sub(1)) {
        Some(parent) => trace.children(parent).collect(),
        None => trace.roots().collect(),
    }
}

/// One of the two traces.
struct Side<'t> {
    trace: &'t Trace,
    first: usize,
    /// The kind of each span, wherever it is in the tree; `None` before the first.
    kinds: Vec<Option<Node>>,
    /// A hash of each span without times, ids and what else differs by its nature.
    own: Vec<u64>,
    /// The same, with everything below it in any order.
    whole: Vec<u64>,
}

impl<'t> Side<'t> {
    fn of(trace: &'t Trace, first: usize, shape: &mut Shape, budget: &Budget) -> Result<Self, BudgetError> {
        let count = trace.spans().len();
        let mut kinds: Vec<Option<Node>> = vec![None; count];
        let mut own = vec![0; count];
        for at in first..count {
            let span = trace.span(at);
            budget.work(1 + span.attributes.len())?;
            let key = Key {
                parent: None,
                service: shape.symbol(span.service()),
                kind: span.kind,
                name: shape.symbol(&fold(&span.name)),
                peer: None,
            };
            kinds[at] = Some(shape.node(key));
            own[at] = attributes::signature(span);
        }
        let mut below = vec![0_u64; count];
        let mut whole = vec![0; count];
        for at in (first..count).rev() {
            let mut hasher = DefaultHasher::new();
            (kinds[at], own[at], below[at]).hash(&mut hasher);
            whole[at] = hasher.finish();
            if let Some(parent) = trace.parent(at) {
                below[parent] = below[parent].wrapping_add(whole[at]);
            }
        }
        Ok(Self { trace, first, kinds, own, whole })
    }

    /// Returns the spans right below `parent` that are not in `paired` yet.
    fn open(&self, parent: Option<usize>, paired: &[Option<usize>]) -> Vec<usize> {
        let mut open = below(self.trace, parent, self.first);
        open.retain(|at| paired[*at].is_none());
        open
    }
}

struct Alignment<'t, 'b> {
    a: Side<'t>,
    b: Side<'t>,
    budget: &'b Budget,
    pairs: Pairs,
}

impl Alignment<'_, '_> {
    /// Pairs everything below this pair, or below the roots.
    fn below(&mut self, pair: Option<(usize, usize)>) -> Result<(), BudgetError> {
        let mut parents = vec![pair];
        while let Some(pair) = parents.pop() {
            let a = self.a.open(pair.map(|(a, _)| a), &self.pairs.of_a);
            let b = self.b.open(pair.map(|(_, b)| b), &self.pairs.of_b);
            self.budget.work(1 + a.len() + b.len())?;
            let found = self.siblings(a, b);
            for (a, b) in found {
                self.pair(a, b);
                parents.push(Some((a, b)));
            }
        }
        Ok(())
    }

    fn pair(&mut self, a: usize, b: usize) {
        self.pairs.of_a[a] = Some(b);
        self.pairs.of_b[b] = Some(a);
    }

    /// Pairs siblings of the same kind: first those that are alike with everything below them, then those that are
    /// alike themselves, then the others in their order.
    fn siblings(&self, a: Vec<usize>, b: Vec<usize>) -> Vec<(usize, usize)> {
        let mut found = Vec::with_capacity(a.len().min(b.len()));
        let kind = |side: &Side<'_>, at: usize| side.kinds[at].map_or(0, Node::index) as u64;
        for (a, b) in groups(a, b, |at| kind(&self.a, at), |at| kind(&self.b, at)) {
            if a.len() == 1 && b.len() == 1 {
                found.push((a[0], b[0]));
                continue;
            }
            let (a, b) = self.alike(a, b, |side, at| side.whole[at], &mut found);
            let (a, b) = self.alike(a, b, |side, at| side.own[at], &mut found);
            self.in_order(&a, &b, &mut found);
        }
        found
    }

    /// Pairs siblings with the same signature in their order, and returns the others.
    fn alike(
        &self,
        a: Vec<usize>,
        b: Vec<usize>,
        signature: impl Fn(&Side<'_>, usize) -> u64,
        found: &mut Vec<(usize, usize)>,
    ) -> (Vec<usize>, Vec<usize>) {
        let before = found.len();
        let all = (a.clone(), b.clone());
        for (a, b) in groups(a, b, |at| signature(&self.a, at), |at| signature(&self.b, at)) {
            self.in_order(&a, &b, found);
        }
        let (mut used_a, mut used_b): (Vec<usize>, Vec<usize>) = found[before..].iter().copied().unzip();
        used_a.sort_unstable();
        used_b.sort_unstable();
        let rest = |all: Vec<usize>, used: &[usize]| -> Vec<usize> {
            all.into_iter().filter(|at| used.binary_search(at).is_err()).collect()
        };
        (rest(all.0, &used_a), rest(all.1, &used_b))
    }

    /// Pairs in order. If one list is longer, the block of it that is left over is where the others differ least in
    /// how long they take; at the end, if that makes no difference.
    fn in_order(&self, a: &[usize], b: &[usize], found: &mut Vec<(usize, usize)>) {
        let of = |side: &Side<'_>, list: &[usize]| -> Vec<u64> {
            list.iter().map(|at| times::total(side.trace.span(*at)).unwrap_or_default()).collect()
        };
        if a.len() >= b.len() {
            let (at, gap) = (left_over(&of(&self.a, a), &of(&self.b, b)), a.len() - b.len());
            found.extend(a[..at].iter().chain(&a[at + gap..]).copied().zip(b.iter().copied()));
        } else {
            let (at, gap) = (left_over(&of(&self.b, b), &of(&self.a, a)), b.len() - a.len());
            found.extend(a.iter().copied().zip(b[..at].iter().chain(&b[at + gap..]).copied()));
        }
    }

    /// Pairs spans without a counterpart that are alike and of the same kind in another place of the tree, parents
    /// first; and what is below them.
    fn find_moved(&mut self) -> Result<(), BudgetError> {
        let mut whole: HashMap<(Node, u64), Vec<usize>> = HashMap::new();
        let mut own: HashMap<(Node, u64), Vec<usize>> = HashMap::new();
        // The last position comes first, so that the first is taken first.
        for at in (self.a.first..self.pairs.of_a.len()).rev() {
            if let (None, Some(kind)) = (self.pairs.of_a[at], self.a.kinds[at]) {
                self.budget.work(1)?;
                whole.entry((kind, self.a.whole[at])).or_default().push(at);
                own.entry((kind, self.a.own[at])).or_default().push(at);
            }
        }
        if whole.is_empty() {
            return Ok(());
        }
        for bt in self.b.first..self.pairs.of_b.len() {
            let (None, Some(kind)) = (self.pairs.of_b[bt], self.b.kinds[bt]) else { continue };
            self.budget.work(1)?;
            let at = self
                .next_open(whole.get_mut(&(kind, self.b.whole[bt])))
                .or_else(|| self.next_open(own.get_mut(&(kind, self.b.own[bt]))));
            if let Some(at) = at {
                self.pair(at, bt);
                self.pairs.is_moved[bt] = true;
                self.below(Some((at, bt)))?;
            }
        }
        Ok(())
    }

    /// Takes the first of these spans that has no counterpart yet.
    fn next_open(&self, known: Option<&mut Vec<usize>>) -> Option<usize> {
        let known = known?;
        while let Some(at) = known.pop() {
            if self.pairs.of_a[at].is_none() {
                return Some(at);
            }
        }
        None
    }
}

/// Groups both lists by a key, each group in the given order, for the keys that both have.
fn groups(
    mut a: Vec<usize>,
    mut b: Vec<usize>,
    key_a: impl Fn(usize) -> u64,
    key_b: impl Fn(usize) -> u64,
) -> Vec<(Vec<usize>, Vec<usize>)> {
    a.sort_by_key(|at| key_a(*at));
    b.sort_by_key(|at| key_b(*at));
    let mut others = b.chunk_by(|x, y| key_b(*x) == key_b(*y)).peekable();
    let mut found = Vec::new();
    for group in a.chunk_by(|x, y| key_a(*x) == key_a(*y)) {
        let key = key_a(group[0]);
        while others.next_if(|other| key_b(other[0]) < key).is_some() {}
        if let Some(other) = others.next_if(|other| key_b(other[0]) == key) {
            found.push((group.to_vec(), other.to_vec()));
        }
    }
    found
}

/// Returns where the block of `long` begins that has no counterpart in `short`, if all the others are paired in order.
fn left_over(long: &[u64], short: &[u64]) -> usize {
    let gap = long.len() - short.len();
    // With the whole block at the beginning.
    let mut cost: u128 = short.iter().zip(&long[gap..]).map(|(x, y)| u128::from(x.abs_diff(*y))).sum();
    let mut best = (cost, 0);
    for (at, length) in short.iter().enumerate() {
        cost = cost - u128::from(length.abs_diff(long[at + gap])) + u128::from(length.abs_diff(long[at]));
        if cost <= best.0 {
            best = (cost, at + 1);
        }
    }
    best.1
}
