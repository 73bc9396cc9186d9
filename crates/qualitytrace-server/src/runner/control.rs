//! What users wish of runs that are under way.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::watch;

use super::{RunId, lock};
use crate::store::Wish;

/// The runs under way here.
#[derive(Debug, Default)]
pub(super) struct Control(Mutex<HashMap<RunId, watch::Sender<Option<Wish>>>>);

impl Control {
    /// A run begins; it listens to what comes back.
    pub(super) fn begin(&self, run: RunId) -> watch::Receiver<Option<Wish>> {
        let (sender, receiver) = watch::channel(None);
        lock(&self.0).insert(run, sender);
        receiver
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
        if let Some(sender) = lock(&self.0).get(run) {
            sender.send_modify(|wished| *wished = Some(wish).max(*wished));
        }
    }
}

/// Returns when this is wished; never, if it never is.
pub(super) async fn wished(wish: &mut watch::Receiver<Option<Wish>>, wanted: Wish) {
    if wish.wait_for(|wish| *wish == Some(wanted)).await.is_err() {
        std::future::pending::<()>().await;
    }
}
