//! The program from outside.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod busy;
mod cluster;
mod config;
mod configure;
mod contact;
mod demo;
mod files;
mod full;
mod guard;
mod interrupt;
mod kill;
mod late;
mod learned;
#[cfg(unix)]
mod privacy;
mod provision;
mod reload;
mod reports;
mod resources;
#[path = "../rough/load.rs"]
#[expect(dead_code, reason = "measurements use the rest")]
mod rough;
mod startable;
mod suites;
mod uploads;
mod usage;
mod waiting;
mod watch;

/// The program under test.
fn program() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_BIN_EXE_qualitytrace"))
}
