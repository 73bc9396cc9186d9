//! Integration tests of the program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod answers;
mod audit;
mod beside;
mod cluster;
mod command_line_attacks;
mod config;
mod config_check;
mod configure;
mod contact;
mod data_stores;
mod declarative;
mod demo;
mod deploy;
mod drafts;
#[cfg(target_os = "linux")]
mod durability;
mod embedded_server;
mod escapes;
mod evidence;
mod failure_text;
mod feedback;
mod files;
mod first_test;
mod folder;
mod full_disk;
mod full_queue;
mod guard;
mod hostile;
mod interrupt;
mod kill;
mod late;
#[path = "../late_spans_load/load.rs"]
#[expect(dead_code, reason = "measurements use the rest")]
mod late_spans_load;
mod learned;
mod legacy;
mod operating;
mod page;
mod power;
#[cfg(unix)]
mod privacy;
mod project;
mod provision;
mod reload;
mod report_formats;
mod report_texts;
mod reports;
mod resources;
mod run_server;
mod run_spans;
mod secrecy;
mod selecting;
mod spool;
mod stores;
mod strangers;
mod suites;
mod systems;
mod tools;
mod transcripts;
mod unverified;
mod uploads;
mod usage;
mod waiting;
mod watch;

/// An HTTP client whose requests, event streams included, end with the deadline of every wait.
fn client() -> reqwest::Client {
    // Fails when a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().timeout(qualitytrace_testing::DEADLINE).build().unwrap()
}

/// The program under test.
fn program() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_BIN_EXE_qualitytrace"))
}

/// Writes a certificate that nobody has signed, and its key, into a folder.
fn certificate(folder: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}
