//! The command line: commands, options and exit codes.

mod check;
mod completion;
mod config;
mod configure;
mod dashboard;
mod data_store;
mod database;
mod demo;
mod environment;
mod examples;
mod files;
mod help;
mod hosted;
mod man;
mod merge;
mod new;
mod own_token;
mod project;
mod reload;
mod resource;
mod run;
mod secrets;
mod serve;
mod settings;
mod target;
mod telemetry;
mod tools;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::bail;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub(crate) use self::completion::answer_shell;
use self::project::Project;
use crate::terminal;

/// Trace-based testing in one binary: triggers a request, collects the trace that it causes, judges it.
#[derive(Debug, Parser)]
#[command(name = "qualitytrace", version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 all passed (including tests that passed after a retry), 1 the command failed, 2 a test did not pass or damage was found, 3 a definition file is missing or invalid, 4 inconclusive: missing spans could change a verdict, 130 interrupted."
)]
pub(crate) struct Arguments {
    /// Flags of the commands that talk to a server may stand before the command too.
    #[command(flatten)]
    target: target::Target,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: REST API on 11633, OTLP on 4317 (gRPC) and 4318 (HTTP)
    Serve(serve::Options),
    /// Run tests and report
    Run(Box<run::Options>),
    /// Work with the reports of runs
    Report(merge::Options),
    /// Check definition files without running anything
    Check(check::Options),
    /// Make a first test of an address, a curl command, a file of another tool, or a trace
    New(new::Options),
    #[command(flatten)]
    Tool(tools::Command),
    #[command(flatten)]
    Resource(resource::Command),
    /// Test the connection to a data store, or print a Collector configuration that feeds it
    #[command(name = "datastore")]
    DataStore(data_store::Options),
    /// See it work: a shop with real traces, a test suite for it, and bugs to catch
    Demo(demo::Options),
    /// Check and show the settings of the server, and where each comes from
    Config(config::Options),
    /// Check, show and test the sinks of the server's own telemetry
    Telemetry(telemetry::Options),
    /// Write the whole database into one file, while servers work on it
    Backup(database::BackupOptions),
    /// Put a backup into a database that no server works on
    Restore(database::RestoreOptions),
    /// Look for damage in the database or in a backup; changes nothing
    Verify(database::VerifyOptions),
    /// Change the key that encrypts secrets, or continue without a lost one
    Secrets(secrets::Options),
    /// Store the address of the server for later commands
    Configure(configure::Options),
    /// Print the version of this program and, where it can be asked, of the server
    Version(target::Target),
    /// Open the page of the server in a browser: its tests, a test, a run, or a trace
    Open(dashboard::Options),
    /// Open the page of the server in a browser
    Dashboard(target::Target),
    /// Print the completion script of a shell
    Completion(completion::Options),
    /// Write the manual pages
    Man(man::Options),
    /// Tracetest's installer; says how to start a server
    Server(hosted::ServerOptions),
    /// Of Tracetest's hosted service
    #[command(hide = true)]
    Wait(hosted::WaitOptions),
    /// Of Tracetest's hosted service
    #[command(hide = true)]
    Start(hosted::StartOptions),
}

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything passed.
    Passed,
    /// The command failed.
    Error,
    /// A test did not pass.
    NotPassed,
    /// A definition file is missing or invalid.
    Definition,
    /// No test failed, but missing spans could change a verdict.
    Inconclusive,
    /// The user interrupted it.
    Interrupted,
}

