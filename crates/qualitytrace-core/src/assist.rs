//! Help while writing: completion, colouring and diagnostics of texts, descriptions of spans, and drafts of tests.
//!
//! Everything is a pure function over a text, a place in it and a trace, for the command line, editors and pages
//! alike. Places are byte offsets. What is offered is bounded, whatever the text or the trace holds.

mod check;
mod complete;
mod conventions;
pub mod definition;
mod describe;
mod draft;
mod facts;
mod offers;
mod standing;

pub use check::{Checked, check};
pub use complete::{Completion, Context, complete};
pub use conventions::meaning;
pub use describe::{Description, Proposal, ValueType, Wider, describe};
pub use draft::draft;
pub use offers::CompletionKind;
