//! Trace-based testing in one binary.

mod cli;
mod client;
mod demo;
mod report;

use std::process::ExitCode;

use anstream::eprintln;
use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    match cli::run(cli::Arguments::parse()).await {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("{}: {error:#}", report::style::error("error"));
            cli::Exit::Error.into()
        }
    }
}
