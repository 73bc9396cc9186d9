//! How far a trigger has come, so that one that runs out of time says whom it waited for, and what for.

use std::cell::RefCell;
use std::time::Duration;

use super::failure::{Failure, Place, Reason};

tokio::task_local! {
    static PROGRESS: RefCell<Progress>;
}

struct Progress {
    place: Place,
    proxy: Option<Place>,
    stage: Stage,
}

enum Stage {
    /// No connection yet.
    Connecting,
    /// The question is on its way, or being thought about.
    Asking,
    /// The answer has begun.
    Answering,
}

/// Does the work, which begins at this place, within a time.
pub(super) fn within<T>(
    time: Duration,
    place: &Place,
    work: impl Future<Output = Result<T, Failure>> + Send,
) -> impl Future<Output = Result<T, Failure>> + Send {
    let beginning = Progress { place: place.clone(), proxy: None, stage: Stage::Asking };
    let work = Box::pin(work);
    let limited = async move {
        let done = tokio::time::timeout(time, work).await;
        done.unwrap_or_else(|_| Err(PROGRESS.with(|progress| progress.borrow().late())))
    };
    PROGRESS.scope(RefCell::new(beginning), limited)
}

/// Somebody is asked from now on, through this proxy if there is one.
pub(super) fn asks(place: &Place, proxy: Option<Place>) {
    note(|progress| *progress = Progress { place: place.clone(), proxy, stage: Stage::Asking });
}

/// Connects to whom is asked.
pub(super) async fn connecting<T>(connection: impl Future<Output = T>) -> T {
    note(|progress| progress.stage = Stage::Connecting);
    let connection = connection.await;
    note(|progress| progress.stage = Stage::Asking);
    connection
}

/// Who was asked has begun to answer.
pub(super) fn answers() {
    note(|progress| progress.stage = Stage::Answering);
}

fn note(change: impl FnOnce(&mut Progress)) {
    // A connection can be made for whoever needs it next, when nobody waits for it any more.
    let _ = PROGRESS.try_with(|progress| change(&mut progress.borrow_mut()));
}

impl Progress {
    /// What to say when the time is up.
    fn late(&self) -> Failure {
        let whom = self.proxy.as_ref().unwrap_or(&self.place);
        let behind = match &self.proxy {
            Some(_) => format!("check whether the proxy reaches {}, or ", self.place),
            None => String::new(),
        };
        let raise = "raise the trigger's `timeout`";
        match self.stage {
            // Here, whoever listens has taken the connection.
            Stage::Connecting if whom.is_localhost() => {
                let message = format!(
                    "the handshake with {} did not end in time; check that it speaks TLS, or {behind}{raise}",
                    whom.named()
                );
                Failure { targets_localhost: true, ..Failure::told(Reason::Timeout, message) }
            }
            Stage::Connecting => {
                let cause = format!(
                    "no connection came about in time; check {} and what lies between, or {behind}{raise}",
                    whom.setting
                );
                Failure::at(whom, Reason::Unreachable, &cause)
            }
            Stage::Asking => Failure::at(whom, Reason::Timeout, &format!("{behind}{raise}")),
            Stage::Answering => {
                let message = format!(
                    "the answer of {} was not complete in time: it began, but did not end; {raise}",
                    whom.named()
                );
                let targets_localhost = whom.is_localhost();
                Failure { targets_localhost, ..Failure::told(Reason::Timeout, message) }
            }
        }
    }
}
