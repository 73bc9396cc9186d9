//! One request to a system: everything that happens, whether its spans are delivered or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use qualitytrace_core::trace::{Span, SpanKind};
use qualitytrace_core::value::Value;

use super::super::random::Random;
use super::super::spans::span_id;
use super::super::system::{MS, SECOND};
use super::super::worlds::NEVER;
use super::claim::{RESULT, RIGHT, WRONG};
use super::process::Ending;
use super::system::{Bug, System};
use super::telemetry::{Reply, error};

/// The flags of spans: the trace is sampled, it is known whether the parent is in another process, and it is.
const SAMPLED: u32 = 0x001;
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// A span that was made, delivered or not.
pub(super) struct SimulatedSpan {
    pub(super) span: Span,
    /// When it ended by the right time.
    pub(super) end: u64,
    pub(super) process: usize,
    pub(super) place: SpanTrace,
    pub(super) leaves: Leaves,
    /// When it is planned to arrive.
    pub(super) planned: u64,
    /// When it has arrived.
    pub(super) arrived: u64,
}

/// The trace that a span is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanTrace {
    /// That of the run.
    Run,
    /// Another one: the context got lost.
    Other(usize),
    /// None: it was not sampled.
    Unsampled,
}

/// When a span leaves its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    WithItsBatch,
    /// It is exported by itself, and arrives then.
    Flushed(u64),
    /// Its process is suspended before it is exported.
    Held,
}

/// Everything that one request has caused.
pub(super) struct Request {
    pub(super) trigger: u64,
    pub(super) made: Vec<SimulatedSpan>,
    /// When the trigger was answered.
    pub(super) answered: u64,
    /// How many traces it has caused besides that of the run.
    pub(super) other_traces: usize,
    /// When suspended processes were reached, which then export what they hold.
    pub(super) thawed: BTreeMap<usize, u64>,
}

impl Request {
    /// Sends a request at `start`.
    pub(super) fn send(
        system: &mut System,
        random: &mut Random,
        ids: &mut u64,
        start: u64,
        bug: Option<Bug>,
    ) -> Self {
        let world = system.world;
        let place = if random.chance(world.sampled) { SpanTrace::Run } else { SpanTrace::Unsampled };
        let is_part_sampled = random.chance(world.part_sampled);
        let dies = (world.is_killed && random.chance(70)).then(|| random.between(200 * MS, 1_500 * MS));
        *ids += 1;
        let trigger = *ids;
        let mut path = Path {
            system,
            random,
            ids,
            bug,
            is_part_sampled,
            made: Vec::new(),
            other_traces: 0,
            thawed: BTreeMap::new(),
        };
        let answered = path.visit(0, Some(trigger), start, place).end + 2 * MS;
        let Path { mut made, other_traces, thawed, .. } = path;
        if let Some(after) = dies {
            let odd = system.odd;
            // Work after the answer is what a killed process does not finish.
            let tail = &system.services[odd].texts.tail;
            let of_odd = made.iter().filter(|made| system.processes[made.process].service == odd);
            let busy_until = of_odd.filter(|made| made.span.name != *tail).map(|made| made.end).max();
            system.kill(busy_until.unwrap_or_default().max(answered) + after);
            made.retain(|made| {
                let process = &system.processes[made.process];
                process.ending != Ending::Killed || made.end <= process.gone
            });
        }
        Self { trigger, made, answered, other_traces, thawed }
    }
}

/// What a service did when it was reached.
struct Visit {
    end: u64,
    process: usize,
}

/// A request on its way through the system.
struct Path<'a> {
    system: &'a System,
    random: &'a mut Random,
    ids: &'a mut u64,
    bug: Option<Bug>,
    is_part_sampled: bool,
    made: Vec<SimulatedSpan>,
    other_traces: usize,
    thawed: BTreeMap<usize, u64>,
}

/// The process that makes spans, in which trace, and whether they are exported before it is suspended.
#[derive(Clone, Copy)]
struct SpanMaker {
    process: usize,
    place: SpanTrace,
    is_flushed: bool,
}

