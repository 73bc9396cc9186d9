//! Interrupts (Ctrl-C, SIGTERM, hangup) during a run: running tests are stopped, the rest is skipped, and all are
//! reported.

use std::pin::pin;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::system_under_test;
use crate::cli::Exit;
use crate::cli::serve::stop_signal;
use crate::terminal;

/// Waits for Ctrl-C, SIGTERM or the end of the terminal.
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

/// Whether this process ignores SIGHUP, as `nohup` makes it do. Listening would undo that.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (SignalKind::hangup().as_raw_value() - 1) != 0
}

/// Tells whether the user interrupted the command.
#[derive(Debug)]
pub(crate) struct Interrupt {
    raised: watch::Receiver<bool>,
    listener: JoinHandle<()>,
}

impl Interrupt {
    /// Starts listening. A second interrupt exits at once.
    pub(crate) fn listen() -> Self {
        let (raise, raised) = watch::channel(false);
        let listener = tokio::spawn(async move {
            end_signal().await;
            // The terminal has echoed Ctrl-C on the line of the cursor, which may be one that is erased.
            let end = if terminal::is_live() { "" } else { "\n" };
            terminal::err(&format!("{end}stopping the runs in progress; interrupt again to exit at once\n"));
            raise.send_replace(true);
            // A closing terminal may send SIGHUP more than once, so that does not count as a second interrupt.
            stop_signal().await;
            system_under_test::kill_all();
            terminal::redraw(&[]);
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
            // The listener has ended, so there will be no interrupt.
            std::future::pending::<()>().await;
        }
    }

    /// Awaits `end`; on an interrupt, calls `stop` first.
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
