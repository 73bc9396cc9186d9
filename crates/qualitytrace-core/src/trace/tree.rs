//! The tree of a trace, built from its spans.

use std::ops::Range;

use super::parents::{ById, Cycles, is_far_side, parents};
use super::span::Span;
use crate::id::{SpanId, TraceId};

/// The spans of one trace as a forest, in pre-order: parents before children, siblings by start time.
///
/// A span is addressed by its index. Its descendants directly follow it, which makes "below" a range.
#[derive(Debug, Clone)]
pub struct Trace {
    id: TraceId,
    spans: Vec<Span>,
    parents: Vec<Option<usize>>,
    ends: Vec<usize>,
    depths: Vec<usize>,
    /// The position of each span in the order of arrival.
    rows: Vec<usize>,
    notes: Vec<Note>,
    lacks_parents: bool,
    is_stored: bool,
}

/// An irregularity that was found while the tree was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The span names a parent that did not arrive; it becomes a root.
    MissingParent {
        /// The orphan.
        span: Option<SpanId>,
        /// The parent that it names.
        parent: SpanId,
    },
    /// The span was sent without an id; it becomes a leaf.
    NoId {
        /// Its name.
        name: String,
    },
    /// The span is, through its parents, its own ancestor; the cycle was cut here.
    Cycle {
        /// The span that became a root.
        span: Option<SpanId>,
    },
}

impl Trace {
    /// Builds the tree. A span that was delivered twice counts once: the later copy in `spans` wins. Where the two
    /// sides of a call share one id, as in Zipkin, the answering span gets its own id and stands below the
    /// caller's.
    pub fn assemble(id: TraceId, spans: impl IntoIterator<Item = Span>) -> Self {
        let spans = deduplicate(spans);
        let rows: Vec<usize> = (0..spans.len()).collect();
        Self::build(id, spans, &rows, None)
    }

    /// Returns the trace with `trigger` as its only root: every other root becomes its child. The trigger comes first
    /// in the order of arrival.
    ///
    /// A span with the trigger's id that arrived from outside is replaced by `trigger`, which has the response.
    #[must_use]
    pub fn with_trigger(self, trigger: Span) -> Self {
        let root = trigger.id;
        let (mut spans, mut rows) = (self.spans, self.rows);
        let is_copy = |span: &Span| span.id == root && is_far_side(span.kind) == is_far_side(trigger.kind);
        let copy = spans.iter().position(is_copy);
        let gap = copy.map_or(usize::MAX, |at| rows[at]);
        for row in &mut rows {
            *row += usize::from(*row < gap);
        }
        match copy {
            Some(at) => (spans[at], rows[at]) = (trigger, 0),
            None => {
                spans.push(trigger);
                rows.push(0);
            }
        }
        Self { is_stored: self.is_stored, ..Self::build(self.id, spans, &rows, root) }
    }

    /// Returns the trace as one that Tracetest stored: the special attributes among those of its spans are what it
    /// computed, and count instead of ours.
    #[must_use]
    pub fn as_stored(self) -> Self {
        Self { is_stored: true, ..self }
    }

    /// Whether its spans have their special attributes from Tracetest.
    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Returns the trace with every span replaced. Ids, parents and times must stay: the tree is not built again.
    #[must_use]
    pub fn map(self, change: impl FnMut(&Span) -> Span) -> Self {
        Self { spans: self.spans.iter().map(change).collect(), ..self }
    }

    fn build(id: TraceId, mut spans: Vec<Span>, rows: &[usize], root: Option<SpanId>) -> Self {
        let (mut parents, cycles) = parents(&mut spans);
        let notes = notes(&spans, &parents, &cycles);
        let lacks_parents = notes.iter().any(|note| match note {
            // What called the trigger is no part of the trace.
            Note::MissingParent { span, .. } => root.is_none() || *span != root,
            Note::NoId { .. } | Note::Cycle { .. } => false,
        });
        let root = root.and_then(|root| spans.iter().position(|span| span.id == Some(root)));
        if let Some(root) = root {
            parents[root] = None;
            for (at, parent) in parents.iter_mut().enumerate() {
                if at != root && parent.is_none() {
                    *parent = Some(root);
                }
            }
        }
        let order = pre_order(&spans, &parents);
        let mut new_position = vec![0; spans.len()];
        for (new, old) in order.iter().enumerate() {
            new_position[*old] = new;
        }
        let parents: Vec<_> =
            order.iter().map(|old| parents[*old].map(|parent| new_position[parent])).collect();
        let rows = order.iter().map(|old| rows[*old]).collect();
        let (ends, depths) = (subtree_ends(&parents), depths(&parents));
        let mut slots: Vec<Option<Span>> = spans.into_iter().map(Some).collect();
        let spans = order.iter().filter_map(|old| slots[*old].take()).collect();
        Self { id, spans, parents, ends, depths, rows, notes, lacks_parents, is_stored: false }
    }