impl Path<'_> {
    fn visit(&mut self, service: usize, parent: Option<u64>, start: u64, place: SpanTrace) -> Visit {
        let (system, bug) = (self.system, self.bug);
        let is_odd = service == system.odd;
        let known = &system.services[service];
        let process = system.reached(self.random, service, start);
        self.thaw(process, start);
        let place = if is_odd && !self.is_part_sampled { SpanTrace::Unsampled } else { place };
        let here = SpanMaker { process, place, is_flushed: self.random.chance(50) };
        let id = self.id();
        let mut now = start + 2 * MS;
        let step = self.id();
        let step =
            self.make(here, (step, Some(id)), SpanKind::Internal, &known.texts.step, (now, now + 3 * MS));
        step.attributes.set(RESULT, if bug == Some(Bug::WrongStep(service)) { WRONG } else { RIGHT });
        step.status = (bug == Some(Bug::BadStep(service))).then(|| error("the check has failed"));
        now += 4 * MS;
        now = self.call_partner(here, id, service, now);
        for callee in 1..system.services.len() {
            if system.services[callee].caller != Some(service) || bug == Some(Bug::Drop(callee)) {
                continue;
            }
            now = self.call(here, id, callee, now);
            if bug == Some(Bug::Twice(callee)) {
                now = self.call(here, id, callee, now);
            }
        }
        let end = now + MS;
        let kind = if known.is_queue { SpanKind::Consumer } else { SpanKind::Server };
        let local = system.world.names_peers.then(|| &system.processes[process].address);
        let attributes = known.texts.entered(local);
        let entry = self.make(here, (id, parent), kind, &known.texts.entry, (start, end));
        entry.attributes = attributes;
        entry.status = (bug == Some(Bug::BadEntry(service))).then(|| error("an item was left out"));
        if known.has_tail && bug != Some(Bug::NoTail(service)) {
            let job = system.world.job.filter(|_| is_odd);
            let length = job.unwrap_or_else(|| self.random.between(50 * MS, 2 * SECOND));
            let tail = self.id();
            let tail =
                self.make(here, (tail, Some(id)), SpanKind::Internal, &known.texts.tail, (end, end + length));
            tail.status = (bug == Some(Bug::BadTail(service))).then(|| error("the rest has failed"));
        }
        if is_odd && system.is_blind {
            self.made.retain(|made| made.process != process);
        }
        Visit { end, process }
    }

    /// Calls a peer that sends no spans, if the service does so; returns when it goes on.
    fn call_partner(&mut self, here: SpanMaker, id: u64, service: usize, now: u64) -> u64 {
        let known = &self.system.services[service];
        let is_dead =
            self.system.world.has_dead_peer && self.system.services[self.system.odd].caller == Some(service);
        let (reply, takes) = match (is_dead, known.has_partner) {
            (true, _) => (Reply::DeadlineExceeded, SECOND),
            (false, true) => (Reply::Answered, 4 * MS),
            (false, false) => return now,
        };
        let call = self.id();
        let name = Arc::from("GET");
        let span = self.make(here, (call, Some(id)), SpanKind::Client, &name, (now, now + takes));
        known.texts.calls_partner(span, reply);
        now + takes
    }

    /// Calls another service, or sends it a message; returns when the caller goes on.
    fn call(&mut self, here: SpanMaker, id: u64, callee: usize, now: u64) -> u64 {
        let world = &self.system.world;
        let own = &self.system.services[self.system.processes[here.process].service];
        let peer = &self.system.services[callee];
        let call = self.id();
        if self.bug == Some(Bug::Refused(callee)) {
            let times = (now, now + 3 * MS);
            let span = self.make(here, (call, Some(id)), SpanKind::Client, &peer.texts.called, times);
            own.texts.calls(&peer.texts, span, Reply::Refused, None);
            return now + 4 * MS;
        }
        let (mut place, mut parent) = (here.place, Some(if world.is_bare { id } else { call }));
        if world.has_no_sdk && self.system.processes[here.process].is_silent {
            (place, parent) = (SpanTrace::Other(self.other_traces), None);
            self.other_traces += 1;
        }
        let end = if peer.is_queue {
            let waiting = self.random.between(10 * MS, 500 * MS);
            if self.bug != Some(Bug::Lost(callee)) {
                self.visit(callee, parent, now + MS + waiting, place);
            }
            let end = now + 2 * MS;
            if !world.is_bare {
                let span =
                    self.make(here, (call, Some(id)), SpanKind::Producer, &peer.texts.called, (now, end));
                peer.texts.sends(span);
            }
            end
        } else {
            let reached = self.visit(callee, parent, now + MS, place);
            let end = reached.end + MS;
            if !world.is_bare {
                let is_told = world.names_peers || world.is_direct;
                let address = is_told.then(|| &self.system.processes[reached.process].address);
                let span =
                    self.make(here, (call, Some(id)), SpanKind::Client, &peer.texts.called, (now, end));
                own.texts.calls(&peer.texts, span, Reply::Answered, address);
                if let Some(address) = address.filter(|_| world.is_direct) {
                    span.attributes.set("server.address", Value::String(Arc::clone(address)));
                }
            }
            end
        };
        end + MS
    }

    fn make(
        &mut self,
        here: SpanMaker,
        (id, parent): (u64, Option<u64>),
        kind: SpanKind,
        name: &Arc<str>,
        (start, end): (u64, u64),
    ) -> &mut Span {
        let process = &self.system.processes[here.process];
        let mut span = self.system.maker.span(id, 0, &process.resource, kind, name, (0, 0));
        span.parent = parent.and_then(span_id);
        span.trace_state = Arc::clone(&self.system.trace_state);
        // Entries are below a span of another process; SDKs say so since flags have a bit for it.
        let is_entry = matches!(kind, SpanKind::Server | SpanKind::Consumer);
        span.flags = match (self.system.tells_remote, is_entry && parent.is_some()) {
            (true, true) => SAMPLED | KNOWS_REMOTE | IS_REMOTE,
            (true, false) => SAMPLED | KNOWS_REMOTE,
            (false, _) => SAMPLED,
        };
        (span.start, span.end) = (process.shown(start), Some(process.shown(end)));
        let leaves = match (process.is_frozen, here.is_flushed) {
            (false, _) => Leaves::WithItsBatch,
            (true, true) => Leaves::Flushed(end + 100 * MS),
            (true, false) => Leaves::Held,
        };
        let (process, place) = (here.process, here.place);
        self.made.push(SimulatedSpan { span, end, process, place, leaves, planned: NEVER, arrived: NEVER });
        &mut self.made.last_mut().expect("it was just pushed").span
    }

    /// Lets a suspended process go on, which then exports what it holds.
    fn thaw(&mut self, process: usize, at: u64) {
        if !self.system.processes[process].is_frozen {
            return;
        }
        let arrives = at + 200 * MS;
        self.thawed.entry(process).or_insert(arrives);
        for made in self.made.iter_mut().filter(|made| made.process == process) {
            if made.leaves == Leaves::Held {
                made.leaves = Leaves::Flushed(arrives);
            }
        }
    }

    fn id(&mut self) -> u64 {
        *self.ids += 1;
        *self.ids
    }
}
