//! Ctrl-C, or the end of the terminal, while tests run: what is under way is stopped, what has not begun is left alone, and all of it is reported.

use std::pin::pin;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Exit;
use super::serve::stop_signal;
use crate::report;

/// Waits for Ctrl-C, for a polite request to end, or for the end of the terminal.
pub(crate) async fn end_signal() {
    if ignores_hangup() {
        return stop_signal().await;
    }
    match signal(SignalKind::hangup()) {
        Ok(mut hangup) => {
            tokio::select! {
                () = stop_signal() => {}
                _ = hangup.recv() => {}
            }
        }
        Err(_) => stop_signal().await,
    }
}

/// Whether the end of the terminal is nothing to this process: `nohup` asks for that. To listen would undo it.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (SignalKind::hangup().as_raw_value() - 1) != 0
}

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
            end_signal().await;
            report::err("\nstopping what is under way; once more to leave at once\n");
            raise.send_replace(true);
            // A terminal that goes away may say so more than once; that is no second wish.
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