    /// Returns the trace id.
    pub fn id(&self) -> TraceId {
        self.id
    }

    /// Returns every span, in pre-order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns the span at this position.
    pub fn span(&self, at: usize) -> &Span {
        &self.spans[at]
    }

    /// Returns the position of the span with this id.
    pub fn position(&self, id: SpanId) -> Option<usize> {
        self.spans.iter().position(|span| span.id == Some(id))
    }

    /// Returns the position of the parent in the tree; `None` for a root.
    pub fn parent(&self, at: usize) -> Option<usize> {
        self.parents[at]
    }

    /// Returns the positions of all spans below `at`, itself not included.
    pub fn descendants(&self, at: usize) -> Range<usize> {
        at + 1..self.ends[at]
    }

    /// Returns the positions of the direct children of `at`, by start time.
    pub fn children(&self, at: usize) -> impl Iterator<Item = usize> {
        siblings(&self.ends, at + 1, self.ends[at])
    }

    /// Returns the positions of the spans without a parent in the tree, by start time.
    pub fn roots(&self) -> impl Iterator<Item = usize> {
        siblings(&self.ends, 0, self.spans.len())
    }

    /// Returns the depth of the span at `at`; a root has depth 0.
    pub fn depth(&self, at: usize) -> usize {
        self.depths[at]
    }

    /// Returns the position of the span at `at` in the order of arrival. A span that was delivered twice has the
    /// position of its first copy.
    pub fn row(&self, at: usize) -> usize {
        self.rows[at]
    }

    /// Whether spans name parents that did not arrive; a trigger's own parent does not count.
    pub(crate) fn lacks_parents(&self) -> bool {
        self.lacks_parents
    }

    /// Returns the irregularities of the spans.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

fn siblings(ends: &[usize], first: usize, end: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(first), |at| ends.get(*at).copied()).take_while(move |at| *at < end)
}

/// Keeps one copy of each span: the last one, in the place of the first.
fn deduplicate(spans: impl IntoIterator<Item = Span>) -> Vec<Span> {
    let mut kept: Vec<Span> = Vec::new();
    let mut by_id = ById::default();
    for span in spans {
        match by_id.register(&span, kept.len()) {
            Some(at) => kept[at] = span,
            None => kept.push(span),
        }
    }
    kept
}

fn notes(spans: &[Span], parents: &[Option<usize>], cycles: &Cycles) -> Vec<Note> {
    let mut notes = Vec::new();
    for (at, span) in spans.iter().enumerate() {
        if span.id.is_none() {
            notes.push(Note::NoId { name: span.name.to_string() });
        }
        if let (Some(parent), None) = (span.parent, parents[at])
            && !cycles.cut.contains(&at)
        {
            notes.push(Note::MissingParent { span: span.id, parent });
        }
    }
    notes.extend(cycles.cut.iter().map(|at| Note::Cycle { span: spans[*at].id }));
    notes
}

fn pre_order(spans: &[Span], parents: &[Option<usize>]) -> Vec<usize> {
    let mut by_start: Vec<usize> = (0..spans.len()).collect();
    // Name and id break ties, so that the order does not depend on the order of arrival.
    by_start.sort_by(|a, b| {
        let key = |at: usize| (spans[at].start, spans[at].id, &spans[at].name);
        key(*a).cmp(&key(*b))
    });
    let mut children = vec![Vec::new(); spans.len()];
    let mut stack = Vec::new();
    for at in by_start.into_iter().rev() {
        match parents[at] {
            Some(parent) => children[parent].push(at),
            None => stack.push(at),
        }
    }
    let mut order = Vec::with_capacity(spans.len());
    while let Some(at) = stack.pop() {
        order.push(at);
        stack.append(&mut children[at]);
    }
    order
}

/// Returns where each span's descendants end, given the parents in pre-order.
fn subtree_ends(parents: &[Option<usize>]) -> Vec<usize> {
    let mut ends: Vec<usize> = (1..=parents.len()).collect();
    for at in (0..parents.len()).rev() {
        if let Some(parent) = parents[at] {
            ends[parent] = ends[parent].max(ends[at]);
        }
    }
    ends
}

