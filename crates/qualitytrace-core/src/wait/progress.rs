//! The spans of one trace that have arrived, and what the trace therefore still owes.
//!
//! Every arrival updates the sets of open debts, so that the cost of a query does not grow with the trace.

mod asked;
mod counts;
mod entries;
mod expected;
mod observed;
mod open_ends;
mod outlook;
mod owed;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub(super) use self::outlook::Outlook;

use super::call::{self, CallOutcome, UninstrumentedPeers};
use super::history::History;
use super::observation::Observations;
use super::process::{Identity, ProcessAttributes};
use super::register::Register;
use super::shape::{Key, Node, Shape, Symbol, fold};
use crate::id::SpanId;
use crate::time::Timestamp;
use crate::trace::{Resource, Span, SpanKind, is_far_side, shared_id};

/// Resources whose process is found without reading their attributes.
const MAX_RESOURCES: usize = 64;

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
    /// The address that the trigger called, if it is known.
    trigger_address: Option<Arc<str>>,
    is_trigger_observed: bool,
    sent_at: Option<Timestamp>,
    answered_at: Option<Timestamp>,
    /// The service of a span that answers the trigger in a trace of its own.
    answered_elsewhere: Option<Arc<str>>,
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
    /// The processes that sent the spans.
    processes: Vec<Process>,
    /// The process of each resource, found again without reading its attributes.
    resources: Vec<(Arc<Resource>, usize)>,
    /// Calls that are known to stay without an answer, and have none.
    leaves: BTreeSet<usize>,
    /// The peers that the user declared to send no spans.
    uninstrumented: Arc<UninstrumentedPeers>,
    /// What was not yet passed to the register.
    observations: Observations,
    /// Spans right below the trigger whose clocks were not yet compared with this server's.
    entries_of_trigger: Vec<usize>,
}

/// A process in the trace.
#[derive(Debug, Clone)]
struct Process {
    service: Symbol,
    identity: Identity,
    /// The latest end among its spans, by its own clock.
    last_end: Option<Timestamp>,
    /// By how much its clock is ahead of this server's, in nanoseconds.
    clock_ahead: i64,
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
    /// The index of the process that sent it.
    process: usize,
    start: Timestamp,
    end: Option<Timestamp>,
    /// The address that it calls, as a part of its kind.
    callee: Option<Symbol>,
    call: Option<Call>,
    node: Option<Node>,
}

#[derive(Debug, Clone)]
struct Call {
    peer: Option<Arc<str>>,
    address: Option<Arc<str>>,
    outcome: CallOutcome,
    /// Tells the kinds of calls at one address apart.
    kind: u64,
    answered: bool,
}

impl Call {
    /// Whether the caller did not wait for an answer.
    fn is_message(&self) -> bool {
        self.outcome == CallOutcome::Message
    }
}

impl Progress {
    /// Starts a trace without arrivals, of the test with this history.
    pub fn new(begin: Begin, history: Arc<History>) -> Self {
        let shape = history.shape().clone();
        let mut progress = Self {
            begin,
            trigger_address: None,
            is_trigger_observed: false,
            sent_at: None,
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
            answered_elsewhere: None,
            processes: Vec::new(),
            resources: Vec::new(),
            leaves: BTreeSet::new(),
            uninstrumented: Arc::default(),
            observations: Observations::default(),
            entries_of_trigger: Vec::new(),
        };
        progress.expect_below(None, None);
        progress
    }

    /// Sets the peers that send no spans: calls to them owe no answer.
    pub fn know_uninstrumented(&mut self, peers: Arc<UninstrumentedPeers>) {
        self.uninstrumented = peers;
    }

