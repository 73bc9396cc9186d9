//! Spans, and the tree that they form.
//!
//! Spans arrive in any order, twice, or not at all. [`Trace::assemble`] builds the same tree for the same set of
//! spans in any order; no span that arrived is lost, and irregularities are noted.

pub mod parents;
pub mod search;
mod span;
pub mod special;
pub mod stored;
mod tree;

pub(crate) use parents::{is_far_side, shared_id};
pub use span::{Attributes, Dropped, Event, Link, Resource, Scope, Span, SpanKind, Status, StatusCode};
pub use tree::{Note, Trace};
