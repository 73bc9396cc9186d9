//! Calls without an answering span.
//!
//! A call that was answered is never absent: its span is here, or the call is an *open end*, because the peer sends no
//! spans, is mute, is late, or did not sample. No delivery of another process closes it. Who answers at its address
//! decides only how long to wait and what to say.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::absence::{Absence, AffectedServices};
use super::super::call::CallOutcome;
use super::super::reach::{Closure, have_passed};
use super::super::register::{Address, Register, Share};
use super::super::shape::Node;
use super::outlook::{Facts, Outlook};
use super::{Arrival, Call, Progress, is_inside};
use crate::time::Timestamp;

/// How much later than a message a span of its consumer may end.
const CONSUMER_DELAY: Duration = Duration::from_secs(2);
/// Consumed messages that must be known before one without a consumer is called lost.
const ENOUGH_MESSAGES: u32 = 20;
/// Calls of one kind in a row without a span, at an address that answers all others, after which none is expected.
const BLIND_CALLS: u32 = 8;
/// Calls without a span, among others with one, that are more than an accident.
const MIXED: u32 = 2;

impl Call {
    /// The services that answer such calls at other addresses.
    fn elsewhere(&self, register: &Register) -> BTreeSet<Arc<str>> {
        let address = self.address.as_deref();
        address.map(|address| register.who_answers_elsewhere(address, self.kind)).unwrap_or_default()
    }
}

/// Calls to one address that ended the same way.
struct OpenEnd<'a> {
    arrival: &'a Arrival,
    call: &'a Call,
    calls: Vec<usize>,
    /// By when the spans of their answers would have ended.
    due: Timestamp,
    /// The services that used to answer.
    who: BTreeSet<Arc<str>>,
    /// Whether they answered such calls at other addresses only.
    is_guess: bool,
}

impl Progress {
    /// Applies the evidence to calls without an answer. Returns those that a service may still answer.
    pub(super) fn open_ends(&self, facts: Facts<'_>, outlook: &mut Outlook) -> HashSet<usize> {
        let mut open = HashSet::new();
        if self.unanswered.is_empty() && self.leaves.is_empty() {
            return open;
        }
        let mut heard = None;
        for end in self.grouped(facts) {
            let address = end.call.address.as_deref().and_then(|address| facts.register.address(address));
            if end.who.is_empty() {
                self.unknown_peer(&end, facts, outlook);
                continue;
            }
            let live = facts.reach.live(&end.who);
            let closure = match end.who.first() {
                // Nothing is known of processes that were never heard.
                Some(service) if live.is_empty() => Closure::silent(service),
                _ => facts.reach.closed(&live, end.due, false),
            };
            let is_past = |by: Timestamp| have_passed(&live, by);
            let share =
                address.map_or_else(Share::default, |address| address.share(|_| true, facts.now, is_past));
            let is_absent = match end.call.outcome {
                CallOutcome::Answered => false,
                CallOutcome::Message => {
                    closure.is_closed() && share.with >= ENOUGH_MESSAGES && share.single == 0
                }
                CallOutcome::NoReply => closure.is_closed() && share.without() == 0,
                CallOutcome::Refused => true,
            };
            if is_absent {
                outlook.concluded(&closure);
                continue;
            }
            let heard = heard.get_or_insert_with(|| Arc::new(self.heard(facts.register)));
            let of_named = AffectedServices::AnyoneButIfNamed(Arc::clone(heard));
            if address.is_some_and(|address| is_blind(address, end.call.kind, facts.now, is_past)) {
                outlook.miss(Absence::new(of_named, unanswered(end.arrival, end.call)));
                continue;
            }
            outlook.open_kinds.extend(end.arrival.node);
            open.extend(&end.calls);
            wait_for(&end, &closure, share, facts, outlook);
            let reason = reason(&end, &closure, share, facts);
            for service in facts.register.below(&end.who) {
                outlook.miss(Absence::new(AffectedServices::Service(service), reason.clone()));
            }
            // The services that answered at this address before need not be the only ones behind it.
            outlook.miss(Absence::new(of_named, reason.clone()));
            if end.is_guess {
                // One that never answered anywhere may do so here.
                let placed = Arc::new(self.placed(facts.register));
                outlook.miss(Absence::new(AffectedServices::AnyoneBut(placed), reason));
            }
        }
        open
    }

