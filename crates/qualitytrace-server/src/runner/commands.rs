//! User commands to runs in progress.

use std::collections::HashMap;
use std::sync::Mutex;

use qualitytrace_core::budget::Stop;
use tokio::sync::watch;

use super::{RunId, lock};
use crate::store::RunCommand;

/// The runs in progress on this server.
#[derive(Debug, Default)]
pub(super) struct Control(Mutex<HashMap<RunId, UnderWay>>);

/// The sending side of a run's commands.
#[derive(Debug)]
struct UnderWay {
    wish: watch::Sender<Option<RunCommand>>,
    stop: Stop,
}

/// The receiving side of a run's commands.
#[derive(Debug, Clone)]
pub(super) struct Wishes {
    pub(super) wish: watch::Receiver<Option<RunCommand>>,
    /// Raised when the result of the run's computation is no longer needed.
    pub(super) stop: Stop,
}

impl Control {
    /// Registers a run; it listens to the returned receivers.
    pub(super) fn begin(&self, run: RunId) -> Wishes {
        let ((sender, wish), stop) = (watch::channel(None), Stop::default());
        lock(&self.0).insert(run, UnderWay { wish: sender, stop: stop.clone() });
        Wishes { wish, stop }
    }

    /// Unregisters a run.
    pub(super) fn end(&self, run: &RunId) {
        lock(&self.0).remove(run);
    }

    /// The number of runs in progress.
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// Sends a command to a run, if it is in progress here. A stop command is never downgraded.
    pub(super) fn wish(&self, run: &RunId, wish: RunCommand) {
        if let Some(told) = lock(&self.0).get(run) {
            told.wish.send_modify(|wished| *wished = Some(wish).max(*wished));
            if wish == RunCommand::Stop {
                told.stop.raise();
            }
        }
    }

    /// Interrupts the computations of all runs: their tasks are cancelled next.
    pub(super) fn interrupt(&self) {
        lock(&self.0).values().for_each(|told| told.stop.raise());
    }
}

/// Returns when this command was given; never, if it is not.
pub(super) async fn wished(wish: &mut watch::Receiver<Option<RunCommand>>, wanted: RunCommand) {
    if wish.wait_for(|wish| *wish == Some(wanted)).await.is_err() {
        std::future::pending::<()>().await;
    }
}
