//! Applies the evidence to everything that is owed: how long to wait, and what stays unproven.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::super::absence::{Absence, AffectedServices};
use super::super::evidence::{Grade, Silence};
use super::super::observation::TRIGGER;
use super::super::pending::Pending;
use super::super::reach::{Closure, Reach, have_passed};
use super::super::register::{Register, Service};
use super::super::shape::Node;
use super::super::{MAX_NAMED_DEBTS, Windows};
use super::{Begin, Progress};
use crate::time::Timestamp;
use crate::trace::is_far_side;

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
    /// Until when a first run waits for spans that nothing announces.
    pub(in crate::wait) first_until: Option<Timestamp>,
    /// Until when to wait for a span below the trigger.
    pub(in crate::wait) root_until: Option<Timestamp>,
    /// Spans that are neither here nor known to be absent.
    pub(in crate::wait) absences: Vec<Absence>,
    /// Spans that processes may not have delivered yet which a first run has seen; only for the end of its wait.
    pub(in crate::wait) undelivered: Vec<Absence>,
    /// The kinds of calls that a service may still answer, and of spans that may still come.
    pub(in crate::wait) open_kinds: BTreeSet<Node>,
    /// The earliest time at which it may be known that a service sends no more of what a spec asks for.
    pub(in crate::wait) decided_at: Option<Timestamp>,
    /// Whether a spec asks for something that nothing announces.
    pub(in crate::wait) unannounced: bool,
    /// Whether something is taken to be absent that is likely to be, and not proven.
    pub(in crate::wait) rests_on_likely: bool,
}

impl Outlook {
    pub(super) fn wait(&mut self, until: Timestamp) {
        self.until = self.until.max(Some(until));
    }

    pub(super) fn expect(&mut self, until: Timestamp) {
        self.expected_until = self.expected_until.max(Some(until));
    }

    /// Notes what an absence was concluded from.
    pub(super) fn concluded(&mut self, closure: &Closure) {
        self.rests_on_likely |= closure.grade == Grade::Likely;
    }

    /// Whether arbitrary spans of this service may be missing.
    pub(super) fn misses(&self, service: &Arc<str>) -> bool {
        self.absences.iter().any(|absence| match &absence.of {
            AffectedServices::Anyone | AffectedServices::Refused => true,
            AffectedServices::Service(of) => of == service,
            AffectedServices::AnyoneBut(heard) | AffectedServices::AnyoneButIfNamed(heard) => {
                !heard.contains(service)
            }
            AffectedServices::StillWorking(services) => services.is_empty() || services.contains(service),
        })
    }

    pub(super) fn miss(&mut self, absence: Absence) {
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

/// What the evidence is applied with.
#[derive(Clone, Copy)]
pub(in crate::wait) struct Facts<'a> {
    pub(super) register: &'a Register,
    pub(super) reach: &'a Reach<'a>,
    pub(super) windows: &'a Windows,
    /// The latest end among the spans and of the trigger, by this server's clock.
    pub(super) base: Timestamp,
    pub(super) now: Timestamp,
}

impl Facts<'_> {
    /// When nothing has come for a settle window.
    pub(super) fn settled(&self) -> Timestamp {
        self.windows.last + self.windows.settle
    }

    /// Until when to wait for what should end by `by` and is known at `until`: if that is after the end of the wait, only a
    /// span that arrives sooner helps, and one settle window is given for it.
    pub(super) fn worth_waiting(&self, until: Timestamp, by: Timestamp) -> Timestamp {
        if until > self.windows.deadline { self.settled().max(by + self.windows.settle) } else { until }
    }

    /// Whether the largest lag of a service, and a quarter of it, is not over for what has ended so far.
    fn may_still_deliver(&self, service: &str) -> bool {
        let lag = self.register.get(service).map(Service::largest_lag).unwrap_or_default();
        self.now < self.base + lag + lag / 4
    }

    /// Why it is not known that these processes have delivered everything.
    pub(super) fn excuse(&self, closure: &Closure) -> String {
        match &closure.culprit {
            Some((service, Some(silence))) => self.register.excuse(service, *silence, self.now),
            Some((service, None)) => self.register.still_waiting(service, self.now),
            None => String::new(),
        }
    }
}

