//! Replays recorded command lines: `transcripts [FILE]`, by default the project's own copy.
#![expect(clippy::print_stdout, reason = "a program for the terminal")]
#![expect(clippy::unwrap_used, reason = "it fails by panicking")]

#[path = "../tests/late_spans_load/program.rs"]
#[expect(dead_code, reason = "measurements use the rest")]
mod program;
#[path = "../tests/transcripts/replay.rs"]
mod replay;

use std::path::PathBuf;
use std::process::ExitCode;

use program::Served;

#[tokio::main]
async fn main() -> ExitCode {
    // Fails when a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let recordings = std::env::args().nth(1).map_or_else(replay::own_recordings, PathBuf::from);
    let summary = replay::run(&program::beside(), &recordings).await;
    print!("{}", summary.render());
    if summary.different.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
