//! Step and memory budgets of evaluations.
//!
//! One [`Budget`] is passed through everything that belongs together: judging a test, resolving a trigger, an
//! expression that the API evaluates on many spans. Code that processes untrusted data charges it first.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of steps of one evaluation. A step is about one value examined, or 64 bytes of text read.
pub const MAX_STEPS: u64 = 100_000_000;
/// Maximum size of the values that one evaluation holds at once, in bytes.
pub const MAX_BYTES: u64 = 128 * 1024 * 1024;
/// Maximum size of the values that one evaluation keeps in results and outputs, in bytes: they are stored and read
/// again.
pub const MAX_KEPT_BYTES: u64 = 24 * 1024 * 1024;

/// The remaining budget of an evaluation.
///
/// Steps are never returned: once they are used up, all further work fails at once. Bytes are returned when the
/// value that they were held for is dropped.
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

/// Stops evaluations from another thread when their results are no longer needed.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Stops every evaluation with this in its budget.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why an evaluation was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// It takes too many steps.
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
    /// It was stopped because its result is no longer needed.
    #[error("the evaluation was stopped")]
    Stopped,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MAX_STEPS, MAX_BYTES)
    }
}

impl Budget {
    /// A budget of this many steps, and this many bytes at once.
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

    /// Adds a stop signal.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// A separate budget of this many steps, which ends when this one is stopped.
    pub(crate) fn beside(&self, steps: u64) -> Self {
        Self::new(steps, 0).until(self.stop.clone())
    }

    /// Fails when no steps are left or the evaluation was stopped.
    pub(crate) fn check(&self) -> Result<(), BudgetError> {
        if self.stop.is_raised() {
            return Err(BudgetError::Stopped);
        }
        match (self.has_bad_pattern.get(), self.steps.get()) {
            (true, _) => Err(BudgetError::Pattern),
            (false, 0) => Err(BudgetError::Steps(self.max_steps)),
            (false, _) => Ok(()),
        }
    }

    /// Makes all further work fail because a pattern cannot be compiled.
    pub(crate) fn refuse_pattern(&self) -> BudgetError {
        self.has_bad_pattern.set(true);
        BudgetError::Pattern
    }

    /// Charges this many steps.
    pub(crate) fn work(&self, steps: usize) -> Result<(), BudgetError> {
        let left = self.steps.get().saturating_sub(steps as u64);
        self.steps.set(left);
        self.check()
    }

    /// Charges the steps for reading this many bytes of text.
    pub(crate) fn read(&self, bytes: usize) -> Result<(), BudgetError> {
        self.work(1 + bytes / 64)
    }

    /// Holds this many bytes from now on.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), BudgetError> {
        match self.bytes.get().checked_sub(bytes as u64) {
            Some(left) => {
                self.bytes.set(left);
                Ok(())
            }
            None => Err(BudgetError::Bytes(self.max_bytes)),
        }
    }

    /// Holds this many bytes of values that become part of the results: twice, as values and as texts.
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), BudgetError> {
        let left = self.keepable.get().checked_sub(bytes as u64).ok_or(BudgetError::Kept)?;
        self.keepable.set(left);
        self.hold(2 * bytes)
    }

    /// Holds bytes only while `run` runs: the values that it builds are dropped afterwards.
    pub(crate) fn meanwhile<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = self.bytes.get();
        let result = run();
        self.bytes.set(before);
        result
    }
}
