//! Public views of the services in the register.

use std::sync::Arc;
use std::time::Duration;

use super::{Register, Service};
use crate::time::Timestamp;

/// What is known of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceView {
    /// Its name.
    pub name: Arc<str>,
    /// How many of its deliveries are known.
    pub deliveries: u32,
    /// How late it delivers at most.
    pub largest_lag: Duration,
    /// By how much its spans arrive out of order.
    pub overtaking: Duration,
    /// How far its clock is ahead.
    pub clock_ahead: Duration,
    /// When its spans first arrived since this server listens; `None` when it sent none.
    pub first_heard: Option<Timestamp>,
    /// When it last sent any telemetry since this server listens.
    pub last_heard: Option<Timestamp>,
    /// The addresses, RPC services and destinations at which it answered calls.
    pub answers: Vec<Arc<str>>,
    /// Its processes.
    pub instances: Vec<InstanceView>,
}

/// What is known of one process of a service since this server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceView {
    /// The id that distinguishes it from the service's other processes.
    pub id: Arc<str>,
    /// When it first sent any telemetry.
    pub first_arrival: Timestamp,
    /// When it last sent any telemetry.
    pub last_arrival: Timestamp,
    /// When its metrics or logs last arrived.
    pub last_signal: Option<Timestamp>,
    /// The latest end among the spans that it delivered.
    pub watermark: Option<Timestamp>,
}

impl Register {
    /// When a service last sent any telemetry since this server listens.
    pub fn last_heard(&self, service: &str) -> Option<Timestamp> {
        self.get(service).and_then(Service::last_heard)
    }

    /// Whether spans of a service arrived at least so often, and never later than this.
    pub fn is_prompt(&self, service: &str, deliveries: u32, lag: Duration) -> bool {
        self.get(service).is_some_and(|known| {
            known.first_heard.is_some() && known.deliveries >= deliveries && known.largest_lag() <= lag
        })
    }

    /// Every service, by name.
    pub fn views(&self) -> Vec<ServiceView> {
        self.services().into_iter().map(|(name, service)| self.view(name, service)).collect()
    }

    fn view(&self, name: &Arc<str>, service: &Service) -> ServiceView {
        let answers = self.addresses().iter().filter(|(_, address)| address.services.contains(name));
        let mut instances: Vec<InstanceView> = service
            .instances
            .iter()
            .map(|(id, instance)| InstanceView {
                id: Arc::clone(id),
                first_arrival: instance.first_arrival,
                last_arrival: instance.last_heard(),
                last_signal: instance.last_signal,
                watermark: instance.watermark,
            })
            .collect();
        instances.sort_by(|a, b| a.id.cmp(&b.id));
        ServiceView {
            name: Arc::clone(name),
            deliveries: service.deliveries,
            largest_lag: service.largest_lag(),
            overtaking: service.overtaking.get(),
            clock_ahead: service.clock_ahead(),
            first_heard: service.first_heard,
            last_heard: service.last_heard(),
            answers: answers.map(|(address, _)| Arc::clone(address)).collect(),
            instances,
        }
    }
}

impl Service {
    fn last_heard(&self) -> Option<Timestamp> {
        (self.first_heard.is_some() || self.has_signalled).then_some(self.last_arrival)
    }
}
