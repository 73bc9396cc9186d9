//! JSON shapes: of the store, the API and the command line.
//!
//! The core promises no wire shape; these types do. Renaming a field here changes a protocol.

pub mod assist;
pub mod columns;
pub mod comparison;
pub mod diagnostic;
pub mod event;
pub mod fold;
pub mod jaeger;
mod lazy;
pub mod legacy;
pub mod methods;
pub mod omitted;
pub mod otlp;
pub mod owed;
pub mod request;
pub mod run;
pub mod sent;
pub mod series;
pub mod span;
pub mod suite;
pub mod summary;
pub mod time;
pub mod trace;
pub mod utf16;
pub mod verdict;

pub use event::{Event, RunEventKind};
pub use omitted::Omitted;
pub use trace::{Span, Trace};
pub use verdict::{Outcome, Verdict};
