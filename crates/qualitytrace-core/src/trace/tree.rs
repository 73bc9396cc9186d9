//! The tree of a trace, built from its spans.

use std::collections::HashMap;
use std::ops::Range;

use super::span::{Span, SpanKind};
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
    notes: Vec<Note>,
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
        Self::build(id, spans, None)
    }

    /// Returns the trace with `trigger` as its only root: every other root becomes its child.
    ///
    /// A span with the trigger's id that arrived from outside is replaced by `trigger`, which has the response.
    #[must_use]
    pub fn with_trigger(self, trigger: Span) -> Self {
        let root = trigger.id;
        Self::build(self.id, self.spans.into_iter().chain([trigger]), root)
    }

    fn build(id: TraceId, spans: impl IntoIterator<Item = Span>, root: Option<SpanId>) -> Self {
        let (mut spans, mut by_id) = deduplicate(spans);
        part_shared(&mut spans, &mut by_id);
        let mut notes = Vec::new();
        let mut parents = find_parents(&spans, &by_id, &mut notes);
        cut_cycles(&spans, &mut parents, &mut notes);
        if let Some(root) = root.and_then(|root| by_id.get(&root)).and_then(Sides::only) {
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
        let (ends, depths) = (subtree_ends(&parents), depths(&parents));
        let mut slots: Vec<Option<Span>> = spans.into_iter().map(Some).collect();
        let spans = order.iter().filter_map(|old| slots[*old].take()).collect();
        Self { id, spans, parents, ends, depths, notes }
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

    /// Returns the irregularities of the spans.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

fn siblings(ends: &[usize], first: usize, end: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(first), |at| ends.get(*at).copied()).take_while(move |at| *at < end)
}

/// The positions of the spans with one id: the caller's, and the one that answers it.
#[derive(Debug, Default, Clone, Copy)]
struct Sides {
    near: Option<usize>,
    far: Option<usize>,
}

impl Sides {
    /// Returns the span with this id, the caller's if there are two.
    fn only(&self) -> Option<usize> {
        self.near.or(self.far)
    }
}

/// Whether a span of this kind answers a call that another process makes.
pub(crate) const fn is_far_side(kind: SpanKind) -> bool {
    match kind {
        SpanKind::Server | SpanKind::Consumer => true,
        SpanKind::Unspecified | SpanKind::Internal | SpanKind::Client | SpanKind::Producer => false,
    }
}

/// Returns the new id of a span that answers a span with the same id.
pub(crate) fn shared_id(id: SpanId) -> SpanId {
    const APART: u64 = 0x9e37_79b9_7f4a_7c15;
    let bytes = (u64::from_be_bytes(id.to_bytes()) ^ APART).to_be_bytes();
    SpanId::from_slice(&bytes).unwrap_or(id)
}

fn deduplicate(spans: impl IntoIterator<Item = Span>) -> (Vec<Span>, HashMap<SpanId, Sides>) {
    let mut kept: Vec<Span> = Vec::new();
    let mut by_id: HashMap<SpanId, Sides> = HashMap::new();
    for span in spans {
        if let Some(id) = span.id {
            let sides = by_id.entry(id).or_default();
            let side = if is_far_side(span.kind) { &mut sides.far } else { &mut sides.near };
            if let Some(at) = *side {
                kept[at] = span;
                continue;
            }
            *side = Some(kept.len());
        }
        kept.push(span);
    }
    (kept, by_id)
}

/// Gives the far side its own id where both sides share one, and puts it below the near side. A span that names
/// the shared id as its parent belongs to the far side, unless it comes from the process of the near one.
fn part_shared(spans: &mut [Span], by_id: &mut HashMap<SpanId, Sides>) {
    let both = |sides: &Sides| Some((sides.near?, sides.far?));
    let mut shared: Vec<(SpanId, usize, usize)> =
        by_id.iter().filter_map(|(id, sides)| both(sides).map(|(near, far)| (*id, near, far))).collect();
    if shared.is_empty() {
        return;
    }
    shared.sort_unstable();
    let mut own: HashMap<SpanId, (SpanId, usize, usize)> = HashMap::new();
    for (id, near, far) in shared {
        let mut new = shared_id(id);
        while by_id.contains_key(&new) {
            new = SpanId::from_slice(&u64::from_be_bytes(new.to_bytes()).wrapping_add(1).to_be_bytes())
                .unwrap_or(id);
        }
        by_id.insert(id, Sides { near: Some(near), far: None });
        by_id.insert(new, Sides { near: None, far: Some(far) });
        own.insert(id, (new, near, far));
    }
    for at in 0..spans.len() {
        let Some((new, near, far)) = spans[at].parent.and_then(|parent| own.get(&parent)).copied() else {
            continue;
        };
        let service = spans[at].service();
        let is_near = service == spans[near].service() && service != spans[far].service();
        if at != near && at != far && !is_near {
            spans[at].parent = Some(new);
        }
    }
    for (at, span) in spans.iter_mut().enumerate() {
        if let Some((id, (new, ..))) =
            span.id.and_then(|id| own.get_key_value(&id)).filter(|(_, own)| own.2 == at)
        {
            (span.id, span.parent) = (Some(*new), Some(*id));
        }
    }
}

fn find_parents(spans: &[Span], by_id: &HashMap<SpanId, Sides>, notes: &mut Vec<Note>) -> Vec<Option<usize>> {
    spans
        .iter()
        .map(|span| {
            if span.id.is_none() {
                notes.push(Note::NoId { name: span.name.to_string() });
            }
            let named = span.parent?;
            let found = by_id.get(&named).and_then(Sides::only);
            if found.is_none() {
                notes.push(Note::MissingParent { span: span.id, parent: named });
            }
            found
        })
        .collect()
}

/// Cuts cycles of parents: in each cycle, the earliest span becomes a root.
fn cut_cycles(spans: &[Span], parents: &mut [Option<usize>], notes: &mut Vec<Note>) {
    const NEW: u32 = 0;
    let mut visit = vec![NEW; spans.len()];
    for start in 0..spans.len() {
        let round = u32::try_from(start).unwrap_or(u32::MAX - 1) + 1;
        let mut at = Some(start);
        while let Some(here) = at.filter(|here| visit[*here] == NEW) {
            visit[here] = round;
            at = parents[here];
        }
        let Some(entry) = at.filter(|here| visit[*here] == round) else {
            continue;
        };
        let circle = std::iter::successors(Some(entry), |here| parents[*here].filter(|next| *next != entry));
        if let Some(cut) = circle.min_by_key(|here| (spans[*here].start, spans[*here].id)) {
            notes.push(Note::Cycle { span: spans[cut].id });
            parents[cut] = None;
        }
    }
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
