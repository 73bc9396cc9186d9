//! What has arrived of one trace, and what it therefore still owes.
//!
//! Every arrival updates the sets of open debts, so that asking costs nothing that grows with the trace.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::call;
use super::debt::Debt;
use super::history::History;
use super::lags::Lags;
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
            call: call::expects_answer(span).then(|| Call {
                peer: call::peer(span),
                answered: false,
            }),
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
        Key {
            parent,
            service: arrival.service,
            kind: arrival.kind,
            name: arrival.folded,
        }
    }

    /// Whether history says that this span answers a caller who sends no spans.
    fn comes_from_the_caller(&self, this: usize) -> bool {
        self.begin == Begin::Attached
            && self.history.caller_is_silent()
            && self
                .shape
                .find(self.key(this, None))
                .is_some_and(|node| self.history.is_known(node))
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

/// What the wait asks.
impl Progress {
    pub(super) fn answered_at(&self) -> Option<Timestamp> {
        self.answered_at
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// Whether any span has a place below the trigger, or below a caller who sends no spans.
    pub(super) fn has_root(&self) -> bool {
        self.has_root || self.silent_caller().is_some()
    }

    /// The parents that are not here, the caller of an attached trace left out.
    pub(super) fn missing_parents(&self) -> usize {
        self.orphans.len() - usize::from(self.silent_caller().is_some())
    }

    /// In an attached trace without a root, the one parent that is not here may be a caller who sends no spans.
    pub(super) fn silent_caller(&self) -> Option<SpanId> {
        let alone = self.begin == Begin::Attached && !self.has_root && self.orphans.len() == 1;
        alone.then(|| self.orphans.keys().next().copied()).flatten()
    }

    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Whether earlier runs had spans that may still come.
    pub(super) fn owes_shape(&self, lags: &Lags) -> bool {
        let nothing_owed = BTreeSet::new();
        // Parents come first: when everything before a kind is excused, so is its parent.
        !(self
            .short
            .keys()
            .all(|node| self.passed_by(*node, lags).is_some())
            && self
                .fewer
                .iter()
                .all(|node| self.excused(*node, lags, &nothing_owed)))
    }

    /// How much longer than usual silence must last before the synchronous part can be taken as complete.
    ///
    /// That matters only where runs differ; else the shape itself says when everything is here.
    pub(super) fn disorder(&self, lags: &Lags) -> Duration {
        let kinds = self.short.keys().chain(self.history.occasional());
        kinds
            .filter_map(|node| self.passed_by(*node, lags))
            .max()
            .unwrap_or_default()
    }

    /// How long after the parent of a kind that ends before it everything of that kind must be here: the parent has
    /// moved its process's watermark past it. `None` when that is not known.
    fn passed_by(&self, node: Node, lags: &Lags) -> Option<Duration> {
        let service = self.shape.text(self.shape.key(node).service);
        self.history
            .ends_before_parent(node)
            .then(|| lags.disorder(service))?
    }

    /// Whether fewer spans of an occasional kind than usual are here for a reason that is here too.
    ///
    /// Its parent must not be owed itself; then a kind is excused
    /// - when it was passed by;
    /// - when it answers calls, and every call that is here has an answer;
    /// - when the run has fewer parents than usual, and the kind keeps its proportion to them.
    fn excused(&self, node: Node, lags: &Lags, owed: &BTreeSet<Node>) -> bool {
        let key = self.shape.key(node);
        let Some(parent) = key.parent.filter(|parent| !owed.contains(parent)) else {
            return false;
        };
        let above = self.shape.key(parent);
        let answers = matches!(above.kind, SpanKind::Client | SpanKind::Producer)
            && !is_inside(above.service, key.service, key.kind)
            && self.unanswered.is_empty();
        let count = |node: Node| u64::from(self.counts[node.index()]);
        let most = |node: Node| u64::from(self.history.most(node));
        let in_proportion =
            self.fewer.contains(&parent) && count(node) * most(parent) >= most(node) * count(parent);
        self.passed_by(node, lags).is_some() || answers || in_proportion
    }

    /// Every debt that the spans themselves tell of; the most telling first.
    pub(super) fn debts(&self, lags: &Lags) -> impl Iterator<Item = Debt> {
        let root = (!self.has_root()).then_some(Debt::Root {
            trigger: match self.begin {
                Begin::Triggered(id) => Some(id),
                Begin::Attached => None,
            },
        });
        let caller = self.silent_caller();
        let unknown_caller = caller
            .filter(|_| !self.history.caller_is_silent())
            .map(|id| Debt::Caller { id });
        let missing = self.orphans.iter().filter(move |(id, _)| Some(**id) != caller);
        let parents = missing.map(|(id, children)| {
            let child = &self.arrivals[children[0]];
            Debt::Parent {
                id: *id,
                child: Arc::clone(&child.name),
                service: Arc::clone(self.shape.text(child.service)),
            }
        });
        let mut unanswered: Vec<&Arrival> =
            self.unanswered.iter().map(|this| &self.arrivals[*this]).collect();
        unanswered.sort_by_key(|arrival| arrival.id);
        let answers = unanswered.into_iter().map(|arrival| Debt::Answer {
            id: arrival.id,
            name: Arc::clone(&arrival.name),
            service: Arc::clone(self.shape.text(arrival.service)),
            peer: arrival.call.as_ref().and_then(|call| call.peer.clone()),
        });
        let shape = self
            .owed_shape(lags)
            .into_iter()
            .map(|node| self.shape_debt(node));
        let of_parents = root.into_iter().chain(unknown_caller).chain(parents);
        of_parents.chain(answers).chain(shape)
    }

    fn owed_shape(&self, lags: &Lags) -> BTreeSet<Node> {
        let short = self
            .short
            .keys()
            .filter(|node| self.passed_by(**node, lags).is_none());
        let mut owed: BTreeSet<Node> = short.copied().collect();
        for node in &self.fewer {
            if !self.excused(*node, lags, &owed) {
                owed.insert(*node);
            }
        }
        owed
    }

    fn shape_debt(&self, node: Node) -> Debt {
        let key = self.shape.key(node);
        let here = self.counts[node.index()];
        let name = |symbol: Symbol| Arc::clone(self.shape.text(symbol));
        Debt::Shape {
            service: name(key.service),
            kind: key.kind,
            name: name(key.name),
            below: key.parent.map(|parent| name(self.shape.key(parent).name)),
            here,
            usual: match self.short.get(&node) {
                Some(short) => here.saturating_add(*short),
                None => self.history.most(node),
            },
        }
    }
}

/// What history learns.
impl Progress {
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(super) fn count(&self, node: Node) -> u32 {
        self.counts[node.index()]
    }

    /// How long after the trigger's answer the last span arrived.
    pub(super) fn duration(&self) -> Duration {
        match (self.last_arrival, self.answered_at) {
            (Some(last), Some(answered)) => last.since(answered),
            (None, _) | (_, None) => Duration::ZERO,
        }
    }

    /// For each kind: whether all its spans ended before their parent in the same process did.
    pub(super) fn ended_before_parent(&self) -> Vec<bool> {
        let mut before = vec![true; self.shape.len()];
        for arrival in &self.arrivals {
            let parent = arrival.parent.and_then(|id| self.by_id.get(&id));
            let ended_before = parent.is_some_and(|at| {
                let parent = &self.arrivals[*at];
                let same_process = parent.service == arrival.service
                    && !matches!(arrival.kind, SpanKind::Server | SpanKind::Consumer);
                same_process && arrival.end.is_some() && arrival.end <= parent.end
            });
            if let Some(node) = arrival.node {
                before[node.index()] &= ended_before;
            }
        }
        before
    }

    /// For each kind: the least number of them that a span of its parent's kind has.
    pub(super) fn least_below(&self) -> Vec<u32> {
        let mut below: BTreeMap<(Option<usize>, Node), u32> = BTreeMap::new();
        for arrival in &self.arrivals {
            let parent = arrival.parent.and_then(|id| self.by_id.get(&id)).copied();
            if let Some(node) = arrival.node {
                *below.entry((parent, node)).or_default() += 1;
            }
        }
        let mut least = vec![(u32::MAX, 0_u32); self.shape.len()];
        for ((_, node), count) in below {
            let (fewest, parents) = &mut least[node.index()];
            *fewest = (*fewest).min(count);
            *parents += 1;
        }
        let least = self.shape.nodes().zip(least).map(|(node, (fewest, parents))| {
            let above = self.shape.key(node).parent.map_or(1, |parent| self.count(parent));
            if parents == above { fewest } else { 0 }
        });
        least.collect()
    }

    /// For each kind: whether any of its spans is a call that was answered.
    pub(super) fn was_answered(&self) -> Vec<bool> {
        let mut answered = vec![false; self.shape.len()];
        for arrival in &self.arrivals {
            if let (Some(node), Some(call)) = (arrival.node, &arrival.call) {
                answered[node.index()] |= call.answered;
            }
        }
        answered
    }

    /// Puts the spans below a caller who sends no spans right below the trigger's place.
    pub(super) fn with_caller_placed(&self) -> Self {
        let mut placed = self.clone();
        let children = self.silent_caller().and_then(|id| self.orphans.get(&id));
        for child in children.into_iter().flatten() {
            if placed.arrivals[*child].node.is_none() {
                placed.place(*child, None);
            }
        }
        placed
    }
}
