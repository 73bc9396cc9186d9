//! Random systems under test, and the spans that they send in one run.
//!
//! A system is a tree of services. Each exports in the order in which spans end, with its own timer phase, and the
//! network adds jitter to each span.

use std::sync::Arc;

use qualitytrace_core::trace::{Attributes, Resource, Span, SpanKind};

use super::random::Random;
use super::spans::{Maker, attributes, link, service};

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;
/// The span id of the trigger.
pub(super) const TRIGGER: u64 = 1;
/// When the first run begins.
pub(super) const START: u64 = 1_700_000_000 * SECOND;

/// How much the network disturbs the order of spans, and how much runs of a test differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Roughness {
    /// Maximum jitter of each span in nanoseconds.
    pub(super) jitter: u64,
    /// Loops run a different number of times, branches are taken or not, spans are delivered twice.
    pub(super) varies: bool,
}

/// A span in transit.
pub(super) struct Sent {
    pub(super) span: Span,
    /// The label that specs select by.
    pub(super) label: usize,
    /// Whether it has the value that fails an assertion.
    pub(super) bad: bool,
    pub(super) arrives: u64,
    /// Whether it was delivered before.
    pub(super) copy: bool,
}

/// The spans of one run.
pub(super) struct Sending {
    /// In the order of arrival, copies included.
    pub(super) spans: Vec<Sent>,
    /// When the trigger is answered.
    pub(super) answered: u64,
}

/// The services of one test, the same in every run.
pub(super) struct System {
    services: Vec<Service>,
    roughness: Roughness,
    maker: Maker,
    http: Attributes,
    message: Attributes,
    names: Names,
}

struct Service {
    resource: Arc<Resource>,
    parent: Option<usize>,
    internals: usize,
    calls_outside: bool,
    has_tail: bool,
    reached_by: ReachedBy,
    delay: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReachedBy {
    Call,
    Message,
    /// By a message whose span is linked, not the parent.
    LinkedMessage,
}

struct Names {
    entry: Arc<str>,
    call: Arc<str>,
    outside: Arc<str>,
    tail: Arc<str>,
    internal: [Arc<str>; 3],
}

/// Labels of a service: entry, tail, first internal, anything else.
const LABELS: usize = 4;

impl System {
    pub(super) fn new(random: &mut Random, number: u64, roughness: Roughness) -> Self {
        let count = 2 + random.index(5);
        let services = (0..count).map(|at| Service {
            resource: service(&format!("service-{number}-{at}")),
            parent: (at > 0).then(|| random.index(at)),
            internals: random.index(4),
            calls_outside: random.chance(30),
            has_tail: random.chance(20),
            reached_by: match random.between(0, 100) {
                0..16 => ReachedBy::Message,
                16..20 => ReachedBy::LinkedMessage,
                _ => ReachedBy::Call,
            },
            delay: [50 * MS, 200 * MS, SECOND, 5 * SECOND, 5 * SECOND][random.index(5)],
        });
        Self {
            services: services.collect(),
            roughness,
            maker: Maker::new(),
            http: attributes(&["http.request.method=GET"]),
            message: attributes(&["messaging.system=kafka"]),
            names: Names {
                entry: "entry".into(),
                call: "call".into(),
                outside: "outside".into(),
                tail: "tail".into(),
                internal: ["step a".into(), "step b".into(), "step c".into()],
            },
        }
    }

    /// Returns the labels that a test of this system may name.
    pub(super) fn labels(&self) -> Vec<usize> {
        let labels = self.services.iter().enumerate().flat_map(|(at, service)| {
            let steady = !self.roughness.varies || self.services[at].parent.is_none();
            let tail = (service.has_tail && steady).then_some(at * LABELS + 1);
            let internal = (service.internals > 0 && steady).then_some(at * LABELS + 2);
            let entry = steady.then_some(at * LABELS);
            entry.into_iter().chain(tail).chain(internal)
        });
        labels.collect()
    }

    /// Returns the number of labels.
    pub(super) fn label_count(&self) -> usize {
        self.services.len() * LABELS
    }

