//! The tasks of runs, late spans, series and suite runs.

use std::sync::{Arc, Mutex, Weak};

use tokio::task::JoinSet;

use super::lock;
use crate::base::compute::Pool;

/// The tasks in progress; they are cancelled when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Tasks(Arc<Mutex<JoinSet<()>>>);

/// Spawns tasks as long as their owner exists. The reference is weak because tasks hold what spawned them: with a
/// strong one, neither would ever be dropped.
#[derive(Debug, Clone)]
pub(super) struct Spawner(Weak<Mutex<JoinSet<()>>>);

impl Tasks {
    pub(super) fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.0))
    }
}

impl Spawner {
    /// Spawns a task on the thread pool for runs.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(tasks) = self.0.upgrade() else { return };
        let mut tasks = lock(&tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(work, &Pool::Runs.handle());
    }

    /// Cancels all tasks, and returns when they have ended.
    pub(super) async fn cancel_all(&self) {
        let Some(tasks) = self.0.upgrade() else { return };
        let mut cancelled = std::mem::take(&mut *lock(&tasks));
        cancelled.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn tasks_that_hold_what_spawned_them_end_with_their_owner() {
        let tasks = Tasks::default();
        let spawner = Arc::new(tasks.spawner());
        let held = Arc::clone(&spawner);
        spawner.spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        assert_eq!(Arc::strong_count(&spawner), 2);
        drop(tasks);
        let ended = async {
            while Arc::strong_count(&spawner) > 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), ended).await.expect("the task is cancelled");
    }
}
