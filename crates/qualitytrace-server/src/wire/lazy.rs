//! Lists that are made while they are written: the text of a trace is many times larger than the trace.

use serde::{Serialize, Serializer};

/// A list of what the function goes through.
pub(super) struct Lazy<F>(pub(super) F);

impl<I, F> Serialize for Lazy<F>
where
    I: Iterator<Item: Serialize>,
    F: Fn() -> I,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}
