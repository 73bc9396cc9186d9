//! Integration tests of the server: real sockets, real databases.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skips"
)]

mod access;
mod adversary;
mod all_runs;
mod api;
mod browser;
mod codings;
mod columns;
mod compare;
mod conformance;
mod data_stores;
mod database_errors;
mod database_outage;
mod databases;
mod description;
mod edits;
mod expansion;
mod export_import;
mod golden;
mod hostile_texts;
mod language;
mod malformed;
mod memory;
mod odd_clients;
mod origin;
mod otlp;
mod owed;
mod page;
mod parameters;
mod prompt;
mod queue;
mod register;
mod removal;
mod requests;
mod runs;
mod safety;
mod secrets;
mod stopping;
mod store;
mod stored_by_older_versions;
mod stress;
mod suites;
mod trace_files;
mod trace_formats;
mod triggers;

/// An HTTP client whose requests, event streams included, end with the deadline of every wait.
fn client() -> reqwest::Client {
    reqwest::Client::builder().timeout(qualitytrace_testing::DEADLINE).build().unwrap()
}
