//! Applies the evidence to everything that is owed: how long to wait, and what stays unproven.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::absence::{Absence, Whose};
use super::super::evidence::{Grade, Silence};
use super::super::pending::Pending;
use super::super::register::Register;
use super::super::shape::Node;
use super::super::{MAX_NAMED_DEBTS, Policy, Undecided, Windows};
use super::{Arrival, Call, Progress, is_inside};
use crate::time::Timestamp;

/// How much later than a message a span of its consumer may end.
const CONSUMER_DELAY: Duration = Duration::from_secs(2);

/// The result of applying the evidence.
#[derive(Debug, Default)]
pub(in crate::wait) struct Outlook {
    /// Until when to wait for missing parents and answers at most; `None` when they need no wait.
    pub(in crate::wait) until: Option<Timestamp>,
    /// The same for spans that earlier runs had, or that specs ask for: a final verdict does not wait for them.
    pub(in crate::wait) expected_until: Option<Timestamp>,
    /// Until when a verdict that lacks nothing else waits for spans that every earlier run had and whose absence
    /// is likely but not proven: the verdict would pass because they are missing.
    pub(in crate::wait) doubted_until: Option<Timestamp>,
    /// Spans that are neither here nor known to be absent.
    pub(in crate::wait) absences: Vec<Absence>,
    /// The kinds of calls that a service may still answer.
    pub(in crate::wait) open_calls: BTreeSet<Node>,
    /// The earliest time at which it may be known that a service sends no more of what a spec asks for.
    pub(in crate::wait) decided_at: Option<Timestamp>,
    /// Whether a spec asks for something that nothing announces.
    pub(in crate::wait) unannounced: bool,
}

impl Outlook {
    fn wait(&mut self, until: Timestamp) {
        self.until = self.until.max(Some(until));
    }

    fn expect(&mut self, until: Timestamp) {
        self.expected_until = self.expected_until.max(Some(until));
    }

    /// Whether arbitrary spans of this service may be missing.
    fn misses(&self, service: &Arc<str>) -> bool {
        self.absences.iter().any(|absence| match &absence.of {
            Whose::Anyone | Whose::Refused => true,
            Whose::Service(of) => of == service,
            Whose::AnyoneBut(heard) | Whose::AnyoneButIfNamed(heard) => !heard.contains(service),
        })
    }

    fn miss(&mut self, absence: Absence) {
        let is_known = |known: &Absence| {
            (&known.of, known.kind, &known.name) == (&absence.of, absence.kind, &absence.name)
        };
        if self.absences.len() < MAX_NAMED_DEBTS && !self.absences.iter().any(is_known) {
            self.absences.push(absence);
        } else if self.absences.len() == MAX_NAMED_DEBTS {
            self.absences.push(Absence::of_anyone("more spans are missing than can be listed".to_owned()));
        }
    }
}

/// A call without an answer so far.
struct Unanswered<'a> {
    arrival: &'a Arrival,
    call: &'a Call,
    /// By when the span of its answer would have ended.
    due: Timestamp,
    /// The services that used to answer it.
    who: BTreeSet<Arc<str>>,
}

impl Progress {
    /// Applies the evidence at `now` to calls without answers and to spans of earlier runs.
    pub(in crate::wait) fn outlook(&self, register: &Register, windows: &Windows, now: Timestamp) -> Outlook {
        let mut outlook = Outlook::default();
        let settled = windows.last + windows.settle;
        let base = self.last_end.map_or(windows.answered_at, |end| end.max(windows.answered_at));
        self.parents(register, windows, base, &mut outlook);
        self.answers(register, windows, base, now, &mut outlook);
        // Parents come first: a span that does not exist has no children.
        let mut absent = BTreeSet::new();
        for node in self.owed_shape(register) {
            let parent = self.shape.key(node).parent;
            if parent.is_some_and(|parent| absent.contains(&parent))
                || self.is_absent(&mut outlook, node, register, (base, settled), now)
            {
                absent.insert(node);
            }
        }
        self.unheard(register, &mut outlook);
        outlook
    }