    /// A call to a peer that never answered any with a span may lead to a service that was never heard, or to one that was
    /// heard, but at no other address.
    fn unknown_peer(&self, end: &OpenEnd<'_>, facts: Facts<'_>, outlook: &mut Outlook) {
        let reason = unanswered(end.arrival, end.call);
        let mut not_these = self.placed(facts.register);
        let address = end.call.address.as_deref();
        if address.is_some_and(|address| facts.register.is_mute(address)) {
            return outlook
                .miss(Absence::new(AffectedServices::AnyoneButIfNamed(Arc::new(not_these)), reason));
        }
        if address.is_some_and(|address| facts.register.has_namesake(address)) {
            // Else a peer that is never heard teaches by its silence.
            outlook.open_kinds.extend(end.arrival.node);
        }
        // A service may have a second address, under which it was not known.
        let here: BTreeSet<Arc<str>> = self.services_of_trace().collect();
        not_these.retain(|service| {
            let live = facts.reach.live(&BTreeSet::from([Arc::clone(service)]));
            let is_past = !live.is_empty() && facts.reach.closed(&live, end.due, false).is_closed();
            here.contains(service) || is_past
        });
        outlook.wait(facts.windows.unheard);
        outlook.miss(Absence::new(AffectedServices::AnyoneBut(Arc::new(not_these)), reason));
    }

    /// The services that do not answer at an unknown address: those of this trace, and those known at another one.
    fn placed(&self, register: &Register) -> BTreeSet<Arc<str>> {
        let placed = register.addresses().values().flat_map(|address| &address.services).cloned();
        self.services_of_trace().chain(placed).collect()
    }

