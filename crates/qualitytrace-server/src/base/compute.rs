//! Thread pools for CPU work: requests to the API, and runs.
//!
//! Definitions, selectors, expressions and traces take as much time as their authors want, within their budgets. The
//! threads that serve sockets receive spans and respond to health checks; they do none of this work. A computation ends
//! when its caller no longer waits for it: its [`budget`] is stopped.

use std::sync::LazyLock;

use qualitytrace_core::budget::{Budget, Stop};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{AbortHandle, JoinError};

/// Minimum threads of a pool, however few processors there are: one long evaluation must not delay the next request.
const MIN_THREADS: usize = 4;

tokio::task_local! {
    static STOP: Stop;
}

/// A thread pool for one kind of work. It lives as long as the process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pool {
    /// Requests to the API.
    Requests,
    /// Runs of tests and suites.
    Runs,
}

impl Pool {
    /// Returns where to spawn. If the pool could not be started, that is the current runtime, which serves sockets.
    pub(crate) fn handle(self) -> Handle {
        static REQUESTS: LazyLock<Option<Runtime>> = LazyLock::new(|| threads("requests"));
        static RUNS: LazyLock<Option<Runtime>> = LazyLock::new(|| threads("runs"));
        let threads = match self {
            Self::Requests => &REQUESTS,
            Self::Runs => &RUNS,
        };
        threads.as_ref().map_or_else(Handle::current, |threads| threads.handle().clone())
    }
}

fn threads(name: &'static str) -> Option<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, Into::into);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(processors.max(MIN_THREADS)).thread_name(name).enable_all();
    builder
        .build()
        .inspect_err(
            |error| tracing::warn!(%error, name, "failed to start threads; the others do their work"),
        )
        .ok()
}

/// Runs this on the pool for requests, until it is done or the returned future is dropped.
pub(crate) async fn run<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    let stop = Stop::default();
    let task = Pool::Requests.handle().spawn(STOP.scope(stop.clone(), work));
    let _ended = EndOnDrop { task: task.abort_handle(), stop };
    task.await
}

/// Runs this on the pool for requests to completion, even if the returned future is dropped.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    Pool::Requests.handle().spawn(work).await
}

/// Runs this with budgets that end when `stop` is raised.
pub(crate) async fn until<T>(stop: Stop, work: impl Future<Output = T>) -> T {
    STOP.scope(stop, work).await
}

/// Lets tasks run first that the current one has woken. A thread keeps the last of them in its own slot, where it would
/// wait until everything is computed: for example the task that returns a connection to the store's pool.
pub(crate) async fn give_way() {
    tokio::task::yield_now().await;
}

/// Returns the evaluation budget of the current task; it ends when the task is stopped.
pub(crate) fn budget() -> Budget {
    Budget::default().until(STOP.try_with(Stop::clone).unwrap_or_default())
}

/// Waits forever if the current task was stopped: results computed since then may be incomplete. The code that stopped
/// the task aborts it.
pub(crate) async fn wait_if_stopped() {
    if STOP.try_with(Stop::is_raised).unwrap_or_default() {
        std::future::pending::<()>().await;
    }
}

/// Stops the budget and aborts the task: a task that computes would not notice an abort before its next await.
struct EndOnDrop {
    task: AbortHandle,
    stop: Stop,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.stop.raise();
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qualitytrace_core::budget::BudgetError;
    use qualitytrace_core::lang::{parse_selector, select};
    use qualitytrace_core::trace::Trace;

    #[tokio::test]
    async fn an_abandoned_computation_ends() {
        let (ended, mut noticed) = tokio::sync::mpsc::channel(1);
        let (begun, mut begins) = tokio::sync::mpsc::channel(1);
        let endless = run(async move {
            let _ = begun.send(()).await;
            let trace = Trace::assemble("5b8aa5a2d2c872e8321cf37308d69df2".parse().unwrap(), []);
            let selector = parse_selector("span[name = \"a\"]").tree;
            let budget = budget();
            loop {
                // It awaits nothing: only its budget can end it.
                if let Err(exceeded) = select(&selector, &trace, &budget) {
                    let _ = ended.try_send(exceeded);
                    return;
                }
            }
        });
        tokio::select! {
            _ = endless => panic!("it came to an end"),
            _ = begins.recv() => {}
        }
        let noticed = tokio::time::timeout(std::time::Duration::from_secs(10), noticed.recv());
        assert_eq!(noticed.await.unwrap(), Some(BudgetError::Stopped));
    }
}
