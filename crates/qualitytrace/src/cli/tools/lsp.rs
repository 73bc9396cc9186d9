//! `qualitytrace lsp`: the language server for editors.
//!
//! `backend` answers the protocol's requests, `transport` reads and writes its messages. What is wrong with a file is
//! what `check` says. Everything else is a function of a text, a place in it and recent traces.

mod backend;
mod completion;
mod fixes;
mod hover;
mod positions;
mod recent;
mod steps;
mod transport;

use clap::Args;

use crate::cli::Exit;
use crate::cli::target::Target;
use recent::Recent;

#[derive(Debug, Args)]
#[command(
    after_help = "Editors start it; docs/editors.md says how to set up VS Code, Neovim, Helix and Zed. With a configured \
server, attributes, services and names of spans are offered from its latest traces.

Example:
  qualitytrace lsp -s http://localhost:11633

Exit codes: 0 after `shutdown` and `exit`, 1 when the editor goes without them."
)]
pub(crate) struct Options {
    /// Has no effect: standard input and output are all there is
    #[arg(long, hide = true)]
    stdio: bool,
    #[command(flatten)]
    target: Target,
}

/// Serves one editor until it leaves.
pub(crate) async fn lsp(options: Options, before: Target) -> anyhow::Result<Exit> {
    // An editor starts it in any folder that is opened.
    let server = options.target.or(before).users_named_client()?;
    let recent = Recent::of(server.map(|named| named.client));
    let is_orderly = transport::serve(recent).await?;
    Ok(if is_orderly { Exit::Passed } else { Exit::Error })
}
