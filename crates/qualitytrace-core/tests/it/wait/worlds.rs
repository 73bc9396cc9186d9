//! Simulated worlds in which exporters are slow, silent, reordered or down, in virtual time.
//!
//! All runs of a system share one clock, so that the register learns as that of a server does. Exporters have a
//! fixed phase; spans of one run may arrive during the wait for another one.

use std::sync::Arc;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Resource, Span, SpanKind};
use qualitytrace_core::value::Value;

use super::random::Random;
use super::spans::{Maker, attributes};
use super::system::{MS, SECOND, TRIGGER};

/// A span that never arrives.
pub(super) const NEVER: u64 = u64::MAX;

/// The properties of a world.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "a world is named by what is special about it")]
pub(super) struct World {
    pub(super) name: &'static str,
    /// The export interval of one slow service.
    pub(super) slow: Option<u64>,
    /// Half of the services cannot reach the server at first, for up to this long.
    pub(super) back_off: Option<u64>,
    /// Some services stop delivering for good, silently.
    pub(super) dies: bool,
    /// Chance in percent that a service calls a peer that sends no spans.
    pub(super) outside: u64,
    /// Maximum delay of every span.
    pub(super) jitter: u64,
    /// Chance in percent that a span is sent again, up to 5 s later.
    pub(super) retries: u64,
    /// Processes of each service.
    pub(super) replicas: usize,
    /// Services are restarted now and then.
    pub(super) restarts: bool,
    /// Consumers do something in only one run of five.
    pub(super) rare: bool,
    /// A collector holds every trace for this long, from its first span on.
    pub(super) tail_sampling: Option<(u64, u64)>,
    /// Maximum clock error.
    pub(super) clock_error: u64,
    /// The machine is suspended now and then, for up to this long.
    pub(super) stalls: u64,
    /// Half of the bugs are omissions: a call, a message, its handling, or work after the answer.
    pub(super) omits: bool,
}

impl World {
    const PLAIN: Self = Self {
        name: "exporters deliver",
        slow: None,
        back_off: None,
        dies: false,
        outside: 20,
        jitter: 20 * MS,
        retries: 0,
        replicas: 1,
        restarts: false,
        rare: false,
        tail_sampling: None,
        clock_error: 0,
        stalls: 0,
        omits: false,
    };

    pub(super) const ALL: [Self; 16] = [
        Self::PLAIN,
        Self { name: "one at 20 s", slow: Some(20 * SECOND), ..Self::PLAIN },
        Self { name: "one at 66 s", slow: Some(66 * SECOND), ..Self::PLAIN },
        Self { name: "back-off after a closed port", back_off: Some(120 * SECOND), ..Self::PLAIN },
        Self { name: "one dies silently", dies: true, ..Self::PLAIN },
        Self { name: "peers without spans", outside: 90, ..Self::PLAIN },
        Self { name: "reordering 3 s", jitter: 3 * SECOND, ..Self::PLAIN },
        Self { name: "restarts", restarts: true, ..Self::PLAIN },
        Self { name: "rare senders", rare: true, ..Self::PLAIN },
        Self { name: "three replicas", replicas: 3, ..Self::PLAIN },
        Self { name: "ten consumers and retries", jitter: 200 * MS, retries: 2, ..Self::PLAIN },
        Self {
            name: "tail sampling 10 to 30 s",
            tail_sampling: Some((10 * SECOND, 30 * SECOND)),
            ..Self::PLAIN
        },
        Self { name: "clocks off by 5 s", clock_error: 5 * SECOND, ..Self::PLAIN },
        Self { name: "stalls", stalls: 111 * SECOND, ..Self::PLAIN },
        Self { name: "work left out", omits: true, ..Self::PLAIN },
        Self { name: "work left out, one at 20 s", omits: true, slow: Some(20 * SECOND), ..Self::PLAIN },
    ];
}

/// A span in transit.
pub(super) struct Sent {
    pub(super) span: Span,
    pub(super) service: usize,
    pub(super) is_tail: bool,
    pub(super) is_entry: bool,
    pub(super) bad: bool,
    pub(super) arrives: u64,
    replica: usize,
}

