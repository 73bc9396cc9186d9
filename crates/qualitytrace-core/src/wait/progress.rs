//! The spans of one trace that have arrived, and what the trace therefore still owes.
//!
//! Every arrival updates the sets of open debts, so that the cost of a query does not grow with the trace.

mod counts;
mod outlook;
mod owed;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::outlook::Outlook;

use super::call;
use super::history::History;
use super::shape::{Key, Node, Shape, Symbol, fold};
use crate::id::SpanId;
use crate::time::Timestamp;
use crate::trace::{Span, SpanKind, is_far_side, shared_id};

/// Upper bound of a clock difference: a server that goes on after its answer ends late although its clock is
/// right.
const MAX_CLOCK_ERROR: Duration = Duration::from_mins(1);

/// How the trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// This server sent the request; its span, which this server records, has this id.
    Triggered(SpanId),
    /// Another program did, perhaps long ago: only the trace id is known.
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
    /// The children of spans that are here but stand below a missing parent themselves.
    unplaced: HashMap<usize, Vec<usize>>,
    /// Links to spans that are not here yet.
    linked: HashSet<SpanId>,
    unanswered: BTreeSet<usize>,
    shape: Shape,
    counts: Vec<u32>,
    /// What each span, and the trigger (`None`), still owes: the kinds that every span of its kind had below it.
    below: HashMap<(Option<usize>, Node), u32>,
    /// The same debts, summed by kind.
    short: BTreeMap<Node, u32>,
    /// Kinds whose number differs from parent to parent, of which earlier runs had more.
    fewer: BTreeSet<Node>,
    last_arrival: Option<Timestamp>,
    /// When the server resumed after it was suspended.
    resumed_at: Option<Timestamp>,
    /// The latest end among the spans.
    last_end: Option<Timestamp>,
    /// Calls that are known to stay without an answer, and have none.
    leaves: BTreeSet<usize>,
    /// The peers that the user declared to send no spans.
    uninstrumented: Arc<[String]>,
    /// Answers that were not yet passed to the register.
    answers: Vec<Answered>,
}

/// A service answered a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The address, RPC service or destination that was called.
    pub address: Arc<str>,
    /// The service that answered.
    pub service: Arc<str>,
    /// How far its clock is ahead of the caller's.
    pub ahead: Duration,
}

/// What is kept of one span.
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
    address: Option<Arc<str>>,
    /// Whether the caller did not wait for an answer.
    is_message: bool,
    answered: bool,
}

