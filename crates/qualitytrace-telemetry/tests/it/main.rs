//! Integration tests with files, collectors and disks.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get must fail it")]
#![expect(clippy::print_stdout, reason = "skipped tests and figures are printed")]

mod basics;
mod collector;
mod config;
mod conservation;
mod example;
mod global;
mod kill;
mod limits;
mod orphans;
mod outage;
mod precedence;
mod prometheus;
mod propagation;
mod receiver;
mod reconnect;
mod reload;
mod signals;
mod spool;
mod targets;
mod temporality;
#[cfg(feature = "tower")]
mod tower;
mod variables;
mod views;
mod words;
