//! Runs conformance case files: `conformance [FOLDER]`, by default the project's own copy.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

#[path = "../tests/conformance/suite.rs"]
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).map_or_else(suite::own_cases, PathBuf::from);
    match suite::run(&folder) {
        Ok(summary) => {
            print!("{}", summary.render());
            if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
