//! Threads for what computes: requests to the API, and runs.
//!
//! Definitions, selectors, expressions and traces take as much time as their authors want, within their budgets. The threads
//! that serve sockets take in spans and say that the server is alive; they do none of this. Whatever is computed ends when
//! nobody waits for it any more: its [`budget`] knows.

use std::sync::LazyLock;

use qualitytrace_core::lang::{Budget, Stop};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{AbortHandle, JoinError};

/// Threads of a pool at the least, however few processors there are: one long evaluation must not keep the next request from
/// being looked at.
const MIN_THREADS: usize = 4;

tokio::task_local! {
    static STOP: Stop;
}

/// The threads for one kind of work. They live as long as the program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pool {
    /// Requests to the API.
    Requests,
    /// Runs of tests and suites.
    Runs,
}

impl Pool {
    /// Where to spawn. Without threads of its own, the work is done by those that serve sockets.
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

/// Does this on the threads for requests, until it is done or the future that is returned is dropped.
pub(crate) async fn run<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    let stop = Stop::default();
    let task = Pool::Requests.handle().spawn(STOP.scope(stop.clone(), work));
    let _ended = EndOnDrop { task: task.abort_handle(), stop };
    task.await
}

/// The same, but sees it through even if nobody waits for it any more.
pub(crate) async fn see_through<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    Pool::Requests.handle().spawn(work).await
}

/// Does this with budgets that end when `stop` is raised.
pub(crate) async fn until<T>(stop: Stop, work: impl Future<Output = T>) -> T {
    STOP.scope(stop, work).await
}

/// Lets tasks go first that the current one has woken. A thread keeps the last of them to itself, so that it would wait until
/// everything is computed: the one that gives a connection back to the store, for example.
pub(crate) async fn give_way() {
    tokio::task::yield_now().await;
}

/// What an evaluation on behalf of the current task may do and hold.
pub(crate) fn budget() -> Budget {
    Budget::default().until(STOP.try_with(Stop::clone).unwrap_or_default())
}

/// Goes no further when the current task was stopped: what it computed since then is of no use. The task is ended by whoever
/// stopped it.
pub(crate) async fn wait_if_stopped() {
    if STOP.try_with(Stop::is_raised).unwrap_or_default() {
        std::future::pending::<()>().await;
    }
}

/// A task that computes would not notice that it is aborted before it has computed everything.
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
    use qualitytrace_core::lang::{Exceeded, parse_selector, select};
    use qualitytrace_core::trace::Trace;

    #[tokio::test]
    async fn what_nobody_waits_for_ends() {
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
        assert_eq!(noticed.await.unwrap(), Some(Exceeded::Stopped));
    }
}
