//! Progress of a trigger, so that a timeout can report which peer it waited for, and at which stage.

use std::cell::RefCell;
use std::time::Duration;

use super::failure::{Endpoint, Reason, TriggerError};

tokio::task_local! {
    static PROGRESS: RefCell<Progress>;
}

struct Progress {
    endpoint: Endpoint,
    proxy: Option<Endpoint>,
    stage: Stage,
}

enum Stage {
    /// No connection yet.
    Connecting,
    /// The request is being sent or processed.
    Asking,
    /// The response has begun.
    Answering,
}

/// Runs the work, which starts at this peer, with a timeout.
pub(super) fn within<T>(
    time: Duration,
    endpoint: &Endpoint,
    work: impl Future<Output = Result<T, TriggerError>> + Send,
) -> impl Future<Output = Result<T, TriggerError>> + Send {
    let beginning = Progress { endpoint: endpoint.clone(), proxy: None, stage: Stage::Asking };
    let work = Box::pin(work);
    let limited = async move {
        let done = tokio::time::timeout(time, work).await;
        done.unwrap_or_else(|_| Err(PROGRESS.with(|progress| progress.borrow().late())))
    };
    PROGRESS.scope(RefCell::new(beginning), limited)
}

/// Records that a peer is being asked now, through this proxy if there is one.
pub(super) fn asks(endpoint: &Endpoint, proxy: Option<Endpoint>) {
    note(|progress| *progress = Progress { endpoint: endpoint.clone(), proxy, stage: Stage::Asking });
}

/// Records the stage while a connection is being made.
pub(super) async fn connecting<T>(connection: impl Future<Output = T>) -> T {
    note(|progress| progress.stage = Stage::Connecting);
    let connection = connection.await;
    note(|progress| progress.stage = Stage::Asking);
    connection
}

/// Records that the response has begun.
pub(super) fn answers() {
    note(|progress| progress.stage = Stage::Answering);
}

fn note(change: impl FnOnce(&mut Progress)) {
    // Fails outside of a trigger: the HTTP client may finish a connection for later use after its request has ended.
    let _ = PROGRESS.try_with(|progress| change(&mut progress.borrow_mut()));
}

impl Progress {
    /// Describes the timeout.
    fn late(&self) -> TriggerError {
        let whom = self.proxy.as_ref().unwrap_or(&self.endpoint);
        let behind = match &self.proxy {
            Some(_) => format!("check whether the proxy reaches {}, or ", self.endpoint),
            None => String::new(),
        };
        let raise = "raise the trigger's `timeout`";
        match self.stage {
            // On this machine, a listening peer accepts the TCP connection at once: it is the handshake that hangs.
            Stage::Connecting if whom.is_localhost() => {
                let message = format!(
                    "the handshake with {} did not end in time; check that it speaks TLS, or {behind}{raise}",
                    whom.named()
                );
                TriggerError { targets_localhost: true, ..TriggerError::told(Reason::Timeout, message) }
            }
            Stage::Connecting => {
                let cause = format!(
                    "no connection came about in time; check {} and what lies between, or {behind}{raise}",
                    whom.setting
                );
                TriggerError::at(whom, Reason::Unreachable, &cause)
            }
            Stage::Asking => TriggerError::at(whom, Reason::Timeout, &format!("{behind}{raise}")),
            Stage::Answering => {
                let message = format!(
                    "the answer of {} was not complete in time: it began, but did not end; {raise}",
                    whom.named()
                );
                let targets_localhost = whom.is_localhost();
                TriggerError { targets_localhost, ..TriggerError::told(Reason::Timeout, message) }
            }
        }
    }
}
