//! The register of services: what is known of every service that sends telemetry, from all arrivals.
//!
//! A missing span is a claim about the service that would have sent it, and the register holds the evidence: when
//! the service was heard, up to which end time it has delivered, how late it delivers and by how much its spans
//! overtake each other. `evidence` draws the conclusions.

mod address;
mod clock;
mod entries;
mod instance;
mod largest;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::address::{Address, Share};
pub(super) use self::entries::Entries;
pub(super) use self::instance::Instance;
pub use self::instance::Signal;
pub(super) use self::largest::Largest;
pub use self::view::{InstanceView, ServiceView};

use super::call;
use super::observation::{ClockPair, Edge, Observations, ObservedCall};
pub use super::process::{Identity, ProcessAttributes, names_process};
use crate::id::SpanId;
use crate::time::Timestamp;
use crate::trace::Span;

/// Deliveries of a service to be seen before conclusions are drawn from them.
pub const ENOUGH_DELIVERIES: u32 = 20;
/// Instances of a service whose deliveries are remembered; beyond it, those not heard from for longest are forgotten.
pub const MAX_INSTANCES: usize = 64;
/// Services that are remembered; beyond it, those not heard from for longest are forgotten.
pub const MAX_SERVICES: usize = 1_024;
/// Maximum number of addresses at which services answered that are remembered; further ones are not.
pub const MAX_ADDRESSES: usize = 4_096;
/// Maximum number of services that are remembered as called by one service.
const MAX_EDGES: usize = 64;
/// Linked spans that are remembered; beyond this they are forgotten.
const MAX_LINKED: usize = 4_096;
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
    /// The addresses, RPC services and destinations that are called.
    addresses: BTreeMap<Arc<str>, Address>,
    /// How long after a span that ended later a span of any service arrives: services share their way to this
    /// server, and what delays the spans of one may delay those of another.
    disorder: Largest,
    deliveries: u32,
    forgotten: u64,
    /// Spans of followed traces that spans of other traces link to, with the services of those.
    linked: HashMap<SpanId, Arc<str>>,
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
    /// The services that it called.
    pub(super) calls: BTreeSet<Arc<str>>,
    /// Whether it caused work in another service without a span of the call.
    pub(super) has_bare_edges: bool,
    pub(super) entries: Entries,
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

    /// How far the fastest clock of its processes is ahead.
    fn clock_ahead(&self) -> Duration {
        let ahead = self.instances.values().map(|instance| instance.clock.ahead()).max().unwrap_or_default();
        Duration::from_nanos(ahead.max(0).unsigned_abs())
    }

    fn instance(&mut self, identity: &Identity, forgotten: &mut u64) -> &mut Instance {
        let id = Arc::clone(&identity.id);
        let instance = entry(&mut self.instances, id, MAX_INSTANCES, Instance::last_heard, forgotten);
        (instance.is_named, instance.can_freeze) = (identity.is_named, identity.can_freeze);
        instance
    }

    /// The entries of a process in the register: its own, or all that have no name if it has none.
    pub(super) fn instances_of<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = &'a Instance> {
        let is_it = move |id: &str, instance: &Instance| {
            if identity.is_named { *id == *identity.id } else { !instance.is_named }
        };
        self.instances.iter().filter(move |(id, instance)| is_it(id, instance)).map(|(_, instance)| instance)
    }

    /// Returns whether a delivery began, and how long after a span that ended later this one arrived.
    fn arrived(
        &mut self,
        identity: &Identity,
        end: Timestamp,
        at: Timestamp,
        forgotten: &mut u64,
    ) -> (bool, Duration) {
        let instance = self.instance(identity, forgotten);
        let stands_still = instance.stands_still(end, at);
        let is_delivery = !stands_still && instance.begins_delivery(at);
        // A span that is reported a second time, perhaps by another way, says nothing new about the order.
        let is_old = at < instance.last_arrival && Some(end) <= instance.watermark;
        if is_delivery {
            instance.begin_delivery(at);
        }
        let (mut disorder, mut overtaking) = (Duration::ZERO, Duration::ZERO);
        if !is_old {
            disorder = instance.disorder(end, at);
            overtaking = instance.overtaken_by(end, at);
            instance.arrived(end, at);
        }
        let lag = at.nanos_since(end).saturating_add(instance.clock.ahead());
        if is_delivery {
            self.deliveries = self.deliveries.saturating_add(1);
            self.heard_deliveries = self.heard_deliveries.saturating_add(1);
            if self.deliveries.is_multiple_of(LAG_WINDOW) {
                for largest in [&mut self.lag, &mut self.disorder, &mut self.overtaking] {
                    largest.age();
                }
            }
        }
        self.disorder.saw(disorder);
        self.overtaking.saw(overtaking);
        let lag_time = Duration::from_nanos(lag.max(0).unsigned_abs());
        if !stands_still && Duration::from_nanos(lag.unsigned_abs()) <= MAX_LAG {
            // Spans of the first delivery may have waited for this server to listen.
            if self.heard_deliveries <= 1 {
                self.first_lag = self.first_lag.max(lag_time);
            } else {
                self.lag.saw(lag_time);
            }
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
        let identity = ProcessAttributes::read(&span.resource).identity();
        self.delivered(span.service(), &identity, end, at);
    }

    /// Records that a process of a service delivered a span that ended at `end`.
    pub fn delivered(&mut self, service: &str, process: &Identity, end: Timestamp, at: Timestamp) {
        let mut forgotten = 0;
        let service = self.service(service, &mut forgotten);
        let (is_delivery, disorder) = service.arrived(process, end, at, &mut forgotten);
        self.disorder.saw(disorder);
        self.deliveries = self.deliveries.wrapping_add(u32::from(is_delivery));
        if is_delivery && self.deliveries.is_multiple_of(DISORDER_WINDOW) {
            self.disorder.age();
        }
        self.forgotten += forgotten;
    }

    /// Records that metrics or logs of a process arrived: it is alive and can reach this server.
    pub fn signalled(&mut self, service: &str, process: &Identity, signal: Signal, at: Timestamp) {
        let mut forgotten = 0;
        let service = self.service(service, &mut forgotten);
        service.instance(process, &mut forgotten).signalled(signal, at);
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

    /// Records what the spans of a trace show.
    pub fn observe(&mut self, observations: Observations) {
        for pair in &observations.pairs {
            self.compare_clocks(pair);
        }
        for call in observations.calls {
            self.observe_call(&call);
        }
        for Edge { from, to, is_bare } in observations.edges {
            let Some(service) = self.services.get_mut(&from) else { continue };
            service.has_bare_edges |= is_bare;
            if service.calls.len() < MAX_EDGES {
                service.calls.insert(to);
            }
        }
        for entry in &observations.entries {
            if let Some(service) = self.services.get_mut(&entry.service) {
                service.entries.note(entry);
            }
        }
    }

    /// Records that a span of this service, in another trace, links to this span: it answers it, if that is a call.
    pub fn linked(&mut self, span: SpanId, service: &str) {
        if self.linked.len() >= MAX_LINKED {
            self.linked.clear();
        }
        self.linked.insert(span, service.into());
        for address in self.addresses.values_mut().filter(|address| address.knows_call(span)) {
            address.answered(Some(span), service, Duration::ZERO);
        }
    }

    /// Whether a span of another trace links to this one.
    pub(super) fn is_linked(&self, span: SpanId) -> bool {
        self.linked.contains_key(&span)
    }

    fn observe_call(&mut self, call: &ObservedCall) {
        let ObservedCall { address, span, kind, end, answer } = call;
        let linked =
            span.and_then(|span| self.linked.get(&span)).map(|service| (Arc::clone(service), Duration::ZERO));
        let answer = answer.as_ref().or(linked.as_ref());
        if self.addresses.len() >= MAX_ADDRESSES && !self.addresses.contains_key(address) {
            return;
        }
        let address = self.addresses.entry(Arc::clone(address)).or_default();
        address.called(*span, *kind, *end);
        if let Some((service, took)) = answer {
            address.answered(*span, service, *took);
        }
    }

    /// Records that no span answered the calls of a whole run to these addresses.
    pub fn stayed_mute(&mut self, addresses: &[Arc<str>]) {
        for address in addresses {
            if let Some(known) = self.addresses.get_mut(address) {
                known.stayed_mute();
            } else if self.addresses.len() < MAX_ADDRESSES {
                self.addresses.entry(Arc::clone(address)).or_default().stayed_mute();
            }
        }
    }

    fn compare_clocks(&mut self, pair: &ClockPair) {
        let caller = match &pair.caller {
            Some((service, identity)) => match self.clock_ahead(service, identity) {
                Some(ahead) => ahead,
                None => return,
            },
            None => 0,
        };
        let (service, identity) = &pair.server;
        let Some(service) = self.services.get_mut(service) else { return };
        // It can be negated, whatever times the spans have.
        let ahead = caller.saturating_add(pair.ahead).max(-i64::MAX);
        if identity.is_named {
            if let Some(instance) = service.instances.get_mut(&identity.id) {
                instance.paired(ahead);
            }
            return;
        }
        let mut unnamed = service.instances.values_mut().filter(|instance| !instance.is_named);
        // Which of several it was is not known.
        if let (Some(instance), None) = (unnamed.next(), unnamed.next()) {
            instance.paired(ahead);
        }
    }

    /// By how much the clock of a process is ahead of this server's, in nanoseconds; `None` when it is not known which
    /// process it is.
    pub(super) fn clock_ahead(&self, service: &str, identity: &Identity) -> Option<i64> {
        let mut instances = self.get(service)?.instances_of(identity);
        match (instances.next(), instances.next()) {
            (Some(instance), None) => Some(instance.clock.ahead()),
            (None, _) | (Some(_), Some(_)) => None,
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
        for (address, known) in other.addresses {
            if self.addresses.len() < MAX_ADDRESSES {
                self.addresses.entry(address).or_insert(known);
            }
        }
    }

    pub(super) fn get(&self, service: &str) -> Option<&Service> {
        self.services.get(service)
    }

    /// Returns a service with the name that the register has for it.
    pub(super) fn get_named(&self, service: &str) -> Option<(&Arc<str>, &Service)> {
        self.services.get_key_value(service)
    }

    pub(super) fn services(&self) -> BTreeMap<&Arc<str>, &Service> {
        self.services.iter().collect()
    }

    /// Every service, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<str>, &Service)> {
        self.services.iter()
    }

    pub(super) fn addresses(&self) -> &BTreeMap<Arc<str>, Address> {
        &self.addresses
    }

    /// What is known of an address.
    pub(super) fn address(&self, address: &str) -> Option<&Address> {
        self.addresses.get(address)
    }

    /// Whether the peer at this address is taken to send no spans.
    pub(super) fn is_mute(&self, address: &str) -> bool {
        self.address(address).is_some_and(|known| known.is_mute(self.has_namesake(address)))
    }

    /// Whether a service is heard that has the name of the host: `stock` at `stock:8080` or `stock.shop.svc:8080`.
    pub(super) fn has_namesake(&self, address: &str) -> bool {
        let host = address.split([':', '.', '/']).next().unwrap_or_default();
        self.has_heard(host)
    }

    /// Returns the services that answered calls to this address.
    pub(super) fn who_answers(&self, address: &str) -> Option<&BTreeSet<Arc<str>>> {
        self.addresses.get(address).map(|address| &address.services).filter(|services| !services.is_empty())
    }

    /// The services that answered such calls at other addresses, where callers choose a process by its own address: the one
    /// at this address may be another process of theirs.
    pub(super) fn who_answers_elsewhere(&self, address: &str, kind: u64) -> BTreeSet<Arc<str>> {
        let Some(port) = call::direct_port(address) else { return BTreeSet::new() };
        let is_alike = |(other, known): &(&Arc<str>, &Address)| {
            call::direct_port(other) == Some(port) && known.knows_kind(kind)
        };
        let alike = self.addresses.iter().filter(is_alike);
        alike.flat_map(|(_, known)| &known.services).cloned().collect()
    }

    /// These services and all that they are known to call, directly or through others.
    pub(super) fn below(&self, services: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        let mut below = services.clone();
        let mut open: Vec<Arc<str>> = services.iter().cloned().collect();
        while let Some(service) = open.pop() {
            for called in self.get(&service).into_iter().flat_map(|service| &service.calls) {
                if below.insert(Arc::clone(called)) {
                    open.push(Arc::clone(called));
                }
            }
        }
        below
    }

    pub(super) fn remembered(
        services: impl Iterator<Item = (String, Service)>,
        addresses: impl Iterator<Item = (String, Address)>,
    ) -> Self {
        let services = services.take(MAX_SERVICES).map(|(name, service)| (name.into(), service));
        let services: HashMap<Arc<str>, Service> = services.collect();
        let disorder = services.values().map(|service| service.disorder.get()).max().unwrap_or_default();
        let addresses = addresses.take(MAX_ADDRESSES).map(|(text, address)| (Arc::from(text), address));
        let disorder = Largest::new(disorder);
        Self { services, addresses: addresses.collect(), disorder, ..Self::default() }
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
