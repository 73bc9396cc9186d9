//! What users wish of runs that are under way.

use std::collections::HashMap;
use std::sync::Mutex;

use qualitytrace_core::lang::Stop;
use tokio::sync::watch;

use super::{RunId, lock};
use crate::store::Wish;

/// The runs under way here.
#[derive(Debug, Default)]
pub(super) struct Control(Mutex<HashMap<RunId, UnderWay>>);

/// How a run is told what is wished of it.
#[derive(Debug)]
struct UnderWay {
    wish: watch::Sender<Option<Wish>>,
    stop: Stop,
}

/// How a run learns what is wished of it.
#[derive(Debug, Clone)]
pub(super) struct Wishes {
    pub(super) wish: watch::Receiver<Option<Wish>>,
    /// Raised when what the run computes is of no use any more.
    pub(super) stop: Stop,
}

impl Control {
    /// A run begins; it listens to what comes back.
    pub(super) fn begin(&self, run: RunId) -> Wishes {
        let ((sender, wish), stop) = (watch::channel(None), Stop::default());
        lock(&self.0).insert(run, UnderWay { wish: sender, stop: stop.clone() });
        Wishes { wish, stop }
    }

    /// A run is over.
    pub(super) fn end(&self, run: &RunId) {
        lock(&self.0).remove(run);
    }

    /// How many are under way.
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// Tells a run, if it is under way here. Whoever was told to end is not told to go on.
    pub(super) fn wish(&self, run: &RunId, wish: Wish) {
        if let Some(told) = lock(&self.0).get(run) {
            told.wish.send_modify(|wished| *wished = Some(wish).max(*wished));
            if wish == Wish::Stop {
                told.stop.raise();
            }
        }
    }

    /// Ends what all runs compute: they are aborted next.
    pub(super) fn interrupt(&self) {
        lock(&self.0).values().for_each(|told| told.stop.raise());
    }
}

/// Returns when this is wished; never, if it never is.
pub(super) async fn wished(wish: &mut watch::Receiver<Option<Wish>>, wanted: Wish) {
    if wish.wait_for(|wish| *wish == Some(wanted)).await.is_err() {
        std::future::pending::<()>().await;
    }
}
