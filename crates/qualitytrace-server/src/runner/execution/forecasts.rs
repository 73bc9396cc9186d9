//! What waiting runs still owe, for the clients that watch them. Nothing is computed for a run that no client watches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::runner::RunId;
use crate::wire::owed::WaitStatus;

/// The watched runs.
#[derive(Debug, Default)]
pub(crate) struct Forecasts(Mutex<HashMap<RunId, watch::Sender<Option<Arc<WaitStatus>>>>>);

/// A subscription to what a run owes.
#[derive(Debug)]
pub(crate) struct Watching {
    forecasts: Arc<Forecasts>,
    run: RunId,
    latest: watch::Receiver<Option<Arc<WaitStatus>>>,
}

impl Forecasts {
    /// Subscribes to what a run owes.
    pub(crate) fn watch(self: &Arc<Self>, run: RunId) -> Watching {
        let latest = self.lock().entry(run.clone()).or_insert_with(|| watch::channel(None).0).subscribe();
        Watching { forecasts: Arc::clone(self), run, latest }
    }

    /// Whether a client watches a run.
    pub(super) fn is_watched(&self, run: &RunId) -> bool {
        self.lock().contains_key(run)
    }

    /// Tells the clients that watch a run, if what it owes has changed.
    pub(super) fn publish(&self, run: &RunId, owed: WaitStatus) {
        if let Some(sender) = self.lock().get(run) {
            sender.send_if_modified(|latest| {
                let is_new = latest.as_ref().is_none_or(|latest| latest.differs_from(&owed));
                if is_new {
                    *latest = Some(Arc::new(owed));
                }
                is_new
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<Option<Arc<WaitStatus>>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watching {
    /// Waits until what the run owes changes, and returns it.
    pub(crate) async fn changed(&mut self) -> Arc<WaitStatus> {
        loop {
            // The sender lives as long as this subscription.
            if self.latest.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(owed) = self.latest.borrow_and_update().clone() {
                return owed;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watched = self.forecasts.lock();
        // This receiver is one of them.
        if watched.get(&self.run).is_some_and(|sender| sender.receiver_count() <= 1) {
            watched.remove(&self.run);
        }
    }
}