/// The services of one test.
pub(super) struct System {
    world: World,
    services: Vec<Service>,
    maker: Maker,
    names: Names,
    hold: u64,
    stalls: Vec<(u64, u64)>,
}

struct Service {
    name: String,
    /// The resources of its processes, by replica and by number of restarts.
    resources: Vec<Vec<Arc<Resource>>>,
    /// The attributes of calls to it, and of calls from it to a peer that sends no spans.
    called: Attributes,
    outside: Attributes,
    parent: Option<usize>,
    internals: usize,
    calls_outside: bool,
    has_tail: bool,
    is_queue: bool,
    delay: u64,
    phases: Vec<u64>,
    up: u64,
    dies: u64,
    clock: i64,
    restarts: Vec<u64>,
}

impl System {
    pub(super) fn new(random: &mut Random, number: u64, world: World, start: u64) -> Self {
        let count = 2 + random.index(5);
        let slow = random.index(count);
        let services: Vec<Service> = (0..count)
            .map(|at| {
                let usual = [50 * MS, 100 * MS, 200 * MS, SECOND, 5 * SECOND, 5 * SECOND][random.index(6)];
                let delay = world.slow.filter(|_| at == slow).unwrap_or(usual);
                let off = random.between(0, 2 * world.clock_error + 1);
                let mut restarts = Vec::new();
                let mut next = start + random.between(20 * SECOND, 90 * SECOND);
                while world.restarts && restarts.len() < 20 {
                    restarts.push(next);
                    next += random.between(20 * SECOND, 90 * SECOND);
                }
                let name = format!("service-{number}-{at}");
                let resources = |replica: usize| {
                    let process = |restart: usize| resource(&name, &format!("{replica}-{restart}"));
                    (0..=restarts.len()).map(process).collect()
                };
                let resources = (0..world.replicas).map(resources).collect();
                let parent = (at > 0).then(|| random.index(at));
                let internals = random.index(3);
                let calls_outside = random.chance(world.outside);
                let has_tail = random.chance(20);
                let is_queue = at > 0 && random.chance(20);
                Service {
                    called: if is_queue { message_to(&name) } else { request_to(&name) },
                    outside: request_to(&format!("outside-{name}")),
                    name,
                    resources,
                    parent,
                    internals,
                    calls_outside,
                    has_tail,
                    is_queue,
                    delay,
                    phases: (0..world.replicas).map(|_| random.between(0, delay)).collect(),
                    up: match world.back_off {
                        Some(longest) if random.chance(50) => start + random.between(0, longest),
                        _ => 0,
                    },
                    dies: if world.dies && random.chance(30) {
                        start + random.between(20 * SECOND, 200 * SECOND)
                    } else {
                        NEVER
                    },
                    clock: i64::try_from(off).expect("seconds")
                        - i64::try_from(world.clock_error).expect("seconds"),
                    restarts,
                }
            })
            .collect();
        let mut stalls = Vec::new();
        let mut at = start + random.between(5 * SECOND, 60 * SECOND);
        while world.stalls > 0 && stalls.len() < 20 {
            let end = at + random.between(SECOND, world.stalls);
            stalls.push((at, end));
            at = end + random.between(5 * SECOND, 90 * SECOND);
        }
        let hold = world.tail_sampling.map_or(0, |(low, high)| random.between(low, high));
        Self { world, services, maker: Maker::new(), names: Names::new(), hold, stalls }
    }

    pub(super) fn count(&self) -> usize {
        self.services.len()
    }

    pub(super) fn name(&self, service: usize) -> &str {
        &self.services[service].name
    }

    pub(super) fn has_tail(&self, service: usize) -> bool {
        self.services[service].has_tail
    }

    /// Whether every run has spans of this service.
    pub(super) fn is_steady(&self, service: usize) -> bool {
        let mut at = Some(service);
        while let Some(this) = at {
            if self.world.rare && self.services[this].is_queue {
                return false;
            }
            at = self.services[this].parent;
        }
        true
    }

