//! The register of services, shared between the ingest and the runner.
//!
//! The ingest records the senders of every request: for spans once for each process in a request, with the first and
//! the last end time, when they are committed. `core::wait` decides what follows from it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::Register;
pub(crate) use qualitytrace_core::wait::register::Signal;

use crate::otlp::sender::Sender;

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
        for Sender { service, instance, ends } in senders {
            let Some((first, last)) = *ends else { continue };
            register.delivered(service, instance, first, at);
            if last > first {
                register.delivered(service, instance, last, at);
            }
        }
    }

    /// Records the metrics or logs of a request.
    pub(crate) fn signalled(&self, senders: &[Sender], signal: Signal, at: Timestamp) {
        if senders.is_empty() {
            return;
        }
        let mut register = self.lock();
        for Sender { service, instance, .. } in senders {
            register.signalled(service, instance, signal, at);
        }
    }
}
