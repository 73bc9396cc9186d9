//! Tests of the core through its public interface.

#![expect(clippy::disallowed_methods, reason = "tests read their cases from files")]

#[path = "../../../qualitytrace-server/tests/conformance/language.rs"]
mod language;

mod analyzer;
mod cases;
mod definition;
mod docs;
mod near;
mod properties;
mod reference;
mod standing;
mod triggers;
mod wait;
