//! Spans that earlier runs of the test had, and work that other traces had.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::absence::{Absence, AffectedServices};
use super::super::evidence::Grade;
use super::super::reach::{Closure, Sender};
use super::super::shape::Node;
use super::outlook::{Facts, Outlook};
use super::{Arrival, Progress, is_inside};
use crate::trace::SpanKind;

/// What is known of a kind of span of which there are fewer than usual.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expectation {
    /// They do not exist.
    Absent,
    /// Whether they exist is the question of an open call.
    Covered,
    /// They may exist.
    Open,
}

/// The processes that would have made a span.
enum Makers<'a> {
    /// Those of its service in this trace.
    Here(Vec<Sender<'a>>),
    /// All of its service that may be serving: only those count that were heard since the answer.
    Elsewhere(Vec<Sender<'a>>),
    /// None is known.
    None,
}

impl Progress {
    /// Applies the evidence to the kinds of spans that earlier runs had. `open` are the calls that a service may still
    /// answer.
    pub(super) fn expected_spans(&self, facts: Facts<'_>, open: &HashSet<usize>, outlook: &mut Outlook) {
        let owed = self.owed_shape(facts.register);
        if owed.is_empty() {
            return;
        }
        let mut lacking: Vec<(Option<usize>, Node)> = self.below.keys().copied().collect();
        lacking.sort_unstable();
        let mut owners: BTreeMap<Node, Vec<Option<usize>>> = BTreeMap::new();
        for (owner, node) in lacking {
            owners.entry(node).or_default().push(owner);
        }
        let mut found: BTreeMap<Node, Expectation> = BTreeMap::new();
        // Parents come first: a span that does not exist has no children.
        for node in owed {
            let parent = self.shape.key(node).parent;
            // Of several parents, those that are here owe what stands below them, whatever is known of the others.
            let has_parent = parent.is_none_or(|parent| self.count(parent) > 0);
            let state = match parent.and_then(|parent| found.get(&parent)) {
                Some(Expectation::Absent) if !has_parent => Expectation::Absent,
                Some(Expectation::Covered) => Expectation::Covered,
                Some(Expectation::Absent | Expectation::Open) | None => {
                    let lacking = owners.get(&node).map_or(&[][..], Vec::as_slice);
                    self.expected(node, lacking, facts, open, outlook)
                }
            };
            found.insert(node, state);
        }
    }

    fn expected(
        &self,
        node: Node,
        lacking: &[Option<usize>],
        facts: Facts<'_>,
        open: &HashSet<usize>,
        outlook: &mut Outlook,
    ) -> Expectation {
        let key = self.shape.key(node);
        let service = self.shape.text(key.service);
        let settled = facts.settled();
        if self.answers_calls(node) {
            let is_open = |owner: &Option<usize>| owner.is_some_and(|owner| open.contains(&owner));
            let of_parent = |call: &&usize| self.arrivals[**call].node == key.parent;
            if lacking.iter().any(is_open) || open.iter().any(|call| of_parent(&call)) {
                return Expectation::Covered;
            }
            let is_unanswered =
                |owner: &Option<usize>| owner.is_some_and(|owner| self.unanswered.contains(&owner));
            if !lacking.is_empty() && lacking.iter().all(is_unanswered) {
                return Expectation::Absent;
            }
        }
        let due = self.history.due(node, facts.base);
        let closure = match self.makers(node, facts) {
            Makers::Here(makers) => facts.reach.closed(&makers, due, false),
            Makers::Elsewhere(makers) => facts.reach.closed(&makers, due, true),
            Makers::None => Closure::silent(service),
        };
        match closure.grade {
            Grade::Proven => return Expectation::Absent,
            Grade::Likely => {
                outlook.concluded(&closure);
                // Spans that are sent again after a failure, or by another of several consumers, may be later than
                // any before.
                if !facts.register.disorder_of_anyone().is_zero() {
                    outlook.doubted_until = Some(settled);
                }
                return Expectation::Absent;
            }
            // It ended before its parent, which is here: they were delivered together, or one right after the other.
            grade @ (Grade::Later(_) | Grade::Unknown(_)) if self.is_before_parent(node) => {
                outlook.expect(if let Grade::Later(then) = grade { then.min(settled) } else { settled });
                if facts.now >= settled {
                    return Expectation::Absent;
                }
            }
            Grade::Later(then) => outlook.expect(facts.worth_waiting(then, due)),
            Grade::Unknown(_) => {
                let within = facts.register.delivers_within(service).unwrap_or_default();
                outlook.expect(closure.until.unwrap_or(due + within).max(settled));
            }
        }
        let name = self.shape.text(key.name);
        let reason = facts.excuse(&closure);
        if let Some(address) = key.peer.map(|peer| self.shape.text(peer)) {
            let who = facts.register.who_answers(address).cloned().unwrap_or_default();
            for service in facts.register.below(&who) {
                outlook.miss(Absence::new(AffectedServices::Service(service), reason.clone()));
            }
        }
        outlook.miss(Absence {
            kind: Some(key.kind),
            // A name with folded numbers or ids is not the real one.
            name: (!name.contains('#')).then(|| Arc::clone(name)),
            ..Absence::new(AffectedServices::Service(Arc::clone(service)), reason)
        });
        outlook.open_kinds.insert(node);
        Expectation::Open
    }

    /// Whether spans of this kind answer calls.
    pub(super) fn answers_calls(&self, node: Node) -> bool {
        let key = self.shape.key(node);
        key.parent.is_some_and(|parent| {
            let above = self.shape.key(parent);
            matches!(above.kind, SpanKind::Client | SpanKind::Producer)
                && !is_inside(above.service, key.service, key.kind)
        })
    }

    /// The processes that would have made a span of this kind.
    fn makers<'a>(&self, node: Node, facts: Facts<'a>) -> Makers<'a> {
        let key = self.shape.key(node);
        let service = self.shape.text(key.service);
        let is_own = key
            .parent
            .is_some_and(|parent| self.shape.key(parent).service == key.service && !self.answers_calls(node));
        let here = facts.reach.here().iter().filter(|sender| sender.name == service);
        let makers: Vec<Sender<'_>> = if is_own {
            here.copied().collect()
        } else {
            facts.reach.live(&BTreeSet::from([Arc::clone(service)]))
        };
        match (makers.is_empty(), is_own) {
            (true, _) => Makers::None,
            (false, true) => Makers::Here(makers),
            (false, false) => Makers::Elsewhere(makers),
        }
    }

    pub(super) fn is_before_parent(&self, node: Node) -> bool {
        let parent = self.shape.key(node).parent;
        self.history.ends_before_parent(node) && parent.is_some_and(|parent| self.count(parent) > 0)
    }

    /// Applies the evidence to work that services went on with after such entries in other traces. Returns whether any is
    /// not here.
    pub(super) fn later_work(&self, facts: Facts<'_>, outlook: &mut Outlook) -> bool {
        let is_quiet =
            |service: &Arc<str>| facts.register.get(service).is_none_or(|service| service.entries.is_quiet());
        if self.services_of_trace().all(|service| is_quiet(&service)) {
            return false;
        }
        let is_first = self.history.runs() == 0;
        let mut tails: Vec<_> = self.tails().into_iter().collect();
        tails.sort_unstable_by_key(|(entry, _)| *entry);
        let mut is_owed = false;
        for (entry, tail) in tails {
            let arrival = &self.arrivals[entry];
            let service = self.shape.text(arrival.service);
            let name = self.shape.text(arrival.folded);
            let work = facts
                .register
                .get(service)
                .and_then(|known| known.entries.later_work(name, is_first, facts.now));
            let Some(work) = work.filter(|_| tail.is_none_or(|tail| tail.later < SHORT_TAIL)) else {
                continue;
            };
            let due = facts.base + work.longest + work.longest / 4;
            let here = facts.reach.here().iter().filter(|sender| sender.name == service);
            let makers: Vec<Sender<'_>> = here.copied().collect();
            let closure = facts.reach.closed(&makers, due, false);
            is_owed = true;
            if closure.is_closed() {
                outlook.concluded(&closure);
                continue;
            }
            // A first run shows what it can, also where its verdict is final.
            let until = closure.until.unwrap_or(due);
            if is_first {
                outlook.wait(until);
            } else {
                outlook.expect(until);
            }
            let (kind, name) = work.latest.map_or((None, None), |(kind, name)| (Some(kind), name));
            outlook.miss(Absence {
                kind,
                name,
                ..Absence::new(AffectedServices::Service(Arc::clone(service)), facts.excuse(&closure))
            });
        }
        is_owed
    }

    /// Where a message has no span of its sender, nothing tells whether there is another one: the consumers must have
    /// delivered past the time within which they used to end.
    pub(super) fn unannounced_messages(&self, facts: Facts<'_>, outlook: &mut Outlook) {
        let is_bare = |arrival: &&Arrival| {
            let parent = arrival.parent.and_then(|id| self.by_id.get(&id)).map(|at| &self.arrivals[*at]);
            arrival.kind == SpanKind::Consumer
                && parent.is_some_and(|parent| parent.kind != SpanKind::Producer)
        };
        let bare = self.arrivals.iter().filter(is_bare);
        let kinds: BTreeSet<_> =
            bare.map(|arrival| (self.shape.text(arrival.service), arrival.node)).collect();
        for (service, node) in kinds {
            let due = node.map_or(facts.base, |node| self.history.due(node, facts.base));
            let makers = facts.reach.live(&BTreeSet::from([Arc::clone(service)]));
            let closure = facts.reach.closed(&makers, due, false);
            if let (false, Some(until)) = (closure.is_closed(), closure.until) {
                outlook.expect(until);
            }
        }
    }

    /// Whether other traces have shown what comes after each entry of this one: those that are this old.
    pub(super) fn entries_are_known(&self, age: Duration, facts: Facts<'_>) -> bool {
        let is_entry = |arrival: &&Arrival| matches!(arrival.kind, SpanKind::Server | SpanKind::Consumer);
        let mut entries = self.arrivals.iter().filter(is_entry).peekable();
        // A trace without an entry tells nothing.
        entries.peek().is_some()
            && entries.all(|arrival| {
                let service = facts.register.get(self.shape.text(arrival.service));
                let name = self.shape.text(arrival.folded);
                service.is_some_and(|service| service.entries.is_known(name, age, facts.now))
            })
    }
}

/// What ends this soon after an entry is a part of it.
const SHORT_TAIL: Duration = Duration::from_millis(10);
