//! Following a trace in a data store: polls that start at once, come fast at first, and then less often.
//!
//! A poll tells what was visible when it began. The wait for a trace must not count silence that no poll has observed,
//! so each completed poll publishes when it began, and the wait says by when it wants the next one.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::DataStore;
use super::error::FetchError;
use super::received::{Received, StoredSpans};
use crate::base::clock;
use crate::outbound::trigger::{Reason, TriggerError};
use crate::receive::ingest::Ingest;

/// The shortest pause between two polls.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The same of hosted services.
const FIRST_PAUSE_HOSTED: Duration = Duration::from_millis(500);
const MAX_PAUSE_HOSTED: Duration = Duration::from_secs(5);
/// How long a poll may take, however short the wait for the trace is.
const LEAST_LIMIT: Duration = Duration::from_secs(5);
/// The same of a store that answers: the wait ends with a poll that began at its end.
const LEAST_LIMIT_ANSWERING: Duration = Duration::from_secs(30);

/// Polls a data store for one trace.
#[derive(Debug)]
pub(crate) struct Pull {
    store: Arc<DataStore>,
    ingest: Arc<Ingest>,
    trace: TraceId,
    is_live: bool,
    known: StoredSpans,
    has_answered: bool,
    /// Whether the store was asked for something that it must have: a wrong path looks like a missing trace.
    is_probed: bool,
    /// How long the last poll waited for its turn: other runs ask the store too.
    queued: Duration,
    observed: watch::Sender<Timestamp>,
    wanted: watch::Receiver<Option<Timestamp>>,
}

/// What the wait for a trace sees of its polls.
#[derive(Debug)]
pub(crate) struct Polled {
    observed: watch::Receiver<Timestamp>,
    wanted: watch::Sender<Option<Timestamp>>,
}

impl Polled {
    /// Returns up to when the store was observed.
    pub(crate) fn observed(&mut self) -> Timestamp {
        *self.observed.borrow_and_update()
    }

    /// Asks for a poll at this time, unless one comes earlier.
    pub(crate) fn want(&self, at: Timestamp) {
        self.wanted.send_replace(Some(at));
    }

