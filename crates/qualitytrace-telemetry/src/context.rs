//! Suppression of telemetry: threads and futures whose spans and events are not recorded, such as our own delivery.

use std::{
    cell::Cell,
    pin::Pin,
    task::{Context, Poll},
};

thread_local! {
    static SUPPRESSED: Cell<bool> = const { Cell::new(false) };
}

/// Suppresses recording on this thread for good.
pub(crate) fn suppress_thread() {
    SUPPRESSED.set(true);
}

pub(crate) fn suppressed() -> bool {
    SUPPRESSED.get()
}

/// Restores the thread's state on drop, also after a panic: a worker that stays suppressed would record nothing any
/// more.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        SUPPRESSED.set(self.0);
    }
}

fn within<T>(suppressed: bool, run: impl FnOnce() -> T) -> T {
    let _restore = Restore(SUPPRESSED.replace(suppressed));
    run()
}

/// Runs a function without recording its spans and events.
pub fn without_telemetry<T>(run: impl FnOnce() -> T) -> T {
    within(true, run)
}

/// A future whose spans and events are not recorded, those of its drop included; for requests that carry telemetry.
pub struct Suppressed<F>(Option<Pin<Box<F>>>);

impl<F> std::fmt::Debug for Suppressed<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Suppressed")
    }
}

impl<F: Future> Suppressed<F> {
    /// Wraps a future.
    pub fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F> Drop for Suppressed<F> {
    fn drop(&mut self) {
        without_telemetry(|| drop(self.0.take()));
    }
}

impl<F: Future> Future for Suppressed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        without_telemetry(|| match &mut self.0 {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Pending,
        })
    }
}

/// A future whose spans and events are recorded although it runs inside a [`Suppressed`] one: the handler of a request
/// on a connection that is not recorded itself.
pub struct Recorded<F>(Pin<Box<F>>);

impl<F> std::fmt::Debug for Recorded<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorded")
    }
}

impl<F: Future> Recorded<F> {
    /// Wraps a future.
    pub fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Recorded<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        within(false, || self.0.as_mut().poll(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::{Suppressed, suppressed, within, without_telemetry};

    #[test]
    fn what_a_suppressed_future_says_at_its_end_is_not_recorded() {
        struct DropProbe;
        impl Drop for DropProbe {
            fn drop(&mut self) {
                assert!(suppressed());
            }
        }
        let end = DropProbe;
        drop(Suppressed::new(async move { drop(end) }));
        assert!(!suppressed());
    }

    #[test]
    fn a_panic_leaves_the_thread_as_it_was() {
        let panicked = std::panic::catch_unwind(|| without_telemetry(|| panic!("as it happens")));
        assert!(panicked.is_err() && !suppressed());
        without_telemetry(|| {
            assert!(suppressed() && within(false, || !suppressed()) && suppressed());
        });
    }
}