    /// Returns the end of the stall that contains this moment, or the moment itself: nothing runs during a stall.
    pub(super) fn awake(&self, at: u64) -> u64 {
        self.stalls.iter().find(|(from, to)| (*from..*to).contains(&at)).map_or(at, |(_, to)| *to)
    }

    /// Returns the first stall within this time.
    pub(super) fn stall(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        self.stalls.iter().find(|(begins, ends)| *ends > from && *begins <= to).copied()
    }

    /// Simulates one run from `start` on: returns its spans in the order of arrival, and when the trigger is
    /// answered.
    pub(super) fn send(&self, random: &mut Random, run: u64, start: u64, bug: bool) -> (Vec<Sent>, u64) {
        let skipped = self.world.rare && !random.chance(20);
        let left_out =
            if bug && self.world.omits && random.chance(50) { self.left_out(random) } else { None };
        let next = (run + 1) << 20;
        let mut sending = Sending { system: self, random, spans: Vec::new(), next, skipped, left_out };
        let answered = sending.visit(0, TRIGGER, start + MS);
        let mut spans = sending.spans;
        if bug && left_out.is_none() {
            let at = random.index(spans.len());
            spans[at].bad = true;
        }
        let mut first = NEVER;
        for sent in &mut spans {
            let service = &self.services[sent.service];
            let end = end_of(sent);
            let restart = service.restarts.iter().filter(|at| **at <= end).count();
            let replica = sent.replica;
            sent.span.resource = Arc::clone(&service.resources[replica][restart]);
            let phase = service.phases[replica];
            let mut at = phase + end.saturating_sub(phase).div_ceil(service.delay) * service.delay;
            // A process that shuts down cleanly flushes its spans.
            if let Some(ended) = service.restarts.iter().find(|ended| **ended > end) {
                at = at.min(*ended);
            }
            at = at.max(service.up) + MS + random.between(0, self.world.jitter);
            if random.chance(self.world.retries) {
                at += random.between(SECOND, 5 * SECOND);
            }
            sent.arrives = if at > service.dies { NEVER } else { at };
            first = first.min(sent.arrives);
        }
        for sent in spans.iter_mut().filter(|sent| sent.arrives < NEVER) {
            if self.hold > 0 {
                sent.arrives = sent.arrives.max(first + self.hold + random.between(0, 20 * MS));
            }
            sent.arrives = self.awake(sent.arrives);
            let service = &self.services[sent.service];
            let shift = |at: u64| at.checked_add_signed(service.clock).expect("a time");
            let (start, end) = (sent.span.start.as_nanos(), end_of(sent));
            sent.span.start = Timestamp::from_nanos(shift(start));
            sent.span.end = Some(Timestamp::from_nanos(shift(end)));
        }
        spans.sort_by_key(|sent| sent.arrives);
        (spans, answered)
    }

    /// Chooses what a run with a bug omits. The first service is always called, so that there is a trace.
    fn left_out(&self, random: &mut Random) -> Option<LeftOut> {
        let service = random.index(self.services.len());
        let known = &self.services[service];
        match random.index(3) {
            0 if known.has_tail => Some(LeftOut::Tail(service)),
            1 if known.is_queue => Some(LeftOut::Handling(service)),
            _ if service > 0 => Some(LeftOut::Call(service)),
            _ => None,
        }
    }
}

/// Returns when a span ended.
pub(super) fn end_of(sent: &Sent) -> u64 {
    sent.span.end.expect("simulated spans end").as_nanos()
}

/// An omission of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    /// Its work after the answer.
    Tail(usize),
    /// It receives a message and does nothing.
    Handling(usize),
    /// It is not called, and receives no message.
    Call(usize),
}

/// The names of spans.
struct Names {
    steps: [Arc<str>; 2],
    outside: Arc<str>,
    send: Arc<str>,
    call: Arc<str>,
    entry: Arc<str>,
    tail: Arc<str>,
}

impl Names {
    fn new() -> Self {
        Self {
            steps: ["step a".into(), "step b".into()],
            outside: "outside".into(),
            send: "send".into(),
            call: "call".into(),
            entry: "entry".into(),
            tail: "tail".into(),
        }
    }
}

