//! User commands to runs in progress.

use std::collections::HashMap;
use std::sync::Mutex;

use qualitytrace_core::budget::Stop;
use tokio::sync::watch;

use crate::runner::{RunId, lock};
use crate::storage::store::RunCommand;

/// The runs in progress on this server, with the sending sides of their commands.
#[derive(Debug, Default)]
pub(super) struct RunsInProgress(Mutex<HashMap<RunId, CommandSender>>);

/// The sending side of a run's commands.
#[derive(Debug)]
struct CommandSender {
    command: watch::Sender<Option<RunCommand>>,
    stop: Stop,
}

/// The receiving side of a run's commands.
#[derive(Debug, Clone)]
pub(super) struct CommandReceiver {
    pub(super) command: watch::Receiver<Option<RunCommand>>,
    /// Raised when the result of the run's computation is no longer needed.
    pub(super) stop: Stop,
}

impl RunsInProgress {
    /// Registers a run; it listens to the returned receiver.
    pub(super) fn register(&self, run: RunId) -> CommandReceiver {
        let ((sender, command), stop) = (watch::channel(None), Stop::default());
        lock(&self.0).insert(run, CommandSender { command: sender, stop: stop.clone() });
        CommandReceiver { command, stop }
    }

    /// Unregisters a run.
    pub(super) fn unregister(&self, run: &RunId) {
        lock(&self.0).remove(run);
    }

    /// The runs of a test.
    pub(super) fn of_test(&self, test: &str) -> Vec<RunId> {
        lock(&self.0).keys().filter(|run| run.test == test).cloned().collect()
    }

    /// The number of runs in progress.
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// Sends a command to a run, if it is in progress here. A stop command is never downgraded.
    pub(super) fn send(&self, run: &RunId, command: RunCommand) {
        if let Some(sender) = lock(&self.0).get(run) {
            sender.command.send_modify(|latest| *latest = Some(command).max(*latest));
            if command == RunCommand::Stop {
                sender.stop.raise();
            }
        }
    }

    /// Unregisters the runs whose tasks were cancelled.
    pub(super) fn unregister_cancelled(&self) {
        lock(&self.0).retain(|_, sender| !sender.command.is_closed());
    }

    /// Interrupts the computations of all runs: their tasks are cancelled next.
    pub(super) fn interrupt(&self) {
        lock(&self.0).values().for_each(|sender| sender.stop.raise());
    }
}

/// Returns when this command was given; never, if it is not.
pub(super) async fn received(commands: &mut watch::Receiver<Option<RunCommand>>, wanted: RunCommand) {
    if commands.wait_for(|latest| *latest == Some(wanted)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_runs_are_not_in_progress() {
        let runs = RunsInProgress::default();
        let [cancelled, _kept] = [1, 2].map(|number| runs.register(RunId { test: "t".to_owned(), number }));
        runs.unregister_cancelled();
        assert_eq!(runs.count(), 2);
        drop(cancelled);
        runs.unregister_cancelled();
        assert_eq!(runs.count(), 1);
    }
}
