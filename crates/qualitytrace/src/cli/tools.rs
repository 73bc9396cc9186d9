//! Tools around tests: layout, schema and explanations of definition files, expressions and selectors on a trace,
//! traces without a test, runs at every change, the health of a set-up, and the language server for editors.

mod doctor;
mod eval;
mod explain;
mod fmt;
mod local;
mod lsp;
mod ready;
mod schema;
mod select;
mod subject;
mod trace;
mod watch;

use clap::Subcommand;

use super::Exit;
use super::target::Target;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring definition files into the canonical layout; comments stay
    Fmt(fmt::Options),
    /// Print the JSON Schema of definition files
    Schema(schema::Options),
    /// Explain a diagnostic code, with an example
    Explain(explain::Options),
    /// Evaluate an expression on a trace
    Eval(Box<eval::Options>),
    /// Show which spans of a trace a selector selects
    Select(Box<select::Options>),
    /// List, show, export, import and follow traces, without a test
    #[command(subcommand)]
    Trace(Box<trace::Command>),
    /// Run tests again whenever one of their files changes
    Watch(watch::Options),
    /// Check ports, settings of exporters, a span end to end, the clock and the server
    Doctor(doctor::Options),
    /// Ask a server whether it is ready, for health checks of containers
    Ready(ready::Options),
    /// The language server for editors, over standard input and output
    Lsp(lsp::Options),
}

impl Command {
    /// Whether flags about the server may stand before the command.
    pub(crate) fn takes_flags(&self) -> bool {
        match self {
            Self::Fmt(_) | Self::Schema(_) | Self::Explain(_) | Self::Watch(_) => false,
            Self::Eval(_)
            | Self::Select(_)
            | Self::Trace(_)
            | Self::Doctor(_)
            | Self::Ready(_)
            | Self::Lsp(_) => true,
        }
    }
}

/// Runs a tool.
pub(crate) async fn run(command: Command, before: Target) -> anyhow::Result<Exit> {
    match command {
        Command::Fmt(options) => fmt::fmt(&options),
        Command::Schema(options) => schema::schema(&options),
        Command::Explain(options) => explain::explain(&options),
        Command::Eval(options) => eval::eval(*options, before).await,
        Command::Select(options) => select::select(*options, before).await,
        Command::Trace(command) => trace::trace(*command, before).await,
        Command::Watch(options) => watch::watch(&options).await,
        Command::Doctor(options) => doctor::doctor(options, before).await,
        Command::Ready(options) => ready::ready(options, before).await,
        Command::Lsp(options) => lsp::lsp(options, before).await,
    }
}
