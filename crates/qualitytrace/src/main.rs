//! Trace-based testing in one binary.

mod cli;
mod client;
mod demo;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod malloc;
mod page;
mod report;
mod terminal;

use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use terminal::filter::adopted;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    malloc::configure();
    cli::answer_shell();
    run()
}

#[tokio::main]
async fn run() -> ExitCode {
    let done = match cli::Arguments::of_process() {
        Ok(arguments) => cli::run(arguments).await,
        // clap's exit code for a mistyped command is 2, which here means "a test did not pass".
        Err(error) => error.downcast().map(|error: clap::Error| explain(&error)),
    };
    let done = match (done, terminal::lost()) {
        (Ok(cli::Exit::Passed), Some(lost)) => Err(anyhow::anyhow!("failed to write the output: {lost}")),
        (done, _) => done,
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            terminal::err(&format!("{}: {error:#}\n", terminal::style::error("error")));
            cli::exit_of(&error).into()
        }
    }
}

/// Prints argument errors; requested help goes to standard output.
fn explain(error: &clap::Error) -> cli::Exit {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        terminal::out(&adopted(&error.render().ansi().to_string()));
        return cli::Exit::Passed;
    }
    match (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue)) {
        (Some(argument), Some(value)) if argument.to_string().starts_with("--output") => {
            // Clients depend on this sentence.
            terminal::err(&format!(
                "Invalid output format {value}. Available formats are [pretty|json|yaml]\n"
            ));
        }
        _ => terminal::err(&adopted(&error.render().ansi().to_string())),
    }
    cli::Exit::Error
}
