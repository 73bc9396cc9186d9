//! Tests of the core through its public interface.

#![expect(clippy::disallowed_methods, reason = "tests read their cases from files")]

mod analyzer;
mod deep;
mod definition;
mod docs;
mod near;
mod properties;
mod reference;
mod standing;
mod triggers;
mod wait;
