//! How late, and in what order, each service delivers its spans.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::time::Timestamp;
use crate::trace::{Resource, Span};
use crate::value::Value;

/// Flushes of a service that have to be seen before conclusions are drawn from them.
pub const ENOUGH_FLUSHES: u32 = 20;
/// Service instances whose deliveries are remembered; beyond it, those not heard from for longest are forgotten.
pub const MAX_INSTANCES: usize = 4_096;
/// Services whose lags are remembered; beyond it, those not heard from for longest are forgotten.
pub const MAX_SERVICES: usize = 1_024;
/// Flushes after which an old largest lag begins to be forgotten.
const LAG_WINDOW: u32 = 500;

/// What was learned from every span that arrived, whatever its trace.
#[derive(Debug, Clone, Default)]
pub struct Lags {
    services: HashMap<Arc<str>, Service>,
    instances: HashMap<(Arc<str>, Arc<str>), Instance>,
    forgotten: u64,
}

#[derive(Debug, Clone, Default)]
struct Service {
    flushes: u32,
    /// Flushes since a span came after one that ended later.
    in_order: u32,
    largest: Duration,
    largest_before: Duration,
    last_arrival: Timestamp,
}

#[derive(Debug, Clone, Copy, Default)]
struct Instance {
    /// The latest end among the delivered spans, and when that span arrived.
    watermark: Timestamp,
    watermark_at: Timestamp,
    last_arrival: Timestamp,
}

impl Lags {
    /// Takes note that this span arrived at `at`. Give each span once: a copy says nothing about the first delivery.
    pub fn arrived(&mut self, span: &Span, at: Timestamp) {
        let Some(end) = span.end else { return };
        let name: Arc<str> = span.service().into();
        let key = (Arc::clone(&name), instance_id(&span.resource));
        self.forgotten += make_room(&mut self.services, &name, MAX_SERVICES, |service| {
            service.last_arrival
        });
        self.forgotten += make_room(&mut self.instances, &key, MAX_INSTANCES, |instance| {
            instance.last_arrival
        });
        let service = self.services.entry(name).or_default();
        let new_flush = match self.instances.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Instance {
                    watermark: end,
                    watermark_at: at,
                    last_arrival: at,
                });
                true
            }
            Entry::Occupied(mut entry) => {
                let instance = entry.get_mut();
                if end < instance.watermark && at > instance.watermark_at {
                    service.in_order = 0;
                }
                if end > instance.watermark {
                    instance.watermark = end;
                    instance.watermark_at = at;
                }
                let new_flush = at > instance.last_arrival;
                instance.last_arrival = instance.last_arrival.max(at);
                new_flush
            }
        };
        service.last_arrival = service.last_arrival.max(at);
        if new_flush {
            service.flushes = service.flushes.saturating_add(1);
            service.in_order = service.in_order.saturating_add(1);
            if service.flushes.is_multiple_of(LAG_WINDOW) {
                service.largest_before = std::mem::take(&mut service.largest);
            }
        }
        service.largest = service.largest.max(at.since(end));
    }

    /// The largest lag of a service; `None` until enough of its flushes were seen.
    pub fn largest(&self, service: &str) -> Option<Duration> {
        self.services
            .get(service)
            .filter(|service| service.flushes >= ENOUGH_FLUSHES)
            .map(|service| service.largest.max(service.largest_before))
    }

    /// Whether the service is known to deliver its spans in the order in which they end.
    ///
    /// Then a span that is here vouches for everything that its instance ended before it.
    pub fn in_order(&self, service: &str) -> bool {
        self.services
            .get(service)
            .is_some_and(|service| service.in_order >= ENOUGH_FLUSHES)
    }

    /// How many services and instances were forgotten to stay within the limits.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// Forgets the quarter not heard from for longest when `key` is new and there is no room for it.
fn make_room<K: Eq + Hash + Clone, V>(
    map: &mut HashMap<K, V>,
    key: &K,
    limit: usize,
    last_arrival: impl Fn(&V) -> Timestamp,
) -> u64 {
    if map.len() < limit || map.contains_key(key) {
        return 0;
    }
    let mut times: Vec<Timestamp> = map.values().map(&last_arrival).collect();
    let at = times.len() / 4;
    let (_, oldest_kept, _) = times.select_nth_unstable(at);
    let (oldest_kept, before) = (*oldest_kept, map.len());
    map.retain(|_, value| last_arrival(value) > oldest_kept);
    u64::try_from(before - map.len()).unwrap_or(u64::MAX)
}

/// What tells the processes of a service apart.
fn instance_id(resource: &Resource) -> Arc<str> {
    text(resource, "service.instance.id").unwrap_or_else(|| {
        let host = text(resource, "host.name").unwrap_or_default();
        match resource.attributes.get("process.pid") {
            Some(Value::Int(pid)) => format!("{host}/{pid}").into(),
            _ => host,
        }
    })
}

fn text(resource: &Resource, name: &str) -> Option<Arc<str>> {
    match resource.attributes.get(name) {
        Some(Value::String(text)) => Some(Arc::clone(text)),
        _ => None,
    }
}
