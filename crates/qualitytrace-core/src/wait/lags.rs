//! How late, and in what order, each service delivers its spans.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::time::Timestamp;
use crate::trace::{Resource, Span};
use crate::value::Value;

/// Flushes of a service that have to be seen before conclusions are drawn from them.
pub const ENOUGH_FLUSHES: u32 = 20;
/// Instances of a service whose deliveries are remembered; beyond it, those not heard from for longest are forgotten.
pub const MAX_INSTANCES: usize = 64;
/// Services whose lags are remembered; beyond it, those not heard from for longest are forgotten.
pub const MAX_SERVICES: usize = 1_024;
/// Flushes after which an old largest lag begins to be forgotten.
const LAG_WINDOW: u32 = 500;
/// Steps of its watermark that are remembered of an instance.
const MAX_WATERMARKS: usize = 16;

/// What was learned from every span that arrived, whatever its trace.
#[derive(Debug, Clone, Default)]
pub struct Lags {
    services: HashMap<Arc<str>, Service>,
    forgotten: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Service {
    pub(super) flushes: u32,
    pub(super) lag: Largest,
    pub(super) disorder: Largest,
    instances: HashMap<Arc<str>, Instance>,
    last_arrival: Timestamp,
}

/// The largest of many durations, the oldest of which are forgotten.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Largest {
    now: Duration,
    before: Duration,
}

impl Largest {
    pub(super) fn new(duration: Duration) -> Self {
        Self { now: duration, before: Duration::ZERO }
    }

    pub(super) fn get(self) -> Duration {
        self.now.max(self.before)
    }

    fn saw(&mut self, duration: Duration) {
        self.now = self.now.max(duration);
    }

    fn age(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }
}

#[derive(Debug, Clone, Default)]
struct Instance {
    /// How the latest end among the delivered spans grew: that end, and when its span arrived.
    watermarks: VecDeque<(Timestamp, Timestamp)>,
    last_arrival: Timestamp,
}

impl Instance {
    /// How long after a span that ended later this one arrived.
    fn disorder(&self, end: Timestamp, at: Timestamp) -> Duration {
        let passed = self.watermarks.partition_point(|(watermark, _)| *watermark <= end);
        match self.watermarks.get(passed) {
            None => Duration::ZERO,
            // When the watermark passed this end is forgotten, but it was not before the end itself.
            Some(_) if passed == 0 && self.watermarks.len() == MAX_WATERMARKS => at.since(end),
            Some((_, passed_at)) => at.since(*passed_at),
        }
    }

    fn arrived(&mut self, end: Timestamp, at: Timestamp) {
        self.last_arrival = self.last_arrival.max(at);
        if self.watermarks.back().is_some_and(|(watermark, _)| *watermark >= end) {
            return;
        }
        if self.watermarks.len() == MAX_WATERMARKS {
            self.watermarks.pop_front();
        }
        self.watermarks.push_back((end, at));
    }
}

impl Lags {
    /// Takes note that this span arrived at `at`. Give each span once: a copy says nothing about the first delivery.
    pub fn arrived(&mut self, span: &Span, at: Timestamp) {
        let Some(end) = span.end else { return };
        let name = text(&span.resource, "service.name").unwrap_or_default();
        let oldest = |service: &Service| service.last_arrival;
        let service = entry(&mut self.services, name, MAX_SERVICES, oldest, &mut self.forgotten);
        let id = instance_id(&span.resource);
        let oldest = |instance: &Instance| instance.last_arrival;
        let instance = entry(&mut service.instances, id, MAX_INSTANCES, oldest, &mut self.forgotten);
        if at > instance.last_arrival {
            service.flushes = service.flushes.saturating_add(1);
            if service.flushes.is_multiple_of(LAG_WINDOW) {
                service.lag.age();
                service.disorder.age();
            }
        }
        service.lag.saw(at.since(end));
        service.disorder.saw(instance.disorder(end, at));
        service.last_arrival = service.last_arrival.max(at);
        instance.arrived(end, at);
    }

    /// How late the service delivers its spans at most; `None` until enough of its flushes were seen.
    pub fn largest(&self, service: &str) -> Option<Duration> {
        self.known(service).map(|service| service.lag.get())
    }

    /// How late the service may deliver its next span: a quarter later than ever before, or twice as late while few of its
    /// flushes were seen.
    pub fn foreseeable(&self, service: &str) -> Option<Duration> {
        let Service { flushes, lag, .. } = self.services.get(service)?;
        let largest = lag.get();
        Some(if *flushes >= ENOUGH_FLUSHES { largest + largest / 4 } else { largest.saturating_mul(2) })
    }

    /// How long after a span of the same process that ended later a span of this service arrives at most; zero when
    /// they arrive in the order of their ends. `None` until enough of its flushes were seen.
    ///
    /// Once that time has passed, a span that is here vouches for everything that its process ended before it.
    pub fn disorder(&self, service: &str) -> Option<Duration> {
        self.known(service).map(|service| service.disorder.get())
    }

    fn known(&self, service: &str) -> Option<&Service> {
        self.services.get(service).filter(|service| service.flushes >= ENOUGH_FLUSHES)
    }

    pub(super) fn services(&self) -> BTreeMap<&str, &Service> {
        self.services.iter().map(|(name, service)| (&**name, service)).collect()
    }

    pub(super) fn from_services(services: impl Iterator<Item = (String, u32, Duration, Duration)>) -> Self {
        let service = |(name, flushes, lag, disorder): (String, u32, Duration, Duration)| {
            let service = Service {
                flushes,
                lag: Largest::new(lag),
                disorder: Largest::new(disorder),
                ..Service::default()
            };
            (name.into(), service)
        };
        Self { services: services.take(MAX_SERVICES).map(service).collect(), ..Self::default() }
    }

    /// Takes over what is known elsewhere of services that are unknown here.
    pub fn take_over(&mut self, other: Self) {
        for (name, service) in other.services.into_iter().collect::<BTreeMap<_, _>>() {
            if self.services.len() < MAX_SERVICES {
                self.services.entry(name).or_insert(service);
            }
        }
    }

    /// How many services and instances were forgotten to stay within the limits.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// The value of `key`. When it is new and there is no room, the quarter not heard from for longest is forgotten first.
fn entry<'a, V: Default>(
    map: &'a mut HashMap<Arc<str>, V>,
    key: Arc<str>,
    limit: usize,
    last_arrival: impl Fn(&V) -> Timestamp,
    forgotten: &mut u64,
) -> &'a mut V {
    if map.len() >= limit && !map.contains_key(&key) {
        let before = map.len();
        let mut times: Vec<Timestamp> = map.values().map(&last_arrival).collect();
        let (_, oldest_kept, _) = times.select_nth_unstable(before / 4);
        map.retain(|_, value| last_arrival(value) > *oldest_kept);
        *forgotten += u64::try_from(before - map.len()).unwrap_or(u64::MAX);
    }
    map.entry(key).or_default()
}

/// What tells the processes of a service apart.
fn instance_id(resource: &Resource) -> Arc<str> {
    let host = || text(resource, "host.name").unwrap_or_default();
    match (text(resource, "service.instance.id"), resource.attributes.get("process.pid")) {
        (Some(id), _) => id,
        (None, Some(Value::Int(pid))) => format!("{}/{pid}", host()).into(),
        (None, _) => host(),
    }
}

fn text(resource: &Resource, name: &str) -> Option<Arc<str>> {
    match resource.attributes.get(name) {
        Some(Value::String(text)) => Some(Arc::clone(text)),
        _ => None,
    }
}
