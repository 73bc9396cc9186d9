//! Reconnects to a server that is unavailable for a while: the retry deadline, the backoff, and the messages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::terminal;

/// How long to retry while a server is unavailable, by default.
pub(crate) const RECONNECT_TIMEOUT: Duration = Duration::from_mins(1);

/// The first backoff; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest backoff.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The state of the connection to one server. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Contact {
    server: Arc<str>,
    reconnect_timeout: Duration,
    hurry: Arc<watch::Sender<bool>>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the server has ever answered.
    was_made: bool,
    /// Since when it does not answer.
    lost: Option<Instant>,
}

/// The backoff of one request.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Contact {
    pub(super) fn new(server: &str) -> Self {
        Self {
            server: server.into(),
            reconnect_timeout: RECONNECT_TIMEOUT,
            hurry: Arc::new(watch::Sender::new(false)),
            state: Arc::default(),
        }
    }

    pub(super) fn with_reconnect_timeout(self, reconnect_timeout: Duration) -> Self {
        Self { reconnect_timeout, ..self }
    }

    /// Stops waiting for the server, from now on.
    pub(super) fn hurry(&self) {
        self.hurry.send_replace(true);
    }

    /// Whether the server has ever answered.
    pub(super) fn was_made(&self) -> bool {
        self.state().was_made
    }

    /// Notes that the server answered.
    pub(super) fn made(&self) {
        let mut state = self.state();
        state.was_made = true;
        if state.lost.take().is_some() {
            terminal::err(&format!("the server at {} answers again\n", self.server));
        }
    }

    /// Notes that the server did not answer. Returns whether to retry, after the backoff has passed.
    ///
    /// A server that never answered is not waited for: its address is wrong, or it is not running.
    pub(super) async fn lost(&self, pauses: &mut Pauses) -> bool {
        let Some(left) = self.time_left() else { return false };
        let pause = pauses.0.min(left);
        pauses.0 = (pauses.0 * 2).min(LONGEST_PAUSE);
        let mut hurry = self.hurry.subscribe();
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            _ = hurry.wait_for(|is_raised| *is_raised) => false,
        }
    }

    /// How much longer to wait for the server; `None` when the wait is over. The first call prints a message.
    fn time_left(&self) -> Option<Duration> {
        let mut state = self.state();
        if !state.was_made || *self.hurry.borrow() {
            return None;
        }
        if state.lost.is_none() {
            let reconnect_timeout = terminal::duration(self.reconnect_timeout);
            terminal::err(&format!(
                "the server at {} no longer answers; retrying for up to {reconnect_timeout}\n",
                self.server
            ));
        }
        let lost = *state.lost.get_or_insert_with(Instant::now);
        self.reconnect_timeout.checked_sub(lost.elapsed()).filter(|left| !left.is_zero())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