impl Exit {
    const fn code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Error => 1,
            Self::NotPassed => 2,
            Self::Definition => 3,
            Self::Inconclusive => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Arguments {
    /// The table of commands in groups, with the variables of their flags and with examples.
    pub(crate) fn table() -> clap::Command {
        help::with_groups(examples::with_examples(environment::with_variables(Self::command())))
    }

    /// Parses the command line, in its current form or in an old one of Tracetest.
    pub(crate) fn of_process() -> anyhow::Result<Self> {
        let given: Vec<OsString> = std::env::args_os().collect();
        let texts: Option<Vec<String>> =
            given.iter().skip(1).map(|argument| argument.to_str().map(ToOwned::to_owned)).collect();
        match texts.and_then(|texts| run::legacy::deprecated::current(&texts)) {
            Some((current, note)) => {
                terminal::err(&note);
                let name = given.into_iter().take(1);
                Self::parsed(name.chain(current.into_iter().map(Into::into)))
            }
            None => Self::parsed(given.into_iter()),
        }
    }

    /// Parses arguments. Those of `run` are completed by the project file.
    fn parsed(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<Self> {
        let arguments: Vec<OsString> = arguments.collect();
        let mut command = Self::table();
        let given = command.try_get_matches_from_mut(&arguments)?;
        let run = given.subcommand_matches("run");
        let Some((project, run)) = run.map(Project::of).transpose()?.flatten().zip(run) else {
            return Ok(Self::from_arg_matches(&given).map_err(|error| error.format(&mut command))?);
        };
        let mut command = project.apply(Self::table(), &given, run);
        let completed = command.try_get_matches_from_mut(&arguments)?;
        let mut parsed = Self::from_arg_matches(&completed).map_err(|error| error.format(&mut command))?;
        if let (Command::Run(options), Some(run)) = (&mut parsed.command, completed.subcommand_matches("run"))
        {
            options.take_project(project, run);
        }
        Ok(parsed)
    }
}

/// The command that a mistyped one was probably meant to be.
pub(crate) fn nearest_command(mistyped: &str) -> Option<String> {
    let table = Arguments::table();
    let shown = table.get_subcommands().filter(|command| !command.is_hide_set());
    qualitytrace_config::nearest(mistyped, shown.map(clap::Command::get_name)).map(str::to_owned)
}

/// The exit code for an error.
pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    if error.is::<files::DefinitionFilesError>() { Exit::Definition } else { Exit::Error }
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let before = arguments.target;
    let takes_flags = match arguments.command {
        Command::Resource(_)
        | Command::DataStore(_)
        | Command::Configure(_)
        | Command::Version(_)
        | Command::Open(_)
        | Command::Dashboard(_)
        | Command::New(_)
        | Command::Run(_) => true,
        Command::Tool(ref tool) if tool.takes_flags() => true,
        _ => before.is_empty(),
    };
    if !takes_flags {
        bail!("put --config, --server-url, --token and --output after the name of this command");
    }
    match arguments.command {
        Command::Serve(options) => serve::serve(options).await,
        Command::Run(options) => Box::pin(run::run(options.on(before))).await,
        Command::Resource(command) => resource::run(command, before).await,
        Command::DataStore(options) => data_store::data_store(options, before).await,
        Command::New(options) => new::new(options, before).await,
        Command::Report(options) => merge::report(&options),
        Command::Check(options) => check::check(&options),
        Command::Tool(tool) => Box::pin(tools::run(tool, before)).await,
        Command::Demo(options) => demo::demo(options).await,
        Command::Config(options) => config::config(options),
        Command::Telemetry(options) => telemetry::telemetry(options).await,
        Command::Backup(options) => database::backup(options).await,
        Command::Restore(options) => database::restore(options).await,
        Command::Verify(options) => database::verify(options).await,
        Command::Secrets(options) => secrets::secrets(options).await,
        Command::Configure(options) => configure::configure(options, before).await,
        Command::Version(target) => configure::version(target.or(before)).await,
        Command::Open(options) => dashboard::open(options, before).await,
        Command::Dashboard(target) => dashboard::dashboard(target.or(before)).await,
        Command::Completion(options) => completion::completion(&options),
        Command::Man(options) => man::man(&options),
        Command::Server(options) => Ok(hosted::server(&options)),
        Command::Wait(options) => hosted::wait(&options),
        Command::Start(options) => hosted::start(&options),
    }
}
