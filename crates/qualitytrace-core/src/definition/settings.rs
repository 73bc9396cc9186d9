//! The settings that a server has one of: polling profile, test runner, config; also demos.
//!
//! Each is one module: its type, its reader and its JSON.

pub(super) mod config;
pub(super) mod demo;
pub(super) mod polling_profile;
pub(super) mod test_runner;

pub use super::period::{Period, parse_duration};
pub use config::Config;
pub use demo::{Demo, OpentelemetryStore, Pokeshop};
pub use polling_profile::{PollingProfile, Strategy};
pub use test_runner::TestRunner;
