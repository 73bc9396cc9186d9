//! Trace-based testing in one binary.

mod cli;
mod client;
mod demo;
mod report;

use std::process::ExitCode;

use anstream::eprintln;
use clap::Parser;
use clap::error::ErrorKind;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match cli::Arguments::try_parse() {
        Ok(arguments) => arguments,
        // The parser's own exit code for a mistyped command is the one that means "a test did not pass".
        Err(error) => {
            let _ = error.print();
            let is_help =
                !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            return if is_help { cli::Exit::Passed } else { cli::Exit::Error }.into();
        }
    };
    match cli::run(arguments).await {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("{}: {error:#}", report::style::error("error"));
            cli::Exit::Error.into()
        }
    }
}