    /// Groups the unanswered calls by address and outcome.
    fn grouped(&self, facts: Facts<'_>) -> Vec<OpenEnd<'_>> {
        let below = self.answering_kinds();
        let mut groups: BTreeMap<(Option<&str>, u8, u64), OpenEnd<'_>> = BTreeMap::new();
        let mut alone = Vec::new();
        for this in self.unanswered.union(&self.doubtful_leaves(facts.register)) {
            let arrival = &self.arrivals[*this];
            let Some(call) = arrival.call.as_ref() else { continue };
            let kinds = arrival.node.and_then(|node| below.get(&node)).map_or(&[][..], Vec::as_slice);
            let due = self.answer_due(*this, call, kinds, facts);
            let end = || {
                let known = self.who_answers(call, kinds, facts.register);
                let is_guess = known.is_empty();
                let elsewhere = || call.elsewhere(facts.register);
                let who = if is_guess { elsewhere() } else { known };
                OpenEnd { arrival, call, calls: vec![*this], due, who, is_guess }
            };
            if call.address.is_none() {
                alone.push(end());
                continue;
            }
            let key = (call.address.as_deref(), call.outcome as u8, call.kind);
            groups
                .entry(key)
                .and_modify(|group| {
                    group.calls.push(*this);
                    group.due = group.due.max(due);
                })
                .or_insert_with(end);
        }
        groups.into_values().chain(alone).collect()
    }

    /// Returns the time by which the service that answers this call would have ended its span.
    fn answer_due(&self, this: usize, call: &Call, kinds: &[Node], facts: Facts<'_>) -> Timestamp {
        let end = self.ended_at(this).unwrap_or(facts.windows.answered_at);
        match call.outcome {
            CallOutcome::Answered | CallOutcome::Refused => end,
            // It may still be at work.
            CallOutcome::NoReply => {
                let address = call.address.as_deref().and_then(|address| facts.register.address(address));
                end + address.map(|address| address.longest.get()).unwrap_or_default()
            }
            CallOutcome::Message => {
                let known = kinds.iter().map(|node| self.history.due(*node, facts.base)).max();
                known.unwrap_or_default().max(end + CONSUMER_DELAY)
            }
        }
    }

    /// Returns the services that are known to answer such a call.
    fn who_answers(&self, call: &Call, kinds: &[Node], register: &Register) -> BTreeSet<Arc<str>> {
        let by_address = call.address.as_deref().and_then(|address| register.who_answers(address));
        match by_address {
            Some(services) => services.clone(),
            None => {
                kinds.iter().map(|node| Arc::clone(self.shape.text(self.shape.key(*node).service))).collect()
            }
        }
    }

    /// Calls that earlier runs had without an answer, but that may go to one of several processes which a caller chooses
    /// from, and not to a peer that sends no spans.
    fn doubtful_leaves(&self, register: &Register) -> BTreeSet<usize> {
        let mut known: HashMap<(&str, u64), bool> = HashMap::new();
        let is_doubtful = |leaf: &&usize| {
            let call = self.arrivals[**leaf].call.as_ref();
            let address = call.and_then(|call| Some((call, call.address.as_deref()?)));
            address.is_some_and(|(call, address)| {
                let key = (address, call.kind);
                *known.entry(key).or_insert_with(|| !call.elsewhere(register).is_empty())
            })
        };
        self.leaves.iter().filter(is_doubtful).copied().collect()
    }

    /// Returns, for each kind of call, the kinds that answered it in earlier runs.
    pub(super) fn answering_kinds(&self) -> BTreeMap<Node, Vec<Node>> {
        let mut below: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
        for node in self.history.shape().nodes().filter(|node| self.history.is_known(*node)) {
            let key = self.shape.key(node);
            if let Some(parent) = key.parent
                && !is_inside(self.shape.key(parent).service, key.service, key.kind)
            {
                below.entry(parent).or_default().push(node);
            }
        }
        below
    }

    /// Adds the absences of services that never sent anything: behind a call that is known to stay without an
    /// answer, and behind a message, which may have any number of consumers.
    pub(super) fn unheard(&self, register: &Register, outlook: &mut Outlook) {
        let doubtful = self.doubtful_leaves(register);
        let leaf = self.leaves.difference(&doubtful).next().map(|this| &self.arrivals[*this]);
        let leaf = leaf.and_then(|leaf| Some(unanswered(leaf, leaf.call.as_ref()?)));
        let is_first = self.history.awaited_runs() == 0;
        let arrivals = if is_first { &self.arrivals[..] } else { &[] };
        let message = arrivals.iter().find_map(|arrival| {
            let call = arrival.call.as_ref().filter(|call| call.is_message())?;
            let topic = call.address.as_ref().or(call.peer.as_ref()).map_or(&*arrival.name, |topic| topic);
            Some(format!("a message to {topic} may have consumers that were not heard yet: run once more"))
        });
        if let Some(reason) = leaf {
            let not_these = Arc::new(self.placed(register));
            outlook.miss(Absence::new(AffectedServices::AnyoneButIfNamed(not_these), reason));
        }
        if let Some(reason) = message {
            let heard = Arc::new(self.heard(register));
            outlook.miss(Absence::new(AffectedServices::AnyoneButIfNamed(heard), reason));
        }
    }

    /// The addresses of calls that no span answered, in a trace that is whole otherwise.
    pub fn mute_addresses(&self) -> Vec<Arc<str>> {
        if !self.has_root() || self.missing_parents() > 0 {
            return Vec::new();
        }
        let calls = self.unanswered.iter().filter_map(|this| self.arrivals[*this].call.as_ref());
        let addresses: BTreeSet<&Arc<str>> = calls.filter_map(|call| call.address.as_ref()).collect();
        let answered = self.arrivals.iter().filter_map(|arrival| arrival.call.as_ref());
        let answered: BTreeSet<&Arc<str>> =
            answered.filter(|call| call.answered).filter_map(|call| call.address.as_ref()).collect();
        addresses.difference(&answered).map(|address| Arc::clone(address)).collect()
    }
}

/// Sets until when an open end is waited for.
fn wait_for(end: &OpenEnd<'_>, closure: &Closure, share: Share, facts: Facts<'_>, outlook: &mut Outlook) {
    let deadline = facts.windows.deadline;
    let lag_over = closure.until.unwrap_or(facts.now);
    let is_mixed = share.without() >= MIXED;
    let until = match end.call.outcome {
        CallOutcome::Message if is_mixed => lag_over.min(facts.settled()),
        CallOutcome::Message => lag_over,
        CallOutcome::NoReply => lag_over.min(facts.settled()),
        CallOutcome::Answered | CallOutcome::Refused if is_mixed => {
            if closure.is_closed() {
                facts.now
            } else {
                lag_over.min(facts.settled())
            }
        }
        // Its span most probably comes: from a process that joined, or that is slower than it was.
        CallOutcome::Answered | CallOutcome::Refused => deadline,
    };
    outlook.wait(until.max(facts.windows.last + facts.windows.quiet).min(deadline));
}

/// Why it is not known whether there is a span for these calls, and what to do.
fn reason(end: &OpenEnd<'_>, closure: &Closure, share: Share, facts: Facts<'_>) -> String {
    let service = end.who.first().map_or("", |service| service);
    let address = end.call.address.as_ref().or(end.call.peer.as_ref());
    let address = address.map_or_else(|| service.to_owned(), ToString::to_string);
    let silence = closure.culprit.as_ref().filter(|(_, silence)| silence.is_some());
    match end.call.outcome {
        _ if silence.is_some() && share.without() < MIXED => facts.excuse(closure),
        CallOutcome::Message if share.single > 0 => format!(
            "a message to {address} has no consumer here; {} of the last {} messages had none, so one of its consumers may \
             send nothing: compare the OTEL_* settings of the processes of {service}",
            share.without(),
            share.of
        ),
        CallOutcome::Message => format!(
            "a message to {address} has no consumer yet, and {} so far: that is too few to call this one lost; run {} more",
            consumed(share.with),
            times(ENOUGH_MESSAGES.saturating_sub(share.with).max(1)),
        ),
        CallOutcome::Answered | CallOutcome::NoReply | CallOutcome::Refused if end.is_guess => format!(
            "{address} answered {} and sent no span, while {service} answers such calls elsewhere with one: if it is a process \
             of {service} or its like, compare the OTEL_* settings; else list {address} under `uninstrumented`",
            if share.of > 1 { format!("{} calls", share.of) } else { "a call".to_owned() }
        ),
        CallOutcome::Answered | CallOutcome::NoReply | CallOutcome::Refused if share.without() >= MIXED => {
            format!(
                "{address} answered a call and sent no span for it; {} of its last {} answers had none, so about 1 of \
                 {} processes sends nothing: compare the OTEL_* settings of the processes of {service}, or list {address} \
                 under `uninstrumented`",
                share.without(),
                share.of,
                (share.of + share.without() / 2) / share.without(),
            )
        }
        CallOutcome::NoReply => format!(
            "a call to {address} ended with an error, and {service} may have worked on it all the same; {}: run once more",
            facts.register.last_seen(service, facts.now)
        ),
        CallOutcome::Answered | CallOutcome::Refused => format!(
            "{address} answered a call and {service} has sent no span for it ({}): if its exporter is slow or the process \
             started lately, run once more; if it sends none for such calls, list it under `uninstrumented`",
            facts.register.last_seen(service, facts.now)
        ),
    }
}

/// Whether calls of this kind are never answered with a span, at an address that answers all others.
fn is_blind(address: &Address, kind: u64, now: Timestamp, is_past: impl Fn(Timestamp) -> bool) -> bool {
    let these = address.share(|known| known == kind, now, &is_past);
    let others = address.share(|known| known != kind, now, &is_past);
    these.of >= BLIND_CALLS && these.with == 0 && others.with > 0 && others.without() == 0
}

fn consumed(messages: u32) -> String {
    match messages {
        0 => "none was consumed".to_owned(),
        1 => "1 was consumed".to_owned(),
        more => format!("{more} were consumed"),
    }
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn unanswered(arrival: &Arrival, call: &Call) -> String {
    match call.address.as_ref().or(call.peer.as_ref()) {
        Some(peer) => format!(
            "no service has answered a call to {peer} yet; if it sends no spans, run once more or list it under \
             `uninstrumented`"
        ),
        None => format!(
            "no service has answered the call `{}` yet; if the called service sends no spans, run once more",
            arrival.name
        ),
    }
}