struct Sending<'a> {
    system: &'a System,
    random: &'a mut Random,
    spans: Vec<Sent>,
    next: u64,
    /// Whether consumers have nothing to do.
    skipped: bool,
    left_out: Option<LeftOut>,
}

impl Sending<'_> {
    /// Simulates service `at` serving a call; returns when it ends.
    fn visit(&mut self, at: usize, parent: u64, start: u64) -> u64 {
        let (system, left_out) = (self.system, self.left_out);
        let (service, names) = (&system.services[at], &system.names);
        let id = self.id();
        let replica = self.random.index(system.world.replicas);
        let first = self.spans.len();
        let mut now = start + MS;
        for step in names.steps.iter().take(service.internals) {
            self.push(at, id, SpanKind::Internal, step, (now, now + 2 * MS), None);
            now += 3 * MS;
        }
        if service.calls_outside {
            let times = (now, now + 4 * MS);
            self.push(at, id, SpanKind::Client, &names.outside, times, Some(&service.outside));
            now += 5 * MS;
        }
        for (callee, peer) in system.services.iter().enumerate() {
            if peer.parent != Some(at) || left_out == Some(LeftOut::Call(callee)) {
                continue;
            }
            let call = self.next + 1;
            if peer.is_queue {
                if self.skipped {
                    continue;
                }
                let times = (now, now + 2 * MS);
                self.push(at, id, SpanKind::Producer, &names.send, times, Some(&peer.called));
                let waiting = self.random.between(10 * MS, 500 * MS);
                if left_out != Some(LeftOut::Handling(callee)) {
                    self.visit(callee, call, now + MS + waiting);
                }
                now += 3 * MS;
            } else {
                let place = self.spans.len();
                self.push(at, id, SpanKind::Client, &names.call, (now, now), Some(&peer.called));
                let end = self.visit(callee, call, now + MS) + MS;
                self.spans[place].span.end = Some(Timestamp::from_nanos(end));
                now = end + MS;
            }
        }
        let end = now + MS;
        let kind = if service.is_queue { SpanKind::Consumer } else { SpanKind::Server };
        let entry = self.make(at, (id, parent), kind, &names.entry, (start, end));
        self.spans.push(Sent { is_entry: true, ..entry });
        if service.has_tail && left_out != Some(LeftOut::Tail(at)) {
            let length = self.random.between(50 * MS, 2 * SECOND);
            let tail = self.id();
            let tail = self.make(at, (tail, id), SpanKind::Internal, &names.tail, (end, end + length));
            self.spans.push(Sent { is_tail: true, ..tail });
        }
        for sent in self.spans[first..].iter_mut().filter(|sent| sent.service == at) {
            sent.replica = replica;
        }
        end
    }

    fn push(
        &mut self,
        at: usize,
        parent: u64,
        kind: SpanKind,
        name: &Arc<str>,
        times: (u64, u64),
        to: Option<&Attributes>,
    ) {
        let id = self.id();
        let mut sent = self.make(at, (id, parent), kind, name, times);
        sent.span.attributes = to.cloned().unwrap_or_default();
        self.spans.push(sent);
    }

    fn make(&self, at: usize, ids: (u64, u64), kind: SpanKind, name: &Arc<str>, times: (u64, u64)) -> Sent {
        let resource = &self.system.services[at].resources[0][0];
        let span = self.system.maker.span(ids.0, ids.1, resource, kind, name, times);
        Sent { span, service: at, is_tail: false, is_entry: false, bad: false, arrives: 0, replica: 0 }
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

fn request_to(address: &str) -> Attributes {
    attributes(&["http.request.method=GET", &format!("server.address={address}")])
}

fn message_to(destination: &str) -> Attributes {
    attributes(&["messaging.system=kafka", &format!("messaging.destination.name={destination}")])
}

fn resource(service: &str, instance: &str) -> Arc<Resource> {
    let attributes = [("service.name", Value::from(service)), ("service.instance.id", Value::from(instance))];
    Arc::new(Resource { attributes: attributes.into_iter().collect(), ..Resource::default() })
}
