//! The register of services: what is known of every service that sends telemetry, from all arrivals.
//!
//! A missing span is a claim about the service that would have sent it, and the register holds the evidence: when
//! the service was heard, up to which end time it has delivered, how late it delivers and by how much its spans
//! overtake each other. `evidence` draws the conclusions.

mod instance;
mod largest;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::instance::Instance;
use self::instance::instance_id;
pub use self::instance::{Signal, names_instance};
pub(super) use self::largest::Largest;
pub use self::view::{InstanceView, ServiceView};

use crate::time::Timestamp;
use crate::trace::{Resource, Span};
use crate::value::Value;

/// Deliveries of a service to be seen before conclusions are drawn from them.
pub const ENOUGH_DELIVERIES: u32 = 20;
/// Instances of a service whose deliveries are remembered; beyond it, those not heard from for longest are forgotten.
pub const MAX_INSTANCES: usize = 64;
/// Services that are remembered; beyond it, those not heard from for longest are forgotten.
pub const MAX_SERVICES: usize = 1_024;
/// Maximum number of addresses at which services answered that are remembered; further ones are not.
pub const MAX_ADDRESSES: usize = 4_096;
/// Maximum number of services remembered for one address.
const MAX_ANSWERING: usize = 16;
/// Deliveries after which an old largest lag begins to be forgotten.
const LAG_WINDOW: u32 = 200;
/// No exporter holds spans back for this long, and no synchronised clock is this wrong: such spans were recorded
/// earlier, or their times are made up, and say nothing about the service.
const MAX_LAG: Duration = Duration::from_mins(5);
/// Arrivals that follow each other within this time are one delivery.
const DELIVERY_GAP: Duration = Duration::from_millis(500);
/// Deliveries of all services after which an old disorder of the way begins to be forgotten.
const DISORDER_WINDOW: u32 = 2_000;
/// From this delivery on, the first one after a start is ignored: it may have waited for this server to listen.
const SETTLED_DELIVERIES: u32 = 3;

/// What is known of each service.
#[derive(Debug, Clone, Default)]
pub struct Register {
    listening_since: Option<Timestamp>,
    services: HashMap<Arc<str>, Service>,
    /// The services that answered calls to each address, RPC service or destination.
    answered: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// How long after a span that ended later a span of any service arrives: services share their way to this
    /// server, and what delays the spans of one may delay those of another.
    disorder: Largest,
    deliveries: u32,
    forgotten: u64,
}

/// What is known of one service.
#[derive(Debug, Clone, Default)]
pub(super) struct Service {
    pub(super) deliveries: u32,
    pub(super) lag: Largest,
    /// How long after a span that ended later a span arrives.
    pub(super) disorder: Largest,
    /// By how much a late span ended before spans that were delivered already.
    pub(super) overtaking: Largest,
    /// How far ahead its clock is.
    pub(super) ahead: Largest,
    pub(super) instances: HashMap<Arc<str>, Instance>,
    /// When its spans first arrived since this server listens.
    pub(super) first_heard: Option<Timestamp>,
    /// When it last sent any telemetry.
    pub(super) last_arrival: Timestamp,
    /// Whether it sent metrics or logs since this server listens.
    pub(super) has_signalled: bool,
    /// The lag of the first delivery since this server listens, and how many there were since.
    pub(super) first_lag: Duration,
    pub(super) heard_deliveries: u32,
}

impl Service {
    /// Returns the largest lag of its deliveries seen so far.
    pub(super) fn largest_lag(&self) -> Duration {
        let first = if self.heard_deliveries < SETTLED_DELIVERIES { self.first_lag } else { Duration::ZERO };
        self.lag.get().max(first)
    }

    fn instance_named(&self, id: &str) -> Arc<str> {
        let known = self.instances.get_key_value(id).map(|(id, _)| Arc::clone(id));
        known.unwrap_or_else(|| id.into())
    }

