//! Commands of Tracetest that belong to its hosted service or to its installer, and what to do instead.

use anyhow::bail;
use clap::{Args, Subcommand};

use super::Exit;
use crate::terminal;

/// What `server install` prints.
const INSTALL: &str = "There is nothing to install: this program is the server.

  Start it               qualitytrace serve
  with a database        qualitytrace serve --data-dir DIR, or --postgres.host HOST
  with its settings      qualitytrace config show
  Try it with a demo     qualitytrace demo --keep
  Name it for later      qualitytrace configure --server-url http://127.0.0.1:11633
";

#[derive(Debug, Args)]
pub(crate) struct ServerOptions {
    #[command(subcommand)]
    command: ServerCommand,
}

#[derive(Debug, Subcommand)]
enum ServerCommand {
    /// Say how to start a server; Tracetest's installer
    Install {
        /// Has no effect
        #[arg(long, short, hide = true)]
        force: bool,
        /// Has no effect
        #[arg(long, hide = true)]
        mode: Option<String>,
        /// Has no effect
        #[arg(long, hide = true)]
        run_environment: Option<String>,
        /// Has no effect
        #[arg(long, hide = true)]
        kubernetes_context: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WaitOptions {
    #[command(subcommand)]
    command: WaitCommand,
}

#[derive(Debug, Subcommand)]
enum WaitCommand {
    /// Wait for a run group of the hosted service
    Group {
        /// Which one
        #[arg(long)]
        id: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct StartOptions {
    /// Flags of the agent
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<String>,
}

/// Says how to start a server.
pub(crate) fn server(options: &ServerOptions) -> Exit {
    let ServerCommand::Install { .. } = options.command;
    terminal::out(INSTALL);
    Exit::Passed
}

/// Refuses: run groups do not exist here.
pub(crate) fn wait(options: &WaitOptions) -> anyhow::Result<Exit> {
    let WaitCommand::Group { id } = &options.command;
    bail!(
        "run groups belong to the hosted service, so there is no group {}; `qualitytrace run FILE...` waits for all of \
         its tests",
        id.as_deref().unwrap_or_default()
    )
}

/// Refuses: there is no agent.
pub(crate) fn start(_: &StartOptions) -> anyhow::Result<Exit> {
    bail!(
        "there is no agent to start, as no hosted service is needed; start the server with `qualitytrace serve`"
    )
}
