//! The debts of a trace, and which of them are excused.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::super::history::History;
use super::super::pending::Pending;
use super::super::register::Register;
use super::super::shape::{Node, Symbol};
use super::{Arrival, Begin, Progress, is_inside};
use crate::id::SpanId;
use crate::time::Timestamp;
use crate::trace::SpanKind;

impl Progress {
    pub(in crate::wait) fn answered_at(&self) -> Option<Timestamp> {
        self.answered_at
    }

    pub(in crate::wait) fn history(&self) -> &History {
        &self.history
    }

    /// Whether any span stands below the trigger, or below a caller that sends no spans.
    pub(in crate::wait) fn has_root(&self) -> bool {
        self.has_root || self.silent_caller().is_some()
    }

    /// Counts the parents that are not here, without the caller of an attached trace.
    pub(in crate::wait) fn missing_parents(&self) -> usize {
        self.orphans.len() - usize::from(self.silent_caller().is_some())
    }

    /// In an attached trace without a root, the one parent that is not here may be a caller that sends no spans.
    pub(in crate::wait) fn silent_caller(&self) -> Option<SpanId> {
        let alone = self.begin == Begin::Attached && !self.has_root && self.orphans.len() == 1;
        alone.then(|| self.orphans.keys().next().copied()).flatten()
    }

    pub(in crate::wait) fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Whether earlier runs had spans that may still come.
    pub(in crate::wait) fn owes_shape(&self, register: &Register) -> bool {
        if !self.orphans.is_empty() {
            return !self.owed_shape(register).is_empty();
        }
        let nothing_owed = BTreeSet::new();
        // Parents come first: when everything before a kind is excused, so is its parent.
        !(self.short.keys().all(|node| self.is_excused_by_parent(*node, register))
            && self.fewer.iter().all(|node| self.excused(*node, register, &nothing_owed)))
    }

    /// Returns by how much the quiet window grows before the synchronous part can be taken as complete.
    ///
    /// That matters only where runs differ; else the shape itself says when everything is here.
    pub(in crate::wait) fn disorder(&self, register: &Register) -> Duration {
        let kinds = self.short.keys().chain(self.history.occasional());
        kinds.filter_map(|node| self.passed_by(*node, register)).max().unwrap_or_default()
    }

    /// How long after the parent arrived every span of a kind that ends before it must be here: the parent has
    /// moved its process's watermark past them. `None` when that is not known.
    fn passed_by(&self, node: Node, register: &Register) -> Option<Duration> {
        let service = self.shape.text(self.shape.key(node).service);
        self.history.ends_before_parent(node).then(|| register.disorder(service))?
    }

    /// Whether spans that every parent used to have are left out now and then, and were passed by. A kind that was
    /// always present is not excused by its parent, which ends only a moment later: it may be on its way.
    fn is_excused_by_parent(&self, node: Node, register: &Register) -> bool {
        self.history.varies(node) && self.passed_by(node, register).is_some()
    }

    /// Whether fewer spans of an occasional kind than usual are here for a reason that is here too.
    ///
    /// Its parent must not be owed itself; then a kind is excused
    /// - when nothing is here below which it could be;
    /// - when it was passed by;
    /// - when it answers calls, and every call that is here has an answer;
    /// - when the run has fewer parents than usual, and the kind keeps its proportion to them.
    fn excused(&self, node: Node, register: &Register, owed: &BTreeSet<Node>) -> bool {
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
        count(parent) == 0 || self.passed_by(node, register).is_some() || answers || in_proportion
    }

    /// Lists every debt that follows from the spans; the most telling first.
    pub(in crate::wait) fn debts(&self, register: &Register) -> impl Iterator<Item = Pending> {
        let root = (!self.has_root()).then_some(Pending::Root {
            trigger: match self.begin {
                Begin::Triggered(id) => Some(id),
                Begin::Attached => None,
            },
            others: self.services_here(),
        });
        let caller = self.silent_caller();
        let unknown_caller =
            caller.filter(|_| !self.history.caller_is_silent()).map(|id| Pending::Caller { id });
        let missing = self.orphans.iter().filter(move |(id, _)| Some(**id) != caller);
        let parents = missing.map(|(id, children)| {
            let child = &self.arrivals[children[0]];
            Pending::Parent {
                id: *id,
                child: Arc::clone(&child.name),
                service: Arc::clone(self.shape.text(child.service)),
            }
        });
        let is_mute = |arrival: &&Arrival| {
            let address = arrival.call.as_ref().and_then(|call| call.address.as_deref());
            address.is_some_and(|address| register.is_mute(address))
        };
        let unanswered = self.unanswered.iter().map(|this| &self.arrivals[*this]);
        let mut unanswered: Vec<&Arrival> = unanswered.filter(|arrival| !is_mute(arrival)).collect();
        unanswered.sort_by_key(|arrival| arrival.id);
        let answers = unanswered.into_iter().map(|arrival| Pending::Answer {
            id: arrival.id,
            name: Arc::clone(&arrival.name),
            service: Arc::clone(self.shape.text(arrival.service)),
            peer: arrival.call.as_ref().and_then(|call| call.peer.clone()),
        });
        let shape = self.owed_shape(register).into_iter().map(|node| self.shape_debt(node));
        let of_parents = root.into_iter().chain(unknown_caller).chain(parents);
        of_parents.chain(answers).chain(shape)
    }

    /// The services that have spans here, by name.
    pub(super) fn services_here(&self) -> Vec<Arc<str>> {
        let here = self.arrivals.iter().map(|arrival| self.shape.text(arrival.service));
        let named: BTreeSet<&Arc<str>> = here.filter(|service| !service.is_empty()).collect();
        named.into_iter().map(Arc::clone).collect()
    }

    pub(super) fn owed_shape(&self, register: &Register) -> BTreeSet<Node> {
        let short = self.short.keys().filter(|node| !self.is_excused_by_parent(**node, register));
        let mut owed: BTreeSet<Node> = short.copied().collect();
        for node in &self.fewer {
            if !self.excused(*node, register, &owed) {
                owed.insert(*node);
            }
        }
        let hanging = self.hanging();
        owed.retain(|node| {
            let key = self.shape.key(*node);
            let here = hanging.get(&(key.service, key.kind, key.name)).copied().unwrap_or(0);
            here < self.lacking(*node)
        });
        owed
    }

    /// Counts the spans without a place, because a parent above them is missing, by service, kind and name.
    fn hanging(&self) -> HashMap<(Symbol, SpanKind, Symbol), u32> {
        let mut hanging = HashMap::new();
        if !self.orphans.is_empty() {
            for arrival in self.arrivals.iter().filter(|arrival| arrival.node.is_none()) {
                *hanging.entry((arrival.service, arrival.kind, arrival.folded)).or_default() += 1;
            }
        }
        hanging
    }

    /// Returns how many spans of this kind are missing compared with earlier runs.
    fn lacking(&self, node: Node) -> u32 {
        let fewer = self.history.most(node).saturating_sub(self.counts[node.index()]);
        self.short.get(&node).copied().unwrap_or(fewer)
    }

    pub(super) fn shape_debt(&self, node: Node) -> Pending {
        let key = self.shape.key(node);
        let here = self.counts[node.index()];
        let name = |symbol: Symbol| Arc::clone(self.shape.text(symbol));
        Pending::Shape {
            service: name(key.service),
            kind: key.kind,
            name: name(key.name),
            below: key.parent.map(|parent| name(self.shape.key(parent).name)),
            here,
            usual: here.saturating_add(self.lacking(node)),
        }
    }
}