    /// Records when the trigger was sent, and the address that it called, if it called one.
    pub fn sent(&mut self, at: Timestamp, address: Option<Arc<str>>) {
        self.sent_at = Some(at);
        self.trigger_address = address;
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
        let this = self.arrivals.len();
        let process = self.process(span);
        let last_end = &mut self.processes[process].last_end;
        *last_end = (*last_end).max(span.end);
        let service = self.shape.symbol(span.service());
        let folded = self.shape.symbol(&fold(&span.name));
        let call = self.call(span);
        let callee = call.as_ref().and_then(|call| call.address.as_deref());
        let callee = callee.map(|address| self.shape.symbol(call::lasting_address(address)));
        self.arrivals.push(Arrival {
            id,
            parent,
            name: Arc::clone(&span.name),
            folded,
            service,
            kind: span.kind,
            process,
            start: span.start,
            end: span.end,
            callee,
            call,
            node: None,
        });
        if self.arrivals[this].call.as_ref().is_some_and(|call| call.outcome != CallOutcome::Refused) {
            self.unanswered.insert(this);
            self.observe_call(this, None);
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

    /// Records that a span of this service answers the trigger in another trace: the system does not continue this one.
    pub fn answered_elsewhere(&mut self, service: &str) {
        self.answered_elsewhere = Some(service.into());
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
            self.entries_of_trigger.push(this);
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
        self.observe_child(at, this);
        self.answer_by_child(at, this);
        match self.arrivals[at].node {
            Some(_) => self.place(this, Some(at)),
            None => self.unplaced.entry(at).or_default().push(this),
        }
    }

    fn join_children(&mut self, this: usize, id: SpanId) {
        for child in self.orphans.remove(&id).unwrap_or_default() {
            self.observe_child(this, child);
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
        // Where no service was reached, nothing stands below the call.
        let call = owner.and_then(|owner| self.arrivals[owner].call.as_ref());
        if call.is_some_and(|call| call.outcome == CallOutcome::Refused) {
            return;
        }
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
        let Arrival { service, kind, folded, callee, .. } = *arrival;
        self.shape.known_as(Key { parent, service, kind, name: folded, peer: callee })
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
        self.observe_call(this, Some(by));
        self.answer(this);
    }

    /// Returns the index of the process that sent a span.
    fn process(&mut self, span: &Span) -> usize {
        let known = self.resources.iter().rev().find(|(resource, _)| Arc::ptr_eq(resource, &span.resource));
        if let Some((_, process)) = known {
            return *process;
        }
        let identity = ProcessAttributes::read(&span.resource).identity();
        let service = self.shape.symbol(span.service());
        let known = self
            .processes
            .iter()
            .position(|process| process.service == service && process.identity == identity);
        let process = known.unwrap_or_else(|| {
            self.processes.push(Process { service, identity, last_end: None, clock_ahead: 0 });
            self.processes.len() - 1
        });
        if self.resources.len() == MAX_RESOURCES {
            self.resources.remove(0);
        }
        self.resources.push((Arc::clone(&span.resource), process));
        process
    }

    /// Takes over what the register knows of the clocks of the processes in this trace, and of its calls that spans of
    /// other traces link to.
    pub fn consult(&mut self, register: &Register) {
        for process in &mut self.processes {
            let service = self.shape.text(process.service);
            process.clock_ahead = register.clock_ahead(service, &process.identity).unwrap_or(0);
        }
        let is_linked = |this: &usize| self.arrivals[*this].id.is_some_and(|id| register.is_linked(id));
        let linked: Vec<usize> = self.unanswered.union(&self.leaves).copied().filter(is_linked).collect();
        for this in linked {
            self.answer(this);
        }
    }

    /// When a span ended, by this server's clock.
    fn ended_at(&self, this: usize) -> Option<Timestamp> {
        let arrival = &self.arrivals[this];
        arrival.end.map(|end| end.shifted(-self.processes[arrival.process].clock_ahead))
    }

    /// The latest end among the spans, and of the trigger, by this server's clock.
    fn latest_end(&self, answered_at: Timestamp) -> Timestamp {
        let ends = self
            .processes
            .iter()
            .filter_map(|process| process.last_end.map(|end| end.shifted(-process.clock_ahead)));
        ends.max().map_or(answered_at, |end| end.max(answered_at))
    }

    /// Returns the call that this span owes an answer for, if any.
    fn call(&self, span: &Span) -> Option<Call> {
        let owes = call::expects_answer(span) && !self.uninstrumented.names_peer_of(span);
        owes.then(|| Call {
            peer: call::peer(span),
            address: call::address(span),
            outcome: call::outcome(span),
            kind: call::kind(span),
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
