//! The register of services, shared between the ingest and the runner.
//!
//! The ingest records the senders of every request: for spans once for each process in a request, with the first and
//! the last end time, when they are committed. `core::wait` decides what follows from it.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::Register;
use qualitytrace_core::wait::register::Identity;
pub(crate) use qualitytrace_core::wait::register::Signal;

/// A process of a service, and the end times of its spans in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Its `service.name`; empty if it has none.
    pub service: String,
    /// Identifies the process within its service: by its resource, else by the address that the request came from.
    pub process: Identity,
    /// The first and the last end time of its spans; `None` if it has no spans.
    pub ends: Option<(Timestamp, Timestamp)>,
    /// The spans of other traces that its spans link to.
    pub links: Vec<LinkedSpan>,
}

impl Sender {
    /// Uses the peer address as instance if the resource identifies none.
    pub(crate) fn at(mut self, address: Option<IpAddr>) -> Self {
        if let Some(address) = address.filter(|_| self.process.id.is_empty()) {
            self.process.id = address.to_canonical().to_string().into();
        }
        self
    }
}

/// A span that a span of another trace links to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedSpan {
    /// Its trace.
    pub trace: TraceId,
    /// Its id.
    pub id: SpanId,
}

/// A shared register.
#[derive(Debug, Clone, Default)]
pub struct SharedRegister(Arc<Mutex<Register>>);

impl SharedRegister {
    /// Locks the register. The guard must not be held across an `await`.
    pub fn lock(&self) -> MutexGuard<'_, Register> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the spans of a request.
    ///
    /// The first and the last end time tell as much as all of them: the first shows how late and how much out of order
    /// a process delivers, the last up to when it has delivered.
    pub fn delivered(&self, senders: &[Sender], at: Timestamp) {
        if senders.is_empty() {
            return;
        }
        let mut register = self.lock();
        for Sender { service, process, ends, .. } in senders {
            let Some((first, last)) = *ends else { continue };
            register.delivered(service, process, first, at);
            if last > first {
                register.delivered(service, process, last, at);
            }
        }
    }

    /// Records the metrics or logs of a request.
    pub(crate) fn signalled(&self, senders: &[Sender], signal: Signal, at: Timestamp) {
        if senders.is_empty() {
            return;
        }
        let mut register = self.lock();
        for Sender { service, process, .. } in senders {
            register.signalled(service, process, signal, at);
        }
    }
}
