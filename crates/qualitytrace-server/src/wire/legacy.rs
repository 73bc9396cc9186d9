//! JSON shapes and reports that only Tracetest's own clients read.

pub mod connection;
mod junit;
mod run_events;

pub use junit::junit;
pub use run_events::{RunEvent, catalogue};