    /// Applies the evidence to calls without an answer.
    fn answers(
        &self,
        register: &Register,
        windows: &Windows,
        base: Timestamp,
        now: Timestamp,
        outlook: &mut Outlook,
    ) {
        if self.unanswered.is_empty() {
            return;
        }
        let below = self.answering_kinds();
        let calls = self.unanswered.iter().filter_map(|this| {
            let arrival = &self.arrivals[*this];
            let call = arrival.call.as_ref()?;
            let kinds = arrival.node.and_then(|node| below.get(&node)).map_or(&[][..], Vec::as_slice);
            let due = self.answer_due(arrival, call, kinds, windows.answered_at, base);
            Some(Unanswered { arrival, call, due, who: self.who_answers(call, kinds, register) })
        });
        let calls: Vec<Unanswered<'_>> = calls.collect();
        let not_these = Arc::new(self.answered_nothing(&calls, register, now));
        let mut unproven_by = None;
        for Unanswered { arrival, call, due, who } in &calls {
            let reason = unanswered(arrival, call);
            if who.is_empty() {
                outlook.wait(windows.unheard);
                outlook.miss(Absence::new(Whose::AnyoneBut(Arc::clone(&not_these)), reason));
                continue;
            }
            for service in who {
                let grade = register.grade(service, *due, !call.is_message, now);
                Self::judge_answer(outlook, grade, service, register, windows.deadline, now);
                if !grade.is_absent() {
                    outlook.open_calls.extend(arrival.node);
                    unproven_by = unproven_by.max(Some(*due));
                }
            }
            // The services that answered at this address before need not be the only ones behind it.
            outlook.miss(Absence::new(Whose::AnyoneButIfNamed(Arc::clone(&not_these)), reason));
        }
        // The service that is missing may have called others.
        for service in unproven_by.into_iter().flat_map(|by| register.still_delivering(by, now)) {
            let reason = register.still_waiting(&service, now);
            outlook.miss(Absence::new(Whose::Service(service), reason));
        }
    }

