//! Ctrl-C while tests run: what is under way is stopped, what has not begun is left alone, and all of it is reported.

use std::pin::pin;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Exit;
use super::serve::stop_signal;
use crate::report;

/// Tells when the user does not want to wait any longer.
#[derive(Debug)]
pub(crate) struct Interrupt {
    raised: watch::Receiver<bool>,
    listener: JoinHandle<()>,
}

impl Interrupt {
    /// Listens from now on. Whoever asks twice leaves at once.
    pub(crate) fn listen() -> Self {
        let (raise, raised) = watch::channel(false);
        let listener = tokio::spawn(async move {
            stop_signal().await;
            report::err("\nstopping what is under way; once more to leave at once\n");
            raise.send_replace(true);
            stop_signal().await;
            std::process::exit(Exit::Interrupted.code().into());
        });
        Self { raised, listener }
    }

    /// Whether nothing new should begin.
    pub(crate) fn is_raised(&self) -> bool {
        *self.raised.borrow()
    }

    /// Waits until nothing new should begin.
    pub(crate) async fn raised(&self) {
        if self.raised.clone().wait_for(|is_raised| *is_raised).await.is_err() {
            // Nobody listens any more, so that nobody can be heard.
            std::future::pending::<()>().await;
        }
    }

    /// Follows something to its end, and asks it to stop when the user does not want to wait for that.
    pub(super) async fn follow<T>(
        &self,
        end: impl Future<Output = anyhow::Result<T>>,
        stop: impl AsyncFnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<T> {
        let mut end = pin!(end);
        tokio::select! {
            ended = &mut end => return ended,
            () = self.raised() => {}
        }
        stop().await?;
        end.await
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.listener.abort();
    }
}
