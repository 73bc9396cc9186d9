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
    let formats = error.get(ContextKind::ValidValue).map(ToString::to_string);
    let has_usual_formats = formats.is_none_or(|formats| formats == "pretty, json, yaml");
    match (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue)) {
        (Some(argument), Some(value))
            if argument.to_string().starts_with("--output") && has_usual_formats =>
        {
            // Clients depend on this sentence.
            terminal::err(&format!(
                "Invalid output format {value}. Available formats are [pretty|json|yaml]\n"
            ));
        }
        _ => terminal::err(&adopted(&error.render().ansi().to_string())),
    }
    if let Some(tip) = tip(error) {
        terminal::err(&format!("{}: {tip}\n", terminal::style::strong("tip")));
    }
    cli::Exit::Error
}

/// What a command or flag that does not exist was probably meant to be: other programs have it under this name, or it is
/// mistyped.
fn tip(error: &clap::Error) -> Option<String> {
    let of = |kind| error.get(kind).map(ToString::to_string);
    let is_quiet = of(ContextKind::InvalidArg).is_some_and(|flag| flag.starts_with("--quiet"));
    if is_quiet && error.get(ContextKind::InvalidValue).is_some() {
        return Some(
            "`-q` shows only what did not pass; `--quiet` is how long a wait lasts, like 150ms".to_owned(),
        );
    }
    let command = of(ContextKind::InvalidSubcommand);
    let word = command.clone().or_else(|| of(ContextKind::InvalidArg))?;
    let known = known_elsewhere(word.split(['=', ' ']).next().unwrap_or_default()).map(str::to_owned);
    known.or_else(|| {
        // clap compares letters by their places, and so misses two that are swapped in a short word.
        let unknown = command.filter(|_| error.get(ContextKind::SuggestedSubcommand).is_none())?;
        let near = cli::nearest_command(&unknown)?;
        Some(format!("did you mean `qualitytrace {near}`?"))
    })
}

/// What other programs call something that this one has under another name.
fn known_elsewhere(word: &str) -> Option<&'static str> {
    Some(match word {
        "init" | "create" => "`qualitytrace new URL` writes a first test",
        "test" | "exec" => "`qualitytrace run tests/` runs tests",
        "validate" | "lint" => "`qualitytrace check tests/` checks files",
        "--workers" | "--jobs" => "`--parallel N` says how many tests run at once",
        "-k" | "--filter" => "`--grep REGEX` and `--tag NAME` select tests",
        "--dry-run" => "`--list` shows what would be run; `check` reads files without running them",
        _ => return None,
    })
}
