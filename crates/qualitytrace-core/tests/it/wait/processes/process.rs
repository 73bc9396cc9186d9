//! One process of a service: who it says it is, when its spans leave it, and when they arrive.

use std::sync::Arc;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Resource, Span, SpanKind};
use qualitytrace_core::value::Value;

use super::super::random::Random;
use super::super::spans::Maker;
use super::super::system::MS;
use super::super::worlds::NEVER;
use super::telemetry::Texts;
use super::world::World;

/// How the processes of a system say which ones they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// A new `service.instance.id` for each process.
    ById,
    /// The host's name as `service.instance.id`: a process that is started again has the same.
    ByHost,
    /// No `service.instance.id`.
    ByPid,
    /// Not at all.
    Unnamed,
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It finishes its work and exports it.
    ShutDown,
    /// What it has not exported is lost.
    Killed,
}

/// When a span leaves its process, and when it arrives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Export {
    pub(super) leaves: u64,
    pub(super) arrives: u64,
}

pub(super) struct Process {
    pub(super) service: usize,
    pub(super) host: usize,
    pub(super) resource: Arc<Resource>,
    /// Its own address.
    pub(super) address: Arc<str>,
    pub(super) delay: u64,
    phase: u64,
    jitter: u64,
    held: u64,
    /// When the server can be reached.
    pub(super) reachable: u64,
    pub(super) born: u64,
    pub(super) gone: u64,
    pub(super) ending: Ending,
    /// When its exporter dies.
    pub(super) mute_from: u64,
    pub(super) is_silent: bool,
    pub(super) is_frozen: bool,
    /// How much later than the right time its clock shows.
    clock: i64,
    random: Random,
    beat: u64,
    next_beat: u64,
    /// The span that it makes now and then, in a trace of its own.
    beating: Span,
}

/// What is known when a process starts.
pub(super) struct Start<'a> {
    pub(super) service: usize,
    pub(super) texts: &'a Texts,
    pub(super) trace_state: &'a Arc<str>,
    pub(super) host: usize,
    pub(super) pid: i64,
    pub(super) naming: Naming,
    pub(super) delay: u64,
    pub(super) clock: i64,
    /// Whether it is suspended between requests.
    pub(super) is_function: bool,
    pub(super) at: u64,
}

impl Process {
    pub(super) fn new(random: &mut Random, world: &World, maker: &Maker, start: &Start<'_>) -> Self {
        let mut random = Random::new(random.next());
        let resource = Arc::new(resource(&mut random, start));
        let mut beating =
            maker.span(1, 0, &resource, SpanKind::Server, &Arc::from("GET /healthz"), (start.at, start.at));
        beating.attributes = probed();
        beating.trace_state = Arc::clone(start.trace_state);
        beating.flags = 1;
        Self {
            service: start.service,
            host: start.host,
            resource,
            address: format!("10.0.{}.{}", start.service, start.host).into(),
            delay: start.delay,
            phase: start.at + random.between(0, start.delay),
            jitter: world.jitter,
            held: world.held,
            reachable: 0,
            born: start.at,
            gone: NEVER,
            ending: Ending::ShutDown,
            mute_from: NEVER,
            is_silent: false,
            is_frozen: start.is_function,
            clock: start.clock,
            beat: world.beat,
            next_beat: if world.beat > 0 { start.at + random.between(0, world.beat) } else { NEVER },
            random,
            beating,
        }
    }

    /// Exports a span that ended at `end`; `None` if it never arrives.
    pub(super) fn export(&self, end: u64) -> Option<Export> {
        if self.is_silent || end > self.mute_from {
            return None;
        }
        // Processes start with a phase: the first batches may be earlier than it.
        let batch = end.saturating_sub(self.phase).div_ceil(self.delay);
        let mut leaves = self.phase + batch * self.delay;
        if leaves > self.gone {
            match self.ending {
                Ending::ShutDown => leaves = self.gone.max(end),
                Ending::Killed => return None,
            }
        }
        if leaves > self.mute_from {
            return None;
        }
        let mut way = Random::new(self.phase ^ batch.rotate_left(32));
        let delay = way.between(2 * MS, self.jitter.max(3 * MS)) + self.held;
        Some(Export { leaves, arrives: leaves.max(self.reachable) + delay })
    }

    /// Whether what left it at this time never did, because it was killed before.
    pub(super) fn has_lost(&self, leaves: u64) -> bool {
        self.ending == Ending::Killed && leaves > self.gone
    }

    /// The end of its next span in a trace of its own, if that is not later than `now`.
    pub(super) fn beat(&mut self, now: u64) -> Option<u64> {
        let end = self.next_beat;
        if end > now {
            return None;
        }
        if end >= self.gone {
            self.next_beat = NEVER;
            return None;
        }
        self.next_beat = end + self.random.between(self.beat * 4 / 5, self.beat * 6 / 5);
        Some(end)
    }

    /// The span of a beat that ended then.
    pub(super) fn beating(&mut self, end: u64) -> &Span {
        let end = self.shown(end);
        self.beating.start = Timestamp::from_nanos(end.as_nanos() - MS);
        self.beating.end = Some(end);
        &self.beating
    }

    /// This time by its own clock.
    pub(super) fn shown(&self, at: u64) -> Timestamp {
        Timestamp::from_nanos(at.checked_add_signed(self.clock).expect("a time"))
    }
}

fn resource(random: &mut Random, start: &Start<'_>) -> Resource {
    let name = &*start.texts.service;
    let host = format!("{name}-{}", start.host);
    let mut attributes = Attributes::default();
    attributes.set("service.name", name);
    attributes.set("telemetry.sdk.language", start.texts.language.as_str());
    match start.naming {
        Naming::ById => {
            let id = format!("{:016x}-{:016x}", random.next(), random.next());
            attributes.set("service.instance.id", id);
        }
        Naming::ByHost => attributes.set("service.instance.id", host.as_str()),
        Naming::ByPid | Naming::Unnamed => {}
    }
    if start.naming != Naming::Unnamed {
        attributes.set("host.name", host.as_str());
        attributes.set("process.pid", start.pid);
    }
    if start.is_function {
        attributes.set("cloud.platform", "aws_lambda");
        attributes.set("faas.name", name);
        attributes.set("faas.instance", format!("2026/11/17/[1]{host}"));
    }
    Resource { attributes, ..Resource::default() }
}

/// The attributes of a health check.
fn probed() -> Attributes {
    [
        ("http.request.method", Value::from("GET")),
        ("http.response.status_code", Value::Int(200)),
        ("http.route", Value::from("/healthz")),
        ("url.path", Value::from("/healthz")),
        ("url.scheme", Value::from("http")),
    ]
    .into_iter()
    .collect()
}
