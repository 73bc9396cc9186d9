//! Where a thread stands: inside our own delivery, where nothing is recorded, or anywhere else.

use std::{
    cell::Cell,
    pin::Pin,
    task::{Context, Poll},
};

thread_local! {
    static SUPPRESSED: Cell<bool> = const { Cell::new(false) };
}

/// This thread never records anything.
pub(crate) fn suppress_thread() {
    SUPPRESSED.set(true);
}

pub(crate) fn suppressed() -> bool {
    SUPPRESSED.get()
}

/// Runs a function whose spans and events are not recorded.
pub fn without_telemetry<T>(run: impl FnOnce() -> T) -> T {
    let before = SUPPRESSED.replace(true);
    let result = run();
    SUPPRESSED.set(before);
    result
}

/// A future whose spans and events are not recorded; for requests that carry telemetry themselves.
pub struct Suppressed<F>(Pin<Box<F>>);

impl<F> std::fmt::Debug for Suppressed<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Suppressed")
    }
}

impl<F: Future> Suppressed<F> {
    /// Wraps a future.
    pub fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Suppressed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        without_telemetry(|| self.0.as_mut().poll(cx))
    }
}
