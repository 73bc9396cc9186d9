//! How much an evaluation may do and hold.
//!
//! One [`Budget`] is passed through everything that belongs together: a test that is judged, a trigger that is resolved,
//! an expression that the API tries on many spans. Whatever looks at data that others wrote asks it first.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Steps of one evaluation. A step is about one value looked at, or 64 bytes of text read.
pub const MAX_STEPS: u64 = 100_000_000;
/// Bytes that the values of one evaluation may take at once.
pub const MAX_BYTES: u64 = 128 * 1024 * 1024;
/// Bytes of the values that are kept of one evaluation, in results and outputs: they are stored, and read again.
pub const MAX_KEPT_BYTES: u64 = 24 * 1024 * 1024;

/// What an evaluation may still do and hold.
///
/// Steps are gone for good: once they are used up, everything that follows fails at once. Bytes come back when the
/// value that they were held for is gone.
#[derive(Debug, Clone)]
pub struct Budget {
    steps: Cell<u64>,
    bytes: Cell<u64>,
    max_steps: u64,
    max_bytes: u64,
    has_bad_pattern: Cell<bool>,
    /// Bytes of values that may still be kept.
    keepable: Cell<u64>,
    stop: Stop,
}

/// Ends evaluations from elsewhere, because nobody waits for their values any more.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on, every evaluation with this in its budget fails.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why an evaluation was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// It takes too long.
    #[error(
        "the evaluation takes more than {0} steps; split the test, or write narrower selectors, paths and patterns"
    )]
    Steps(u64),
    /// Its values are too large.
    #[error(
        "the values of the evaluation take more than {0} bytes; read less with narrower selectors and paths"
    )]
    Bytes(u64),
    /// Its results are too large.
    #[error(
        "the results of the evaluation keep more than 25165824 bytes of values; compare smaller values on fewer spans"
    )]
    Kept,
    /// A pattern cannot be compiled.
    #[error(
        "a regular expression is too large once it is compiled, or names a class that Unicode does not have; write a \
         narrower one"
    )]
    Pattern,
    /// Nobody waits for it any more.
    #[error("the evaluation was stopped")]
    Stopped,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MAX_STEPS, MAX_BYTES)
    }
}

impl Budget {
    /// So many steps, and so many bytes at once.
    pub fn new(steps: u64, bytes: u64) -> Self {
        Self {
            steps: Cell::new(steps),
            bytes: Cell::new(bytes),
            max_steps: steps,
            max_bytes: bytes,
            has_bad_pattern: Cell::new(false),
            keepable: Cell::new(MAX_KEPT_BYTES),
            stop: Stop::default(),
        }
    }

    /// The same until `stop` is raised.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// So many steps for something beside this evaluation, which ends when this one is stopped.
    pub(crate) fn beside(&self, steps: u64) -> Self {
        Self::new(steps, 0).until(self.stop.clone())
    }

    /// Whether there are steps left.
    pub(crate) fn check(&self) -> Result<(), Exceeded> {
        if self.stop.is_raised() {
            return Err(Exceeded::Stopped);
        }
        match (self.has_bad_pattern.get(), self.steps.get()) {
            (true, _) => Err(Exceeded::Pattern),
            (false, 0) => Err(Exceeded::Steps(self.max_steps)),
            (false, _) => Ok(()),
        }
    }

    /// Lets everything that follows fail because a pattern cannot be compiled.
    pub(crate) fn refuse_pattern(&self) -> Exceeded {
        self.has_bad_pattern.set(true);
        Exceeded::Pattern
    }

    /// Takes so many steps.
    pub(crate) fn work(&self, steps: usize) -> Result<(), Exceeded> {
        let left = self.steps.get().saturating_sub(steps as u64);
        self.steps.set(left);
        self.check()
    }

    /// Takes the steps that reading so many bytes of text costs.
    pub(crate) fn read(&self, bytes: usize) -> Result<(), Exceeded> {
        self.work(1 + bytes / 64)
    }

    /// Holds so many bytes from now on.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Exceeded> {
        match self.bytes.get().checked_sub(bytes as u64) {
            Some(left) => {
                self.bytes.set(left);
                Ok(())
            }
            None => Err(Exceeded::Bytes(self.max_bytes)),
        }
    }

    /// Holds so many bytes of values from now on, which become part of the results: twice, as values and as texts.
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), Exceeded> {
        let left = self.keepable.get().checked_sub(bytes as u64).ok_or(Exceeded::Kept)?;
        self.keepable.set(left);
        self.hold(2 * bytes)
    }

    /// Holds bytes only while `run` runs: what it builds is gone afterwards.
    pub(crate) fn meanwhile<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = self.bytes.get();
        let result = run();
        self.bytes.set(before);
        result
    }
}
