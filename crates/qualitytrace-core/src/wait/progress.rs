//! What has arrived of one trace, and what it therefore still owes.
//!
//! Every arrival updates the sets of open debts, so that asking costs nothing that grows with the trace.

mod counts;
mod owed;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::call;
use super::history::History;
use super::shape::{Key, Node, Shape, Symbol, fold};
use crate::id::SpanId;
use crate::time::Timestamp;
use crate::trace::{Span, SpanKind};

/// How the trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// We sent the request; its span, which we make ourselves, has this id.
    Triggered(SpanId),
    /// Someone else did, perhaps long ago: the trace is known by its id only.
    Attached,
}

/// The arrivals of one trace so far.
#[derive(Debug, Clone)]
pub struct Progress {
    begin: Begin,
    answered_at: Option<Timestamp>,
    history: Arc<History>,
    arrivals: Vec<Arrival>,
    by_id: HashMap<SpanId, usize>,
    has_root: bool,
    /// The children of parents that are not here.
    orphans: BTreeMap<SpanId, Vec<usize>>,
    /// The children of spans that are here but hang below a missing parent themselves.
    unplaced: HashMap<usize, Vec<usize>>,
    /// Links to spans that are not here yet.
    linked: HashSet<SpanId>,
    unanswered: BTreeSet<usize>,
    shape: Shape,
    counts: Vec<u32>,
    /// What each span, and the trigger (`None`), still owes of the kinds that every span of its kind had below it.
    below: HashMap<(Option<usize>, Node), u32>,
    /// The same, added up by kind.
    short: BTreeMap<Node, u32>,
    /// Kinds whose number differs from parent to parent, of which earlier runs had more.
    fewer: BTreeSet<Node>,
    last_arrival: Option<Timestamp>,
}

/// What is remembered of one span.
#[derive(Debug, Clone)]
struct Arrival {
    id: Option<SpanId>,
    parent: Option<SpanId>,
    name: Arc<str>,
    folded: Symbol,
    service: Symbol,
    kind: SpanKind,
    end: Option<Timestamp>,
    call: Option<Call>,
    node: Option<Node>,
}

#[derive(Debug, Clone)]
struct Call {
    peer: Option<Arc<str>>,
    answered: bool,
}

impl Progress {
    /// Nothing has arrived yet of a trace of the test with this history.
    pub fn new(begin: Begin, history: Arc<History>) -> Self {
        let shape = history.shape().clone();
        let mut progress = Self {
            begin,
            answered_at: None,
            arrivals: Vec::new(),
            by_id: HashMap::new(),
            has_root: false,
            orphans: BTreeMap::new(),
            unplaced: HashMap::new(),
            linked: HashSet::new(),
            unanswered: BTreeSet::new(),
            counts: vec![0; shape.len()],
            below: HashMap::new(),
            short: BTreeMap::new(),
            fewer: history.occasional().iter().copied().collect(),
            shape,
            history,
            last_arrival: None,
        };
        progress.expect_below(None, None);
        progress
    }

    /// The trigger was answered, or the run attached itself to the trace: the wait begins.
    pub fn answered(&mut self, at: Timestamp) {
        self.answered_at = Some(at);
    }

    /// A span arrived. Says whether it is new: a second copy changes nothing and prolongs no wait.
    pub fn arrived(&mut self, span: &Span, at: Timestamp) -> bool {
        if let Some(id) = span.id {
            if self.begin == Begin::Triggered(id) {
                return false;
            }
            if let Some(known) = self.by_id.get(&id) {
                let known = &mut self.arrivals[*known];
                known.end = known.end.max(span.end);
                return false;
            }
        }
        self.last_arrival = self.last_arrival.max(Some(at));
        let this = self.arrivals.len();
        let service = self.shape.symbol(span.service());
        let folded = self.shape.symbol(&fold(&span.name));
        self.arrivals.push(Arrival {
            id: span.id,
            parent: span.parent,
            name: Arc::clone(&span.name),
            folded,
            service,
            kind: span.kind,
            end: span.end,
            call: call::expects_answer(span).then(|| Call { peer: call::peer(span), answered: false }),
            node: None,
        });
        if self.arrivals[this].call.is_some() {
            self.unanswered.insert(this);
        }
        self.join_parent(this);
        if let Some(id) = span.id {
            self.by_id.insert(id, this);
            self.join_children(this, id);
            if self.linked.remove(&id) {
                self.answer(this);
            }
        }
        for target in span.links.iter().filter_map(|link| link.span) {
            match self.by_id.get(&target) {
                Some(target) => self.answer(*target),
                None => {
                    self.linked.insert(target);
                }
            }
        }
        true
    }