impl Progress {
    /// Starts a trace without arrivals, of the test with this history.
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
            resumed_at: None,
            last_end: None,
            leaves: BTreeSet::new(),
            uninstrumented: Arc::default(),
            answers: Vec::new(),
        };
        progress.expect_below(None, None);
        progress
    }

    /// Sets the names of peers that send no spans: calls to them owe no answer.
    pub fn know_uninstrumented(&mut self, names: Arc<[String]>) {
        self.uninstrumented = names;
    }

    /// Takes the answers found since the last call, for the [register](super::Register).
    pub fn take_answers(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.answers)
    }

    /// Records that the trigger was answered, or that the run attached itself to the trace: the wait begins.
    pub fn answered(&mut self, at: Timestamp) {
        self.answered_at = Some(at);
    }

    /// Records an arrival; returns whether the span is new. A second copy does not prolong the wait.
    pub fn arrived(&mut self, span: &Span, at: Timestamp) -> bool {
        let (id, parent) = self.named(span);
        if let Some(id) = id {
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
        self.last_end = self.last_end.max(span.end);
        let this = self.arrivals.len();
        let service = self.shape.symbol(span.service());
        let folded = self.shape.symbol(&fold(&span.name));
        self.arrivals.push(Arrival {
            id,
            parent,
            name: Arc::clone(&span.name),
            folded,
            service,
            kind: span.kind,
            end: span.end,
            call: self.call(span),
            node: None,
        });
        if self.arrivals[this].call.is_some() {
            self.unanswered.insert(this);
        }
        self.join_parent(this);
        if id != span.id && !is_far_side(span.kind) {
            // The far side with the same id arrived first.
            self.answer(this);
        }
        if let Some(id) = id {
            self.by_id.insert(id, this);
            self.join_children(this, id);
            if self.linked.remove(&id) {
                self.answer(this);
            }
        }
        for target in span.links.iter().filter_map(|link| link.span) {
            match self.by_id.get(&target) {
                Some(target) => self.answer_by(*target, this),
                None => {
                    self.linked.insert(target);
                }
            }
        }
        true
    }

    /// Returns the ids of a span and of its parent. Where both sides of a call share one id, the later arrival
    /// gets another.
    fn named(&self, span: &Span) -> (Option<SpanId>, Option<SpanId>) {
        let Some(id) = span.id else { return (None, span.parent) };
        let is_far = is_far_side(span.kind);
        let first = self.by_id.get(&id).map(|first| is_far_side(self.arrivals[*first].kind));
        let answers = is_far && (first == Some(false) || self.begin == Begin::Triggered(id));
        let asks = !is_far && first == Some(true);
        let own = if answers || asks { shared_id(id) } else { id };
        (Some(own), if answers { Some(id) } else { span.parent })
    }

    /// How many spans are here, copies not counted.
    pub fn spans(&self) -> usize {
        self.arrivals.len()
    }

    /// Records that the server was suspended until now: the silence before it was not observed.
    pub fn resumed(&mut self, at: Timestamp) {
        self.resumed_at = self.resumed_at.max(Some(at));
    }

    /// Returns the start of the current silence, if anything happened after the answer.
    pub(super) fn silent_since(&self) -> Option<Timestamp> {
        self.last_arrival.max(self.resumed_at)
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

    /// Assigns a span its kind, now that its parent's is known, and then everything below it.
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
            if self.history.is_leaf(node) && self.unanswered.remove(&this) {
                self.leaves.insert(this);
            }
            self.paid_below(parent, node);
            self.expect_below(Some(this), Some(node));
            let below = self.unplaced.remove(&this).unwrap_or_default();
            stack.extend(below.into_iter().map(|child| (child, Some(this))));
        }
    }

    /// Adds the debts of a span of this kind: what every span of its kind had below it.
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

    /// Whether history says that this span answers a caller that sends no spans.
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
            self.answer_by(parent, child);
        }
    }

    fn answer_by(&mut self, this: usize, by: usize) {
        let (from, answer) = (&self.arrivals[this], &self.arrivals[by]);
        if let Some(Call { address: Some(address), is_message, .. }) = &from.call
            && from.service != answer.service
        {
            // By the same clock, the span that answers a call ends before the call does.
            let ahead = match (from.end, answer.end, answer.kind, is_message) {
                (Some(call), Some(end), SpanKind::Server, false) => end.since(call).min(MAX_CLOCK_ERROR),
                _ => Duration::ZERO,
            };
            self.answers.push(Answered {
                address: Arc::clone(address),
                service: Arc::clone(self.shape.text(answer.service)),
                ahead,
            });
        }
        self.answer(this);
    }

    /// Returns the call that this span owes an answer for, if any.
    fn call(&self, span: &Span) -> Option<Call> {
        let owes = call::expects_answer(span) && !call::is_named(span, &self.uninstrumented);
        owes.then(|| Call {
            peer: call::peer(span),
            address: call::address(span),
            is_message: call::is_message(span),
            answered: false,
        })
    }

    fn answer(&mut self, this: usize) {
        if let Some(call) = &mut self.arrivals[this].call {
            call.answered = true;
            self.unanswered.remove(&this);
            self.leaves.remove(&this);
        }
    }
}

/// Whether a child of this kind stays inside the service of its parent.
fn is_inside(parent: Symbol, child: Symbol, kind: SpanKind) -> bool {
    parent == child && matches!(kind, SpanKind::Internal | SpanKind::Unspecified)
}