impl Progress {
    /// The processes that sent the spans of this trace, with the evidence about them.
    pub(in crate::wait) fn reach<'a>(
        &'a self,
        register: &'a Register,
        windows: &Windows,
        now: Timestamp,
    ) -> Reach<'a> {
        let processes =
            self.processes.iter().map(|process| (self.shape.text(process.service), &process.identity));
        Reach::new(register, processes, windows.answered_at, now)
    }

    /// Returns what the evidence is applied with.
    pub(in crate::wait) fn facts<'a>(
        &self,
        register: &'a Register,
        reach: &'a Reach<'a>,
        windows: &'a Windows,
        now: Timestamp,
    ) -> Facts<'a> {
        Facts { register, reach, windows, base: self.latest_end(windows.answered_at), now }
    }

    /// Applies the evidence to calls without answers, to spans of earlier runs and to work that other traces had.
    pub(in crate::wait) fn outlook(&self, facts: Facts<'_>) -> Outlook {
        let mut outlook = Outlook::default();
        self.root(facts, &mut outlook);
        self.parents(facts, &mut outlook);
        let open = self.open_ends(facts, &mut outlook);
        self.expected_spans(facts, &open, &mut outlook);
        let owes_later_work = self.later_work(facts, &mut outlook);
        self.unannounced_messages(facts, &mut outlook);
        self.unheard(facts.register, &mut outlook);
        if self.history.runs() == 0 && self.has_root() {
            self.first_look(facts, open.is_empty() && !owes_later_work, &mut outlook);
        }
        outlook
    }

    /// Without a span below the trigger nothing is known: not even whether the trace is sampled.
    fn root(&self, facts: Facts<'_>, outlook: &mut Outlook) {
        if self.has_root() || self.missing_parents() > 0 {
            return;
        }
        let is_answered = self.is_answered_elsewhere(facts);
        outlook.root_until = Some(if is_answered { facts.settled() } else { facts.windows.rootless });
        let begin = match self.begin {
            Begin::Triggered(id) => Some(id),
            Begin::Attached => None,
        };
        let address = self.trigger_address.as_deref().and_then(|address| facts.register.address(address));
        let reason = Pending::Root { trigger: begin, others: Vec::new() }.to_string();
        let Some(address) = address.filter(|address| !address.services.is_empty()) else {
            return outlook.miss(Absence::of_anyone(reason));
        };
        let live = facts.reach.live(&address.services);
        let share = address.share(|kind| kind == TRIGGER, facts.now, |end| have_passed(&live, end));
        let closure = facts.reach.closed(&live, facts.windows.answered_at, false);
        let missed = match closure.grade {
            Grade::Proven => share.without() >= 1,
            Grade::Likely => share.without() >= 2,
            Grade::Later(_) | Grade::Unknown(_) => false,
        };
        if missed {
            outlook.root_until = Some(facts.settled());
        }
        let reason = match share.without() {
            0 => reason,
            without => format!(
                "no trace came, and {without} of the last {} requests had none either: the service that answers may sample \
                 its traces; set OTEL_TRACES_SAMPLER=parentbased_always_on there",
                share.of
            ),
        };
        outlook.miss(Absence::of_anyone(reason));
    }

    /// Whether the trigger is known to be answered in another trace: by the only process of a service, or by one of several
    /// that have all delivered what they had then.
    fn is_answered_elsewhere(&self, facts: Facts<'_>) -> bool {
        self.answered_elsewhere.as_ref().is_some_and(|service| {
            let live = facts.reach.live(&BTreeSet::from([Arc::clone(service)]));
            live.len() <= 1 || facts.reach.closed(&live, facts.windows.answered_at, false).is_closed()
        })
    }

    /// Missing parents exist, and may belong to any service.
    fn parents(&self, facts: Facts<'_>, outlook: &mut Outlook) {
        if self.missing_parents() == 0 {
            return;
        }
        let within = facts.register.anyone_delivers_within().filter(|_| self.history.runs() > 0);
        let by = match within {
            Some(within) => facts.base + within,
            None => facts.windows.patient,
        };
        outlook.wait(by.max(facts.windows.last + facts.windows.settle.saturating_mul(2)));
        let caller = self.silent_caller();
        let missing = self.orphans.iter().find(|(id, _)| Some(**id) != caller);
        let reason = missing.map(|(id, children)| {
            if !self.has_root() {
                return Pending::Root { trigger: None, others: self.services_here() }.to_string();
            }
            let child = &self.arrivals[children[0]];
            let service = self.shape.text(child.service);
            let shown = if service.is_empty() { "unnamed service" } else { service };
            format!(
                "the parent {id} of span `{}` ({shown}) has not arrived{}",
                child.name,
                self.suspect(children[0], facts)
            )
        });
        outlook.miss(Absence::of_anyone(reason.unwrap_or_default()));
    }

    /// What may have become of the parent of a span, and what to do.
    fn suspect(&self, child: usize, facts: Facts<'_>) -> String {
        let arrival = &self.arrivals[child];
        let service = self.shape.text(arrival.service);
        let mut callers = facts.register.all().filter(|(_, known)| known.calls.contains(service));
        let maker = match (is_far_side(arrival.kind), callers.next(), callers.next()) {
            (false, ..) => Some(service),
            (true, Some((caller, _)), None) => Some(caller),
            (true, ..) => None,
        };
        let Some(maker) = maker.filter(|maker| !maker.is_empty()) else {
            return ": run once more, or let all services of the system export their spans".to_owned();
        };
        let live = facts.reach.live(&BTreeSet::from([Arc::clone(maker)]));
        let ended = self.ended_at(child).unwrap_or(facts.base);
        if have_passed(&live, ended) {
            return format!(
                ", although {maker} has sent later spans: it may have ended after them, or the queue of its exporter was full \
                 (raise OTEL_BSP_MAX_QUEUE_SIZE); run once more"
            );
        }
        format!(": {maker} should send it; {}: run once more", facts.register.last_seen(maker, facts.now))
    }

    /// A first run waits for a window of silence, and until every process of the trace has delivered: unless all that it
    /// shows is known from other traces.
    fn first_look(&self, facts: Facts<'_>, owes_nothing: bool, outlook: &mut Outlook) {
        let Facts { reach, windows, base, now, .. } = facts;
        let closure = reach.closed(reach.here(), base, false);
        // How late few deliveries may be is not known; twice the largest lag is what a first run waits for.
        let lags = self.lags(facts.register).map(|lag| lag.saturating_mul(2).saturating_add(LAG_MARGIN));
        let longest = base + lags.max().unwrap_or_default().max(windows.settle);
        let delivered = closure.until.map_or(longest, |until| until.min(longest));
        let is_known = owes_nothing && closure.is_closed() && !reach.has_bare_edges();
        if is_known && self.unanswered.is_empty() && self.entries_are_known(Duration::ZERO, facts) {
            outlook.first_until = Some(windows.last + windows.quiet);
            return;
        }
        let until = if closure.is_closed() || now >= delivered { facts.settled() } else { delivered };
        outlook.first_until = Some(until.max(facts.settled()));
        for sender in reach.here() {
            let closure = reach.closed(std::slice::from_ref(sender), base, false);
            // What a process had not sent when another took its place is lost.
            let is_lost = matches!(closure.grade, Grade::Unknown(Silence::Replaced));
            let absence =
                || Absence::new(AffectedServices::Service(Arc::clone(sender.name)), facts.excuse(&closure));
            if is_lost {
                outlook.miss(absence());
            } else if !closure.is_closed() && now < delivered && facts.may_still_deliver(sender.name) {
                outlook.undelivered.push(absence());
            }
        }
    }

    /// The largest known lag of each service in this trace.
    fn lags<'a>(&'a self, register: &'a Register) -> impl Iterator<Item = Duration> {
        let services: BTreeSet<&Arc<str>> =
            self.processes.iter().map(|process| self.shape.text(process.service)).collect();
        services.into_iter().filter_map(|service| Some(register.get(service)?.largest_lag()))
    }

    /// Returns the services that sent spans: since this server listens, or in this trace.
    pub(super) fn heard(&self, register: &Register) -> BTreeSet<Arc<str>> {
        let heard = register.all().filter(|(_, service)| service.first_heard.is_some());
        heard.map(|(name, _)| Arc::clone(name)).chain(self.services_of_trace()).collect()
    }

    /// The services of this trace.
    pub(super) fn services_of_trace(&self) -> impl Iterator<Item = Arc<str>> {
        self.processes.iter().map(|process| Arc::clone(self.shape.text(process.service)))
    }
}

/// Added to what was measured before it is waited for.
const LAG_MARGIN: Duration = Duration::from_millis(100);