    /// How many spans are here, copies not counted.
    pub fn spans(&self) -> usize {
        self.arrivals.len()
    }

    /// When the last new span arrived.
    pub fn last_arrival(&self) -> Option<Timestamp> {
        self.last_arrival
    }

    fn join_parent(&mut self, this: usize) {
        let Some(parent) = self.arrivals[this].parent else {
            self.has_root = true;
            return self.place(this, None);
        };
        if self.begin == Begin::Triggered(parent) {
            self.has_root = true;
            return self.place(this, None);
        }
        let Some(at) = self.by_id.get(&parent).copied() else {
            // A span that names itself as its parent never finds a place; `Trace` cuts that circle.
            if self.arrivals[this].id == Some(parent) {
                return;
            }
            self.orphans.entry(parent).or_default().push(this);
            if self.comes_from_the_caller(this) {
                self.place(this, None);
            }
            return;
        };
        self.answer_by_child(at, this);
        match self.arrivals[at].node {
            Some(_) => self.place(this, Some(at)),
            None => self.unplaced.entry(at).or_default().push(this),
        }
    }

    fn join_children(&mut self, this: usize, id: SpanId) {
        for child in self.orphans.remove(&id).unwrap_or_default() {
            self.answer_by_child(this, child);
            match (self.arrivals[child].node, self.arrivals[this].node) {
                (Some(_), _) => {}
                (None, Some(_)) => self.place(child, Some(this)),
                (None, None) => self.unplaced.entry(this).or_default().push(child),
            }
        }
    }

    /// Gives a span its kind, now that its parent's is known, and everything below it too.
    fn place(&mut self, this: usize, parent: Option<usize>) {
        let mut stack = vec![(this, parent)];
        while let Some((this, parent)) = stack.pop() {
            let key = self.key(this, parent.and_then(|parent| self.arrivals[parent].node));
            let node = self.shape.node(key);
            self.counts.resize(self.shape.len(), 0);
            self.arrivals[this].node = Some(node);
            self.counts[node.index()] += 1;
            if self.counts[node.index()] >= self.history.most(node) {
                self.fewer.remove(&node);
            }
            if self.history.is_leaf(node) {
                self.unanswered.remove(&this);
            }
            self.paid_below(parent, node);
            self.expect_below(Some(this), Some(node));
            let below = self.unplaced.remove(&this).unwrap_or_default();
            stack.extend(below.into_iter().map(|child| (child, Some(this))));
        }
    }

    /// From now on a span of this kind owes what every one of its kind had below it.
    fn expect_below(&mut self, owner: Option<usize>, node: Option<Node>) {
        for (child, each) in self.history.required_below(node) {
            self.below.insert((owner, *child), *each);
            let short = self.short.entry(*child).or_default();
            *short = short.saturating_add(*each);
        }
    }

    fn paid_below(&mut self, owner: Option<usize>, node: Node) {
        let Entry::Occupied(mut owed) = self.below.entry((owner, node)) else {
            return;
        };
        *owed.get_mut() -= 1;
        if *owed.get() == 0 {
            owed.remove();
        }
        if let Some(short) = self.short.get_mut(&node) {
            *short = short.saturating_sub(1);
            if *short == 0 {
                self.short.remove(&node);
            }
        }
    }

    fn key(&self, this: usize, parent: Option<Node>) -> Key {
        let arrival = &self.arrivals[this];
        Key { parent, service: arrival.service, kind: arrival.kind, name: arrival.folded }
    }

    /// Whether history says that this span answers a caller who sends no spans.
    fn comes_from_the_caller(&self, this: usize) -> bool {
        self.begin == Begin::Attached
            && self.history.caller_is_silent()
            && self.shape.find(self.key(this, None)).is_some_and(|node| self.history.is_known(node))
    }

    /// Children inside the same service (name look-ups, handshakes) answer nothing; a call inside a call takes over.
    fn answer_by_child(&mut self, parent: usize, child: usize) {
        let (from, by) = (&self.arrivals[parent], &self.arrivals[child]);
        let inside =
            matches!(by.kind, SpanKind::Internal | SpanKind::Unspecified) && from.service == by.service;
        if !inside {
            self.answer(parent);
        }
    }

    fn answer(&mut self, this: usize) {
        if let Some(call) = &mut self.arrivals[this].call {
            call.answered = true;
            self.unanswered.remove(&this);
        }
    }
}

/// Whether a child of this kind stays inside the service of its parent.
fn is_inside(parent: Symbol, child: Symbol, kind: SpanKind) -> bool {
    parent == child && matches!(kind, SpanKind::Internal | SpanKind::Unspecified)
}