/// Returns the depth of each span, given the parents in pre-order.
fn depths(parents: &[Option<usize>]) -> Vec<usize> {
    let mut depths: Vec<usize> = Vec::with_capacity(parents.len());
    for parent in parents {
        depths.push(parent.map_or(0, |parent| depths[parent] + 1));
    }
    depths
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::time::Timestamp;
    use crate::trace::{Attributes, Dropped, Resource, Scope, SpanKind};

    fn span(id: u8, parent: u8, start: u64) -> Span {
        Span {
            id: SpanId::from_slice(&[0, 0, 0, 0, 0, 0, 0, id]),
            parent: SpanId::from_slice(&[0, 0, 0, 0, 0, 0, 0, parent]),
            name: format!("s{id}").into(),
            kind: SpanKind::Internal,
            start: Timestamp::from_nanos(start),
            end: None,
            status: None,
            attributes: Attributes::default(),
            events: vec![],
            links: vec![],
            resource: Arc::new(Resource::default()),
            scope: Arc::new(Scope::default()),
            trace_state: "".into(),
            flags: 0,
            dropped: Dropped::default(),
        }
    }

    fn tree(trace: &Trace) -> String {
        (0..trace.spans().len())
            .map(|at| format!("{}{}", "-".repeat(trace.depth(at)), trace.span(at).name))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn check(spans: &[(u8, u8, u64)], expected: &str) {
        let id = TraceId::from_bytes([1; 16]).unwrap();
        let spans: Vec<Span> = spans.iter().map(|(id, parent, start)| span(*id, *parent, *start)).collect();
        assert_eq!(tree(&Trace::assemble(id, spans.clone())), expected);
        assert_eq!(
            tree(&Trace::assemble(id, spans.into_iter().rev())),
            expected,
            "in reverse order of arrival"
        );
    }

    #[test]
    fn children_stand_below_their_parent_by_start_time() {
        check(&[(1, 0, 1), (2, 1, 9), (3, 1, 2), (4, 3, 3)], "s1 -s3 --s4 -s2");
    }

    #[test]
    fn orphans_and_spans_without_id_are_roots() {
        check(&[(2, 9, 5), (1, 0, 1), (0, 1, 3)], "s1 -s0 s2");
    }

    #[test]
    fn a_circle_is_cut_at_its_earliest_span_and_nothing_is_lost() {
        check(&[(1, 3, 7), (2, 1, 5), (3, 2, 6), (4, 4, 1), (5, 2, 8)], "s4 s2 -s3 --s1 -s5");
    }

    #[test]
    fn the_trigger_adopts_every_root() {
        let id = TraceId::from_bytes([1; 16]).unwrap();
        let trace = Trace::assemble(id, [span(2, 9, 5), span(3, 8, 6)]).with_trigger(span(9, 7, 1));
        assert_eq!(tree(&trace), "s9 -s2 -s3");
        assert_eq!(trace.children(0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(trace.descendants(1), 2..2);
    }

    #[test]
    fn the_two_sides_of_a_call_that_share_an_id_both_stand_in_the_tree() {
        let id = TraceId::from_bytes([1; 16]).unwrap();
        let side = |kind, name: &str, start| Span { kind, name: name.into(), ..span(2, 1, start) };
        let client = side(SpanKind::Client, "call", 2);
        let server = side(SpanKind::Server, "answer", 3);
        let spans = [span(1, 0, 1), client.clone(), server.clone(), span(3, 2, 4), server, client];
        for spans in [spans.to_vec(), spans.iter().rev().cloned().collect()] {
            let trace = Trace::assemble(id, spans);
            assert_eq!(tree(&trace), "s1 -call --answer ---s3", "a copy counts once");
            let ids: std::collections::BTreeSet<_> = trace.spans().iter().map(|span| span.id).collect();
            assert_eq!(ids.len(), 4, "each has an id of its own");
            assert_eq!(trace.span(2).parent, trace.span(1).id);
            assert_eq!(trace.span(3).parent, trace.span(2).id);
            assert_eq!(tree(&trace.with_trigger(span(9, 0, 0))), "s9 -s1 --call ---answer ----s3");
        }
    }

    #[test]
    fn a_server_that_takes_over_the_id_of_the_trigger_stands_below_it() {
        let id = TraceId::from_bytes([1; 16]).unwrap();
        let server = Span { kind: SpanKind::Server, name: "answer".into(), ..span(9, 7, 2) };
        let trace = Trace::assemble(id, [server, span(3, 9, 4)]).with_trigger(span(9, 0, 1));
        assert_eq!(tree(&trace), "s9 -answer --s3");
    }

    #[test]
    fn a_long_chain_is_read_at_once() {
        let id = TraceId::from_bytes([1; 16]).unwrap();
        let chain = (1..=200_000_u64).map(|at| Span {
            id: SpanId::from_slice(&at.to_be_bytes()),
            parent: SpanId::from_slice(&(at - 1).to_be_bytes()),
            ..span(1, 0, at)
        });
        let trace = Trace::assemble(id, chain);
        assert_eq!((0..200_000).map(|at| trace.depth(at)).sum::<usize>(), 200_000 * 199_999 / 2);
    }
}
