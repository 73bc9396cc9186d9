//! Lists that are built while they are serialized: the JSON of a trace is many times larger than the trace.

use serde::{Serialize, Serializer};

/// A list of the items of an iterator.
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
