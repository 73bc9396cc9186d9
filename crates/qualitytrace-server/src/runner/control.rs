//! What users wish of runs that are under way.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::watch;

use super::{RunId, lock};

/// What is to become of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// It goes on.
    GoOn,
    /// It waits no longer.
    Skip,
    /// It ends.
    Stop,
}

/// The runs under way.
#[derive(Debug, Default)]
pub(super) struct Control(Mutex<HashMap<RunId, watch::Sender<Wish>>>);

impl Control {
    /// A run begins; it listens to what comes back.
    pub(super) fn begin(&self, run: RunId) -> watch::Receiver<Wish> {
        let (sender, receiver) = watch::channel(Wish::GoOn);
        lock(&self.0).insert(run, sender);
        receiver
    }

    /// A run is over.
    pub(super) fn end(&self, run: &RunId) {
        lock(&self.0).remove(run);
    }

    /// Tells a run. `false` when it is not under way.
    pub(super) fn wish(&self, run: &RunId, wish: Wish) -> bool {
        match lock(&self.0).get(run) {
            Some(sender) => sender.send(wish).is_ok(),
            None => false,
        }
    }
}

/// Returns when this is wished; never, if it never is.
pub(super) async fn wished(wish: &mut watch::Receiver<Wish>, wanted: Wish) {
    if wish.wait_for(|wish| *wish == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}