    /// Simulates one run that begins at `start`. With `bug`, one of its spans has a bad value.
    pub(super) fn send(&self, random: &mut Random, start: u64, bug: bool) -> Sending {
        let mut run = Run { system: self, random, spans: Vec::new(), next_id: TRIGGER + 1 };
        let answered = run.visit(0, TRIGGER, start + MS, false);
        let mut spans = run.spans;
        if bug {
            let at = random.index(spans.len());
            spans[at].bad = true;
        }
        let phases: Vec<u64> = self.services.iter().map(|service| random.between(0, service.delay)).collect();
        for sent in &mut spans {
            let delay = self.services[sent.label / LABELS].delay;
            let first = start + phases[sent.label / LABELS];
            let end = sent.span.end.expect("simulated spans end").as_nanos();
            let flush = first + end.saturating_sub(first).div_ceil(delay) * delay;
            sent.arrives = flush + random.between(0, self.roughness.jitter) + MS;
        }
        if self.roughness.varies {
            for _ in 0..random.index(4) {
                let copied = &spans[random.index(spans.len())];
                let copy = Sent {
                    span: copied.span.clone(),
                    copy: true,
                    arrives: copied.arrives + random.between(MS, 4 * SECOND),
                    ..*copied
                };
                spans.push(copy);
            }
        }
        spans.sort_by_key(|sent| sent.arrives);
        Sending { spans, answered }
    }
}

struct Run<'a> {
    system: &'a System,
    random: &'a mut Random,
    spans: Vec<Sent>,
    next_id: u64,
}

impl Run<'_> {
    /// Simulates service `at` serving a call; returns when it ends.
    fn visit(&mut self, at: usize, parent: u64, start: u64, linked: bool) -> u64 {
        let system = self.system;
        let (service, names) = (&system.services[at], &system.names);
        let id = self.id();
        let mut now = start + MS;
        for name in names.internal.iter().take(service.internals) {
            if system.roughness.varies && service.parent.is_some() && self.random.chance(20) {
                continue;
            }
            let label = if Arc::ptr_eq(name, &names.internal[0]) { 2 } else { 3 };
            let internal = self.id();
            self.push((at, label), (internal, id), SpanKind::Internal, name, (now, now + 2 * MS));
            now += 3 * MS;
        }
        if service.calls_outside {
            let outside = self.id();
            self.push((at, 3), (outside, id), SpanKind::Client, &names.outside, (now, now + 4 * MS));
            now += 5 * MS;
        }
        for callee in (0..system.services.len()).filter(|other| system.services[*other].parent == Some(at)) {
            let calls = if system.roughness.varies { self.random.between(1, 4) } else { 1 };
            for _ in 0..calls {
                now = self.call(at, id, callee, now);
            }
        }
        let end = now + MS;
        let consumer = service.reached_by != ReachedBy::Call && service.parent.is_some();
        let kind = if consumer { SpanKind::Consumer } else { SpanKind::Server };
        let below = if linked { TRIGGER } else { parent };
        self.push((at, 0), (id, below), kind, &names.entry, (start, end));
        if linked {
            let entry = self.spans.len() - 1;
            self.spans[entry].span.links.push(link(parent));
        }
        if service.has_tail {
            let tail = self.id();
            let length = self.random.between(50 * MS, 2 * SECOND);
            self.push((at, 1), (tail, id), SpanKind::Internal, &names.tail, (end, end + length));
        }
        end
    }

    /// Simulates service `at` calling `callee`; returns when the caller goes on.
    fn call(&mut self, at: usize, parent: u64, callee: usize, now: u64) -> u64 {
        let names = &self.system.names;
        let id = self.id();
        let peer = &self.system.services[callee];
        if peer.reached_by != ReachedBy::Call {
            let waiting = self.random.between(10 * MS, 500 * MS);
            self.visit(callee, id, now + MS + waiting, peer.reached_by == ReachedBy::LinkedMessage);
            self.push((at, 3), (id, parent), SpanKind::Producer, &names.call, (now, now + 2 * MS));
            return now + 3 * MS;
        }
        let end = self.visit(callee, id, now + MS, false) + MS;
        self.push((at, 3), (id, parent), SpanKind::Client, &names.call, (now, end));
        end + MS
    }

    fn push(
        &mut self,
        (at, label): (usize, usize),
        (id, parent): (u64, u64),
        kind: SpanKind,
        name: &Arc<str>,
        times: (u64, u64),
    ) {
        let system = self.system;
        let mut span = system.maker.span(id, parent, &system.services[at].resource, kind, name, times);
        match kind {
            SpanKind::Client => span.attributes = system.http.clone(),
            SpanKind::Producer => span.attributes = system.message.clone(),
            SpanKind::Unspecified | SpanKind::Internal | SpanKind::Server | SpanKind::Consumer => {}
        }
        self.spans.push(Sent { span, label: at * LABELS + label, bad: false, arrives: 0, copy: false });
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