    /// Returns whether a delivery began, and how long after a span that ended later this one arrived.
    fn arrived(
        &mut self,
        id: Arc<str>,
        end: Timestamp,
        at: Timestamp,
        forgotten: &mut u64,
    ) -> (bool, Duration) {
        let instance = entry(&mut self.instances, id, MAX_INSTANCES, Instance::last_heard, forgotten);
        // A collector may split one delivery into pieces.
        let is_delivery = instance.watermark.is_none() || at >= instance.counted + DELIVERY_GAP;
        // A span that is reported a second time, perhaps by another way, says nothing new about the order.
        let is_old = at < instance.last_arrival && Some(end) <= instance.watermark;
        if is_delivery {
            instance.begin_delivery(at);
            self.deliveries = self.deliveries.saturating_add(1);
            self.heard_deliveries = self.heard_deliveries.saturating_add(1);
            if self.deliveries.is_multiple_of(LAG_WINDOW) {
                for largest in [&mut self.lag, &mut self.disorder, &mut self.overtaking, &mut self.ahead] {
                    largest.age();
                }
            }
        }
        let disorder = if is_old { Duration::ZERO } else { instance.disorder(end, at) };
        if !is_old {
            self.disorder.saw(disorder);
            self.overtaking.saw(instance.overtaken_by(end, at));
            instance.arrived(end, at);
        }
        let (lag, ahead) = (at.since(end), end.since(at));
        if lag <= MAX_LAG && ahead <= MAX_LAG {
            // Spans of the first delivery may have waited for this server to listen.
            if self.heard_deliveries <= 1 {
                self.first_lag = self.first_lag.max(lag);
            } else {
                self.lag.saw(lag);
            }
            self.ahead.saw(ahead);
        }
        self.first_heard.get_or_insert(at);
        self.last_arrival = self.last_arrival.max(at);
        (is_delivery, disorder)
    }
}

impl Register {
    /// Records when this server became reachable: a service that sends nothing from then on is silent.
    pub fn listens(&mut self, since: Timestamp) {
        self.listening_since = Some(since);
    }

    /// Since when this server can be reached.
    pub fn listening_since(&self) -> Option<Timestamp> {
        self.listening_since
    }

    /// Records that this span arrived at `at`.
    pub fn arrived(&mut self, span: &Span, at: Timestamp) {
        let Some(end) = span.end else { return };
        let name = text(&span.resource, "service.name").unwrap_or_default();
        self.delivered(&name, &instance_id(&span.resource), end, at);
    }

    /// Records that an instance of a service delivered a span that ended at `end`.
    pub fn delivered(&mut self, service: &str, instance: &str, end: Timestamp, at: Timestamp) {
        let mut forgotten = 0;
        let service = self.service(service, &mut forgotten);
        let (is_delivery, disorder) =
            service.arrived(service.instance_named(instance), end, at, &mut forgotten);
        self.disorder.saw(disorder);
        self.deliveries = self.deliveries.wrapping_add(u32::from(is_delivery));
        if is_delivery && self.deliveries.is_multiple_of(DISORDER_WINDOW) {
            self.disorder.age();
        }
        self.forgotten += forgotten;
    }

    /// Records that metrics or logs of an instance arrived: it is alive and can reach this server.
    pub fn signalled(&mut self, service: &str, instance: &str, signal: Signal, at: Timestamp) {
        let mut forgotten = 0;
        let service = self.service(service, &mut forgotten);
        let id = service.instance_named(instance);
        entry(&mut service.instances, id, MAX_INSTANCES, Instance::last_heard, &mut forgotten)
            .signalled(signal, at);
        service.has_signalled = true;
        service.last_arrival = service.last_arrival.max(at);
        self.forgotten += forgotten;
    }

    /// Whether spans of a service arrived since this server listens.
    pub fn has_heard(&self, service: &str) -> bool {
        self.services.get(service).is_some_and(|service| service.first_heard.is_some())
    }

    /// Whether any service has sent anything since this server listens.
    pub fn has_heard_anyone(&self) -> bool {
        self.services.values().any(|service| service.first_heard.is_some() || service.has_signalled)
    }

