//! Worlds in which exporters are slow, silent, reordered or away, in virtual time: how systems send.
//!
//! All runs of a system lie on one clock, so that the register learns as that of a server does. Exporters have a fixed
//! phase; what arrives of one run may arrive while another one is waited for.

use std::sync::Arc;

use qualitytrace_core::trace::{Attributes, Resource, Span, SpanKind};
use qualitytrace_core::value::Value;

use super::random::Random;
use super::spans::{Maker, attributes};
use super::system::{MS, SECOND, TRIGGER};

/// A span that never arrives.
pub(super) const NEVER: u64 = u64::MAX;

/// What is special about a world.
#[derive(Debug, Clone, Copy)]
pub(super) struct World {
    pub(super) name: &'static str,
    /// One service delivers as rarely as that.
    pub(super) slow: Option<u64>,
    /// Half of the services cannot reach us for up to that long at first.
    pub(super) back_off: Option<u64>,
    /// Some services stop delivering for good, without a word.
    pub(super) dies: bool,
    /// Chance in percent that a service calls somebody who sends no spans.
    pub(super) outside: u64,
    /// Every span is held up by up to that much.
    pub(super) jitter: u64,
    /// Chance in percent that a span is sent again, up to 5 s later.
    pub(super) retries: u64,
    /// Processes of each service.
    pub(super) replicas: usize,
    /// Services are started anew now and then.
    pub(super) restarts: bool,
    /// Consumers do something in one run of five only.
    pub(super) rare: bool,
    /// A collector holds every trace for that long, from its first span on.
    pub(super) tail_sampling: Option<(u64, u64)>,
    /// Clocks are off by up to that much.
    pub(super) clock_error: u64,
    /// The machine stands still now and then, for up to that long.
    pub(super) stalls: u64,
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
    };

    pub(super) const ALL: [Self; 14] = [
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
    ];
}

/// One span on its way.
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
    hold: u64,
    stalls: Vec<(u64, u64)>,
}

struct Service {
    name: String,
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
                Service {
                    name: format!("service-{number}-{at}"),
                    parent: (at > 0).then(|| random.index(at)),
                    internals: random.index(3),
                    calls_outside: random.chance(world.outside),
                    has_tail: random.chance(20),
                    is_queue: at > 0 && random.chance(20),
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
        Self { world, services, maker: Maker::new(), hold, stalls }
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

    /// The end of the stall that this moment lies in, or the moment itself: nobody does anything meanwhile.
    pub(super) fn awake(&self, at: u64) -> u64 {
        self.stalls.iter().find(|(from, to)| (*from..*to).contains(&at)).map_or(at, |(_, to)| *to)
    }

    /// One run, from `start` on: what it sends, in the order of arrival, and when the trigger is answered.
    pub(super) fn send(&self, random: &mut Random, run: u64, start: u64, bug: bool) -> (Vec<Sent>, u64) {
        let skipped = self.world.rare && !random.chance(20);
        let mut sending = Sending { system: self, random, spans: Vec::new(), next: (run + 1) << 20, skipped };
        let answered = sending.visit(0, TRIGGER, start + MS);
        let mut spans = sending.spans;
        if bug {
            let at = random.index(spans.len());
            spans[at].bad = true;
        }
        let mut first = NEVER;
        for sent in &mut spans {
            let service = &self.services[sent.service];
            let end = sent.span.end.expect("simulated spans end").as_nanos();
            let restart = service.restarts.iter().filter(|at| **at <= end).count();
            let replica = sent.replica;
            sent.span.resource = resource(&service.name, &format!("{replica}-{restart}"));
            let phase = service.phases[replica];
            let mut at = phase + end.saturating_sub(phase).div_ceil(service.delay) * service.delay;
            // A process that ends in good order sends what it has.
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
            let (start, end) = (sent.span.start.as_nanos(), sent.span.end.expect("an end").as_nanos());
            sent.span.start = qualitytrace_core::time::Timestamp::from_nanos(shift(start));
            sent.span.end = Some(qualitytrace_core::time::Timestamp::from_nanos(shift(end)));
        }
        spans.sort_by_key(|sent| sent.arrives);
        (spans, answered)
    }
}

struct Sending<'a> {
    system: &'a System,
    random: &'a mut Random,
    spans: Vec<Sent>,
    next: u64,
    /// Consumers have nothing to do.
    skipped: bool,
}

