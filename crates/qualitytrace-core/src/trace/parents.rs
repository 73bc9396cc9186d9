//! Which span is the parent of which: found by id, whatever arrived twice, shares an id, or names itself.

use std::collections::{BTreeSet, HashMap};

use super::span::{Span, SpanKind};
use crate::id::SpanId;
use crate::time::Timestamp;

/// What parents are found by: a span, or the part of it that a list needs.
pub trait Node {
    /// Returns its id; `None` when it was sent without one.
    fn id(&self) -> Option<SpanId>;
    /// Returns the id of the parent that it names.
    fn parent(&self) -> Option<SpanId>;
    /// Returns its kind.
    fn kind(&self) -> SpanKind;
    /// Returns when it began.
    fn start(&self) -> Timestamp;
    /// Whether the same service sent both.
    fn has_service_of(&self, other: &Self) -> bool;
    /// Gives it another id and another parent.
    fn relink(&mut self, id: Option<SpanId>, parent: Option<SpanId>);
}

impl Node for Span {
    fn id(&self) -> Option<SpanId> {
        self.id
    }

    fn parent(&self) -> Option<SpanId> {
        self.parent
    }

    fn kind(&self) -> SpanKind {
        self.kind
    }

    fn start(&self) -> Timestamp {
        self.start
    }

    fn has_service_of(&self, other: &Self) -> bool {
        self.service() == other.service()
    }

    fn relink(&mut self, id: Option<SpanId>, parent: Option<SpanId>) {
        (self.id, self.parent) = (id, parent);
    }
}

/// The positions of spans by id: one for each side of a call.
#[derive(Debug, Default, Clone)]
pub struct ById {
    known: HashMap<SpanId, Sides>,
    /// Ids that both sides of a call have.
    shared: usize,
}

/// The positions of the spans with one id: the caller's, and the one that answers it.
#[derive(Debug, Default, Clone, Copy)]
struct Sides {
    near: Option<usize>,
    far: Option<usize>,
}

impl ById {
    /// Registers deduplicated spans.
    pub fn of<T: Node>(nodes: &[T]) -> Self {
        let mut by_id = Self::default();
        for (at, node) in nodes.iter().enumerate() {
            by_id.register(node, at);
        }
        by_id
    }

    /// Registers a span at this position. Returns the position of its earlier copy if it was delivered before.
    pub fn register<T: Node>(&mut self, node: &T, at: usize) -> Option<usize> {
        let sides = self.known.entry(node.id()?).or_default();
        let (own, other) = if is_far_side(node.kind()) {
            (&mut sides.far, sides.near)
        } else {
            (&mut sides.near, sides.far)
        };
        if own.is_none() {
            *own = Some(at);
            self.shared += usize::from(other.is_some());
            return None;
        }
        *own
    }

    /// Returns the position of the span with this id, the caller's if there are two.
    pub fn get(&self, id: SpanId) -> Option<usize> {
        self.known.get(&id).and_then(|sides| sides.near.or(sides.far))
    }

    /// Whether both sides of a call have the same id somewhere, as in Zipkin.
    pub fn has_shared(&self) -> bool {
        self.shared > 0
    }
}

/// Cycles of parents, cut.
#[derive(Debug, Default)]
pub struct Cycles {
    /// The spans that became roots.
    pub cut: BTreeSet<usize>,
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

/// Returns the position of each span's parent, without cycles. Where two deduplicated spans share an id, the answering
/// one gets its own first.
pub fn parents<T: Node>(nodes: &mut [T]) -> (Vec<Option<usize>>, Cycles) {
    let mut by_id = ById::of(nodes);
    part_shared(nodes, &mut by_id);
    let mut parents = nodes.iter().map(|node| by_id.get(node.parent()?)).collect::<Vec<_>>();
    let cycles = cut_cycles(nodes, &mut parents);
    (parents, cycles)
}

/// Gives the far side its own id where both sides share one, and puts it below the near side. A span that names
/// the shared id as its parent belongs to the far side, unless it comes from the process of the near one.
fn part_shared<T: Node>(nodes: &mut [T], by_id: &mut ById) {
    if !by_id.has_shared() {
        return;
    }
    let both = |sides: &Sides| Some((sides.near?, sides.far?));
    let mut shared: Vec<(SpanId, usize, usize)> = by_id
        .known
        .iter()
        .filter_map(|(id, sides)| both(sides).map(|(near, far)| (*id, near, far)))
        .collect();
    shared.sort_unstable();
    let mut own: HashMap<SpanId, (SpanId, usize, usize)> = HashMap::new();
    for (id, near, far) in shared.iter().copied() {
        let mut new = shared_id(id);
        while by_id.known.contains_key(&new) {
            new = SpanId::from_slice(&u64::from_be_bytes(new.to_bytes()).wrapping_add(1).to_be_bytes())
                .unwrap_or(id);
        }
        by_id.known.insert(id, Sides { near: Some(near), far: None });
        by_id.known.insert(new, Sides { near: None, far: Some(far) });
        own.insert(id, (new, near, far));
    }
    for at in 0..nodes.len() {
        let Some((new, near, far)) = nodes[at].parent().and_then(|parent| own.get(&parent)).copied() else {
            continue;
        };
        let node = &nodes[at];
        let is_near = node.has_service_of(&nodes[near]) && !node.has_service_of(&nodes[far]);
        if at != near && at != far && !is_near {
            let id = node.id();
            nodes[at].relink(id, Some(new));
        }
    }
    for (id, _, far) in shared {
        nodes[far].relink(own.get(&id).map(|(new, ..)| *new), Some(id));
    }
}

/// Cuts cycles of parents: in each cycle, the earliest span becomes a root.
fn cut_cycles<T: Node>(nodes: &[T], parents: &mut [Option<usize>]) -> Cycles {
    const NEW: u32 = 0;
    let mut cycles = Cycles::default();
    let mut visit = vec![NEW; nodes.len()];
    for start in 0..nodes.len() {
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
        if let Some(cut) = circle.min_by_key(|here| (nodes[*here].start(), nodes[*here].id())) {
            parents[cut] = None;
            cycles.cut.insert(cut);
        }
    }
    cycles
}