    /// Records that a service answered a call to an address, with its clock `ahead` of the caller's.
    pub fn answered(&mut self, address: &str, service: &str, ahead: Duration) {
        if let Some(known) = self.services.get_mut(service) {
            known.ahead.saw(ahead);
        }
        if let Some(services) = self.answered.get_mut(address) {
            if services.len() < MAX_ANSWERING && !services.contains(service) {
                services.insert(service.into());
            }
        } else if self.answered.len() < MAX_ADDRESSES {
            self.answered.insert(address.into(), BTreeSet::from([service.into()]));
        }
    }

    /// Returns how late the service delivers its spans at most; `None` until enough of its deliveries were seen.
    pub fn largest(&self, service: &str) -> Option<Duration> {
        self.known(service).map(Service::largest_lag)
    }

    /// How long after a span of the same process that ended later a span of this service, or of any other, arrives at
    /// most; zero when they arrive in the order of their ends. `None` until enough deliveries of this service were seen.
    ///
    /// Once that time has passed, a span that is here vouches for everything that its process ended before it.
    pub fn disorder(&self, service: &str) -> Option<Duration> {
        self.known(service).map(|service| service.disorder.get().max(self.disorder.get()))
    }

    /// Returns how long after a span that ended later a span of any service arrives at most.
    pub(super) fn disorder_of_anyone(&self) -> Duration {
        self.disorder.get()
    }

    /// Returns how late any service delivers at most.
    pub fn largest_lag(&self) -> Duration {
        self.services.values().map(Service::largest_lag).max().unwrap_or_default()
    }

    /// Returns how many services and instances were forgotten to stay within the limits.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Adds from `other` the services and addresses that are unknown here.
    pub fn take_over(&mut self, other: Self) {
        self.disorder.saw(other.disorder.get());
        for (name, service) in other.services.into_iter().collect::<BTreeMap<_, _>>() {
            if self.services.len() < MAX_SERVICES {
                self.services.entry(name).or_insert(service);
            }
        }
        for (address, services) in other.answered {
            if self.answered.len() < MAX_ADDRESSES {
                self.answered.entry(address).or_insert(services);
            }
        }
    }

    pub(super) fn get(&self, service: &str) -> Option<&Service> {
        self.services.get(service)
    }

    pub(super) fn services(&self) -> BTreeMap<&Arc<str>, &Service> {
        self.services.iter().collect()
    }

    /// Every service, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<str>, &Service)> {
        self.services.iter()
    }

    pub(super) fn addresses(&self) -> &BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
        &self.answered
    }

    /// Returns the services that answered calls to this address.
    pub(super) fn who_answers(&self, address: &str) -> Option<&BTreeSet<Arc<str>>> {
        self.answered.get(address)
    }

    pub(super) fn remembered(
        services: impl Iterator<Item = (String, Service)>,
        answered: impl Iterator<Item = (String, Vec<String>)>,
    ) -> Self {
        let services = services.take(MAX_SERVICES).map(|(name, service)| (name.into(), service));
        let services: HashMap<Arc<str>, Service> = services.collect();
        let disorder = services.values().map(|service| service.disorder.get()).max().unwrap_or_default();
        let answered = answered.take(MAX_ADDRESSES).map(|(address, services)| {
            let services = services.into_iter().take(MAX_ANSWERING).map(Arc::from).collect();
            (Arc::from(address), services)
        });
        let disorder = Largest::new(disorder);
        Self { services, answered: answered.collect(), disorder, ..Self::default() }
    }

    fn known(&self, service: &str) -> Option<&Service> {
        self.services.get(service).filter(|service| service.deliveries >= ENOUGH_DELIVERIES)
    }

    fn service(&mut self, name: &str, forgotten: &mut u64) -> &mut Service {
        let known = self.services.get_key_value(name).map(|(name, _)| Arc::clone(name));
        let name = known.unwrap_or_else(|| name.into());
        entry(&mut self.services, name, MAX_SERVICES, |service| service.last_arrival, forgotten)
    }
}

/// Returns the value of `key`. If it is new and the map is full, the quarter not heard from for longest is evicted
/// first.
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

fn text(resource: &Resource, name: &str) -> Option<Arc<str>> {
    match resource.attributes.get(name) {
        Some(Value::String(text)) => Some(Arc::clone(text)),
        _ => None,
    }
}