impl Sending<'_> {
    /// Service `at` serves a call; returns when it ends.
    fn visit(&mut self, at: usize, parent: u64, start: u64) -> u64 {
        let service = &self.system.services[at];
        let id = self.id();
        let replica = self.random.index(self.system.world.replicas);
        let first = self.spans.len();
        let mut now = start + MS;
        for step in 0..service.internals {
            self.push(at, id, SpanKind::Internal, ["step a", "step b"][step], (now, now + 2 * MS), "");
            now += 3 * MS;
        }
        if service.calls_outside {
            let outside = format!("outside-{}", service.name);
            self.push(at, id, SpanKind::Client, "outside", (now, now + 4 * MS), &outside);
            now += 5 * MS;
        }
        for callee in 0..self.system.services.len() {
            let peer = &self.system.services[callee];
            if peer.parent != Some(at) {
                continue;
            }
            let call = self.next + 1;
            if peer.is_queue {
                let name = peer.name.clone();
                if self.skipped {
                    continue;
                }
                self.push(at, id, SpanKind::Producer, "send", (now, now + 2 * MS), &name);
                let waiting = self.random.between(10 * MS, 500 * MS);
                self.visit(callee, call, now + MS + waiting);
                now += 3 * MS;
            } else {
                let name = peer.name.clone();
                let place = self.spans.len();
                self.push(at, id, SpanKind::Client, "call", (now, now), &name);
                let end = self.visit(callee, call, now + MS) + MS;
                self.spans[place].span.end = Some(qualitytrace_core::time::Timestamp::from_nanos(end));
                now = end + MS;
            }
        }
        let end = now + MS;
        let kind = if service.is_queue { SpanKind::Consumer } else { SpanKind::Server };
        let entry = self.make(at, (id, parent), kind, "entry", (start, end), "");
        self.spans.push(Sent { is_entry: true, ..entry });
        if service.has_tail {
            let length = self.random.between(50 * MS, 2 * SECOND);
            let tail = self.id();
            let tail = self.make(at, (tail, id), SpanKind::Internal, "tail", (end, end + length), "");
            self.spans.push(Sent { is_tail: true, ..tail });
        }
        for sent in self.spans[first..].iter_mut().filter(|sent| sent.service == at) {
            sent.replica = replica;
        }
        end
    }

    fn push(&mut self, at: usize, parent: u64, kind: SpanKind, name: &str, times: (u64, u64), to: &str) {
        let id = self.id();
        let sent = self.make(at, (id, parent), kind, name, times, to);
        self.spans.push(sent);
    }

    fn make(
        &self,
        at: usize,
        (id, parent): (u64, u64),
        kind: SpanKind,
        name: &str,
        times: (u64, u64),
        to: &str,
    ) -> Sent {
        let service = &self.system.services[at];
        let name: Arc<str> = name.into();
        let mut span = self.system.maker.span(id, parent, &resource(&service.name, ""), kind, &name, times);
        span.attributes = match kind {
            SpanKind::Client => attributes(&["http.request.method=GET", &format!("server.address={to}")]),
            SpanKind::Producer => {
                attributes(&["messaging.system=kafka", &format!("messaging.destination.name={to}")])
            }
            _ => Attributes::default(),
        };
        Sent { span, service: at, is_tail: false, is_entry: false, bad: false, arrives: 0, replica: 0 }
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

fn resource(service: &str, instance: &str) -> Arc<Resource> {
    let attributes = [("service.name", Value::from(service)), ("service.instance.id", Value::from(instance))];
    Arc::new(Resource { attributes: attributes.into_iter().collect(), ..Resource::default() })
}