    /// Waits until a poll is completed. Never returns after polling has ended.
    pub(crate) async fn changed(&mut self) {
        if self.observed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The pauses between polls.
#[derive(Debug, Clone, Copy)]
struct Pace {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Pace {
    fn new(is_hosted: bool) -> Self {
        let (first, most) =
            if is_hosted { (FIRST_PAUSE_HOSTED, MAX_PAUSE_HOSTED) } else { (FIRST_PAUSE, MAX_PAUSE) };
        Self { first, most, next: first }
    }

    /// Begins again with short pauses: something came, and more may follow.
    fn restart(&mut self) {
        self.next = self.first;
    }

    /// Returns the next pause. `jitter` from 0 to 1 shortens it by up to a quarter, so that runs that began together
    /// do not ask together.
    fn pause(&mut self, jitter: f64) -> Duration {
        let pause = self.next.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 4.0);
        self.next = (self.next * 2).min(self.most);
        pause
    }
}

impl Pull {
    /// Prepares to follow a trace. `is_live` says whether the trace is being recorded now, so that its spans tell how
    /// late their services deliver.
    pub(crate) fn new(
        store: Arc<DataStore>,
        ingest: Arc<Ingest>,
        trace: TraceId,
        is_live: bool,
    ) -> (Self, Polled) {
        let (observed, observed_by) = watch::channel(Timestamp::default());
        let (wanted_by, wanted) = watch::channel(None);
        let known = StoredSpans::default();
        let pull = Self {
            store,
            ingest,
            trace,
            is_live,
            known,
            has_answered: false,
            is_probed: false,
            queued: Duration::ZERO,
            observed,
            wanted,
        };
        (pull, Polled { observed: observed_by, wanted: wanted_by })
    }

    /// The name of the store.
    pub(crate) fn store_name(&self) -> &'static str {
        self.store.name()
    }

    /// Polls until the future is dropped. Returns why the store cannot be used: at once if its settings are wrong, and
    /// after `until` if it did not answer by then.
    pub(crate) async fn follow(&mut self, until: Instant) -> FetchError {
        let mut pace = Pace::new(self.store.is_hosted());
        let (mut cuts, mut failed) = (0, None);
        loop {
            let began_at = Instant::now();
            let is_answering = self.has_answered && failed.is_none();
            let least = if is_answering { LEAST_LIMIT_ANSWERING } else { LEAST_LIMIT };
            let Ok(polled) = timeout_at(until.max(began_at + least), self.poll()).await else {
                return failed.unwrap_or_else(|| self.late());
            };
            if polled.as_ref().is_ok_and(|(_, new)| *new > 0) {
                pace.restart();
            }
            // Where many runs ask, none asks more often than its turn comes.
            let pause = pace.pause(rand::random()).max(self.queued);
            match polled {
                Ok((began, _)) => {
                    self.has_answered = true;
                    failed = None;
                    self.observed.send_replace(began);
                    self.sleep(began_at, pause).await;
                }
                // A kept connection may have been closed meanwhile: the next poll makes another.
                Err(error) if error.failure.reason == Reason::Cut && cuts == 0 => {
                    cuts += 1;
                    tokio::time::sleep(pause).await;
                }
                Err(error) if error.is_permanent(self.has_answered) => return error,
                // What the wait wants does not matter to a store that does not answer.
                Err(error) => {
                    let (now, wanted) = (Instant::now(), error.retry_after.unwrap_or_default());
                    tokio::time::sleep_until((now + pause.max(wanted)).min(until)).await;
                    if now + wanted >= until {
                        return error;
                    }
                    let reason = error.failure.reason;
                    tracing::debug!(?reason, "the data store failed, and is asked again");
                    failed = Some(error);
                }
            }
        }
    }

    /// Describes a store that has not answered in time.
    fn late(&self) -> FetchError {
        let name = self.store.name();
        let message = if self.store.pause().is_zero() {
            format!("{name} did not answer in full before the polling profile's `timeout` was over")
        } else {
            format!("{name} is busy: it wants a pause (`Retry-After`) beyond the polling profile's `timeout`")
        };
        FetchError::passing(TriggerError::told(Reason::Timeout, message))
    }

    /// Polls now and then until the deadline, for spans that come after the verdict. What fails is tried again.
    pub(crate) async fn follow_late(mut self, often_until: Instant, deadline: Instant) {
        let mut pace = Pace { first: MAX_PAUSE, most: MAX_PAUSE, next: MAX_PAUSE };
        while Instant::now() < deadline {
            if Instant::now() >= often_until {
                pace.most = MAX_PAUSE * 10;
            }
            let pause = pace.pause(rand::random());
            tokio::time::sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
            match timeout_at(deadline, self.poll()).await {
                Ok(Ok((_, new))) if new > 0 => pace.restart(),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tokio::time::sleep(error.retry_after.unwrap_or_default()).await,
                Err(_) => return,
            }
        }
    }

    /// Sleeps until the next poll: after this pause, or when the wait wants one.
    async fn sleep(&mut self, began: Instant, pause: Duration) {
        let at = Instant::now() + pause;
        loop {
            let wanted = *self.wanted.borrow_and_update();
            let wanted = wanted.map(|wanted| Instant::now() + wanted.since(clock::now()));
            let due = wanted.map_or(at, |wanted| wanted.min(at)).max(began + FIRST_PAUSE);
            tokio::select! {
                () = tokio::time::sleep_until(due) => return,
                changed = self.wanted.changed() => if changed.is_err() {
                    return tokio::time::sleep_until(due).await;
                }
            }
        }
    }

    /// Asks the store once. Returns when it was asked, and the number of new spans.
    async fn poll(&mut self) -> Result<(Timestamp, u64), FetchError> {
        let (_permit, queued) = self.store.turn().await?;
        self.queued = queued;
        let began = clock::now();
        let mut received =
            Received::new(&self.ingest, self.store.name(), self.trace, self.is_live, &mut self.known);
        let (store, is_probed) = (&self.store, self.is_probed);
        let work = async {
            store.fetch(&mut received).await?;
            let new = received.finish().await?;
            if new == 0 && !is_probed {
                store.probe().await?;
            }
            Ok::<_, FetchError>(new)
        };
        match work.await {
            Ok(new) => {
                self.is_probed = true;
                Ok((began, new))
            }
            Err(error) => {
                if let Some(after) = error.retry_after {
                    self.store.pause_for(after);
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_with_news() {
        let mut pace = Pace::new(false);
        let pauses: Vec<u128> = (0..9).map(|_| pace.pause(0.0).as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        pace.restart();
        assert_eq!(pace.pause(1.0), Duration::from_micros(7_500));
    }
}
