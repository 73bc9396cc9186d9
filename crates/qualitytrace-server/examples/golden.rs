//! Replays recordings: `golden [FOLDER] [--reasons] [--differences]`, by default the project's own copy.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

#[path = "../tests/replay/suite.rs"]
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let (options, folders): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let folder = folders.first().map_or_else(suite::own_recordings, PathBuf::from);
    match suite::run(&folder).await {
        Ok(summary) => {
            if options.iter().any(|option| option == "--differences") {
                print!("{}", summary.deliberate());
            }
            print!("{}", summary.render());
            if options.iter().any(|option| option == "--reasons") {
                print!("\nentries  reason\n{}", summary.reasons());
            }
            if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
