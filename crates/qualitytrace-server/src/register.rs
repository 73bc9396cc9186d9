//! The register of services, shared by those who feed it and those who ask it.
//!
//! The ingest feeds it with what every request says about its senders: for spans once for each process in a request, with
//! the first and the last end among them, when they are committed. What it proves is decided in `core::wait`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::Register;
pub(crate) use qualitytrace_core::wait::register::Signal;

use crate::otlp::sender::Sender;

/// One register for all.
#[derive(Debug, Clone, Default)]
pub struct SharedRegister(Arc<Mutex<Register>>);

impl SharedRegister {
    /// The register itself. Nobody may keep it across an `await`.
    pub fn lock(&self) -> MutexGuard<'_, Register> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of the spans of a request.
    ///
    /// The first and the last end say the same as all of them: the one how late and how much out of order a process
    /// delivers, the other up to when it has delivered.
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

    /// Takes note of the metrics or logs of a request.
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
