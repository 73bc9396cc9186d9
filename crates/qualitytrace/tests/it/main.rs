//! The program from outside.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod config;
mod demo;
mod kill;
mod program;
mod resources;
mod suites;
mod usage;