    /// Returns the services that are known not to have answered one of these calls: a service in this trace would
    /// show it, one that used to answer them is examined by itself, and for the others the register decides.
    fn answered_nothing(
        &self,
        calls: &[Unanswered<'_>],
        register: &Register,
        now: Timestamp,
    ) -> BTreeSet<Arc<str>> {
        let known: BTreeSet<&Arc<str>> = calls.iter().flat_map(|call| &call.who).collect();
        let here: BTreeSet<&Arc<str>> =
            self.arrivals.iter().map(|arrival| self.shape.text(arrival.service)).collect();
        let is_waited_for = calls.iter().any(|call| !call.call.is_message);
        let latest = calls.iter().map(|call| call.due).max().unwrap_or_default();
        let mut heard = self.heard(register);
        heard.retain(|service| {
            here.contains(service)
                || known.contains(service)
                || register.grade(service, latest, is_waited_for, now).is_absent()
        });
        heard
    }

    /// Adds the absences of services that never sent anything: behind a call that is known to stay without an
    /// answer, and behind a message, which may have any number of consumers.
    fn unheard(&self, register: &Register, outlook: &mut Outlook) {
        let leaf = self.leaves.first().map(|this| &self.arrivals[*this]);
        let leaf = leaf.and_then(|leaf| Some(unanswered(leaf, leaf.call.as_ref()?)));
        let is_first = self.history.awaited_runs() == 0;
        let message = self.arrivals.iter().filter(|_| is_first).find_map(|arrival| {
            let call = arrival.call.as_ref().filter(|call| call.is_message)?;
            let topic = call.address.as_ref().or(call.peer.as_ref()).map_or(&*arrival.name, |topic| topic);
            Some(format!("a message to {topic} may have consumers that were not heard yet: run once more"))
        });
        let reasons: Vec<String> = leaf.into_iter().chain(message).collect();
        if reasons.is_empty() {
            return;
        }
        let heard = Arc::new(self.heard(register));
        for reason in reasons {
            outlook.miss(Absence::new(Whose::AnyoneButIfNamed(Arc::clone(&heard)), reason));
        }
    }

    /// Applies the evidence to the spans that undecided specs ask for. Returns whether one of these specs fails
    /// for good, because none of the services that it names will send more.
    pub(in crate::wait) fn asked_for(
        &self,
        outlook: &mut Outlook,
        undecided: &[Undecided],
        register: &Register,
        windows: &Windows,
        now: Timestamp,
    ) -> bool {
        let is_first = self.history.runs() == 0;
        let mut fails = false;
        for spec in undecided {
            let mut is_absent = !is_first && !spec.services.is_empty() && self.missing_parents() == 0;
            outlook.unannounced |= spec.services.is_empty();
            for service in &spec.services {
                is_absent &= self.sends_no_more(outlook, service, register, windows, now);
            }
            fails |= is_absent && !spec.services.iter().any(|service| outlook.misses(service));
        }
        fails
    }

    /// Whether this service, whose spans a spec asks for, is known to send no more.
    fn sends_no_more(
        &self,
        outlook: &mut Outlook,
        service: &Arc<str>,
        register: &Register,
        windows: &Windows,
        now: Timestamp,
    ) -> bool {
        let base = self.last_end.map_or(windows.answered_at, |end| end.max(windows.answered_at));
        let kinds = self.history.shape().nodes().filter(|node| {
            let is_its = self.shape.text(self.shape.key(*node).service) == service;
            is_its && self.count(*node) < self.history.most(*node)
        });
        // The kinds of which earlier runs had more are asked for. Without any, it is not known when the span would
        // have ended.
        let known = kinds.map(|node| self.history.due(node, base)).max();
        outlook.unannounced |= known.is_none();
        let by = known.unwrap_or(base + windows.settle);
        // A service that never sent anything is announced by a call without an answer.
        let Some(within) = register.heard_within(service) else {
            outlook.unannounced = true;
            return false;
        };
        let reason = match register.grade(service, by, false, now) {
            Grade::Proven | Grade::Likely => return known.is_some(),
            Grade::Later(then) => {
                outlook.expect(then);
                outlook.decided_at = Some(outlook.decided_at.map_or(then, |at| at.min(then)));
                register.still_waiting(service, now)
            }
            Grade::Unknown(silence) => {
                outlook.expect((windows.last + windows.settle).max(by + within));
                register.excuse(service, silence, now)
            }
        };
        outlook.miss(Absence::new(Whose::Service(Arc::clone(service)), reason));
        false
    }

    /// Missing parents exist, and may belong to any service.
    fn parents(&self, register: &Register, windows: &Windows, base: Timestamp, outlook: &mut Outlook) {
        if self.missing_parents() == 0 {
            return;
        }
        let within = register.anyone_delivers_within().filter(|_| self.history.runs() > 0);
        let by = match within {
            Some(within) => base + within,
            None => windows.patient,
        };
        outlook.wait(by.max(windows.last + windows.settle.saturating_mul(2)));
        let caller = self.silent_caller();
        let missing = self.orphans.iter().find(|(id, _)| Some(**id) != caller);
        let reason = missing.map(|(id, children)| {
            if !self.has_root() {
                return Pending::Root { trigger: None, others: self.services_here() }.to_string();
            }
            let child = &self.arrivals[children[0]];
            let service = self.shape.text(child.service);
            let service = if service.is_empty() { "unnamed service" } else { service };
            format!("the parent {id} of span `{}` ({service}) has not arrived", child.name)
        });
        outlook.miss(Absence::of_anyone(reason.unwrap_or_default()));
    }

    fn judge_answer(
        outlook: &mut Outlook,
        grade: Grade,
        service: &Arc<str>,
        register: &Register,
        deadline: Timestamp,
        now: Timestamp,
    ) {
        let reason = match grade {
            Grade::Proven | Grade::Likely => return,
            Grade::Later(then) => {
                outlook.wait(then);
                register.still_waiting(service, now)
            }
            Grade::Unknown(silence @ Silence::Answered) => register.excuse(service, silence, now),
            Grade::Unknown(silence @ (Silence::Silent | Silence::Few)) => {
                outlook.wait(deadline);
                register.excuse(service, silence, now)
            }
        };
        outlook.miss(Absence::new(Whose::Service(Arc::clone(service)), reason));
    }

    /// Whether spans of this kind, of which there are fewer than usual, are known to be absent.
    fn is_absent(
        &self,
        outlook: &mut Outlook,
        node: Node,
        register: &Register,
        (base, settled): (Timestamp, Timestamp),
        now: Timestamp,
    ) -> bool {
        let key = self.shape.key(node);
        let service = self.shape.text(key.service);
        let by = self.history.due(node, base);
        let reason = match register.grade(service, by, false, now) {
            Grade::Proven => return true,
            Grade::Likely => {
                // Spans that are sent again after a failure, or by another of several consumers, may be later than
                // any before.
                if !register.disorder_of_anyone().is_zero() {
                    outlook.doubted_until = Some(settled);
                }
                return true;
            }
            Grade::Later(then) => {
                outlook.expect(then);
                register.still_waiting(service, now)
            }
            // It ended before its parent, which is here: they were delivered together, or one right after the other.
            Grade::Unknown(Silence::Few) if self.is_before_parent(node) => {
                outlook.expect(settled);
                return now >= settled;
            }
            Grade::Unknown(silence) => {
                let within = register.delivers_within(service).unwrap_or_default();
                outlook.expect(settled.max(by + within));
                register.excuse(service, silence, now)
            }
        };
        let name = self.shape.text(key.name);
        outlook.miss(Absence {
            kind: Some(key.kind),
            // A name with folded numbers or ids is not the real one.
            name: (!name.contains('#')).then(|| Arc::clone(name)),
            ..Absence::new(Whose::Service(Arc::clone(service)), reason)
        });
        false
    }

    fn is_before_parent(&self, node: Node) -> bool {
        let parent = self.shape.key(node).parent;
        self.history.ends_before_parent(node) && parent.is_some_and(|parent| self.count(parent) > 0)
    }

    /// Returns the time by which the service that answers this call would have ended its span.
    fn answer_due(
        &self,
        arrival: &Arrival,
        call: &Call,
        kinds: &[Node],
        answered_at: Timestamp,
        base: Timestamp,
    ) -> Timestamp {
        // The caller's clock may be slow: by our own clock, a call that was waited for ended before the trigger
        // was answered.
        let end = arrival.end.map_or(answered_at, |end| end.max(answered_at));
        if !call.is_message {
            return end;
        }
        let known = kinds.iter().map(|node| self.history.due(*node, base)).max();
        known.unwrap_or_default().max(end + CONSUMER_DELAY)
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

    /// Returns, for each kind of call, the kinds that answered it in earlier runs.
    fn answering_kinds(&self) -> BTreeMap<Node, Vec<Node>> {
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

    /// Whether no known service may still deliver a span that ended within this time after the others.
    pub(in crate::wait) fn unannounced_is_absent(
        &self,
        register: &Register,
        windows: &Windows,
        within: Duration,
        now: Timestamp,
    ) -> bool {
        let base = self.last_end.map_or(windows.answered_at, |end| end.max(windows.answered_at));
        let by = base + within;
        self.heard(register).iter().all(|service| register.grade(service, by, false, now).is_absent())
    }

    /// Returns the services that sent spans: since this server listens, or in this trace.
    fn heard(&self, register: &Register) -> BTreeSet<Arc<str>> {
        let heard = register.all().filter(|(_, service)| service.first_heard.is_some());
        let here = self.arrivals.iter().map(|arrival| Arc::clone(self.shape.text(arrival.service)));
        heard.map(|(name, _)| Arc::clone(name)).chain(here).collect()
    }

    /// Returns how late the services of this trace are known to deliver.
    pub(in crate::wait) fn slowest(&self, register: &Register) -> Duration {
        let within = self.lags(register).map(|(service, lag)| {
            // A slow service with few known deliveries may be later by far.
            let slow = register.delivers_within(service).filter(|_| lag > Policy::DEFAULT.settle);
            slow.unwrap_or(lag + lag / 4)
        });
        within.max().unwrap_or_default()
    }

    /// Returns the absences of a first run: the services of this trace whose lag is not over.
    pub(in crate::wait) fn still_delivered(
        &self,
        register: &Register,
        answered_at: Timestamp,
        now: Timestamp,
    ) -> Vec<Absence> {
        let base = self.last_end.map_or(answered_at, |end| end.max(answered_at));
        let late = self.lags(register).filter(|(_, lag)| now < base + *lag + *lag / 4);
        late.map(|(service, _)| {
            Absence::new(Whose::Service(Arc::clone(service)), register.still_waiting(service, now))
        })
        .collect()
    }

    /// The services of this trace with their largest known lag.
    fn lags<'a>(&'a self, register: &'a Register) -> impl Iterator<Item = (&'a Arc<str>, Duration)> {
        let services: BTreeSet<&Arc<str>> =
            self.arrivals.iter().map(|arrival| self.shape.text(arrival.service)).collect();
        services.into_iter().filter_map(|service| Some((service, register.get(service)?.largest_lag())))
    }
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
