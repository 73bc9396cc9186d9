//! Developer tasks: `cargo xtask COMMAND`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a developer tool writes to the terminal")]

use std::process::ExitCode;

use anyhow::{Result, bail};
use workspace::Profile;

mod adversary;
mod bench;
mod dogfood;
mod features;
mod fuzz;
mod page;
mod peers;
mod process;
mod rules;
mod steps;
mod suite;
mod temporary;
mod workspace;

const USAGE: &str = "\
cargo xtask COMMAND

  test [--no-peers]      everything: house rules, formatting, lints, tests with real PostgreSQL and real peers
  rules                  the house rules alone: arrows between modules, names, sizes, stray paths
  features               the telemetry crate with each of its features alone, with none and with all
  page                   serve the page for browsers with hot reload, against the server in QUALITYTRACE_SERVER
  screenshots            make the pictures of docs/images with the demo shop
  peers [NAME...]        install real peers (otelcol, postgres, systems, ...) and print where they are
  dogfood                test a server with its own tests, through a real Collector: suites, mutations, ledger
  bench NAME             measure ours beside a real Collector: ingest, overload, startup, judge, api
  conformance [DIR]      run the case files of a folder against the language
  golden [DIR]           replay recorded requests of the original against a fresh server
  transcripts [FILE]     replay recorded command lines of the original with our program
  fuzz SECONDS [NAME...] throw random inputs at every reader, each for so long, with limits on stack and memory
  stress [CLIENTS] [S]   many clients at once on SQLite and PostgreSQL: nothing is lost (default: 200 for 60 s)
  adversary              attack a release build that has little memory: every attack is answered, the server stays
  help                   this text";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["test"] => suite::run(suite::Peers::Required),
        ["test", "--no-peers"] => suite::run(suite::Peers::Skipped),
        ["rules"] => rules::report(),
        ["features"] => features::check(),
        ["page"] => page::serve(),
        ["screenshots"] => page::screenshots(),
        ["peers", names @ ..] => peers::install(names),
        ["dogfood"] => dogfood::run(),
        ["bench", rest @ ..] => bench::run(rest),
        ["conformance", rest @ ..] => run_example("conformance", rest),
        ["golden", rest @ ..] => run_example("golden", rest),
        ["transcripts", rest @ ..] => run_example("transcripts", rest),
        ["fuzz", seconds, names @ ..] => fuzz::run(seconds, names),
        ["stress", rest @ ..] => stress(rest),
        ["adversary"] => adversary::run(),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        other => bail!("`{}` is not a task of this project\n\n{USAGE}", other.join(" ")),
    }
}

fn run_example(name: &str, args: &[&str]) -> Result<()> {
    process::run(workspace::example(name, Profile::Debug)?.args(args))
}

/// Runs the stress program in memory, on a new SQLite file and on a new PostgreSQL server.
fn stress(args: &[&str]) -> Result<()> {
    let memory = "sqlite:file:stress?mode=memory";
    run_example("stress", &[&[memory], args].concat())?;
    let file = std::env::temp_dir().join(format!("qualitytrace-stress-{}.db", std::process::id()));
    let sqlite = format!("sqlite://{}", file.display());
    let outcome = run_example("stress", &[&[sqlite.as_str()], args].concat());
    for ending in ["", "-wal", "-shm"] {
        // Some of the files may not exist.
        let _ = std::fs::remove_file(format!("{}{ending}", file.display()));
    }
    outcome?;
    let postgres = peers::postgres::start()?;
    run_example("stress", &[&[postgres.url.as_str()], args].concat())
}
