//! `qualitytrace ready`: whether a server can store anything, for health checks where there is no other HTTP client.

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;

use crate::cli::Exit;
use crate::cli::target::Target;
use crate::terminal;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(
    after_help = "Asks `/readyz`, which needs no token. Containers without a shell use it as their health check.

Examples:
  qualitytrace ready
  qualitytrace ready -s http://localhost:11633

Exit codes: 0 the server is ready, 1 it is not, or does not answer."
)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
}

/// Asks the server once.
pub(crate) async fn ready(options: Options, before: Target) -> anyhow::Result<Exit> {
    let target = options.target.or(before);
    let answer = tokio::time::timeout(PATIENCE, target.client()?.is_ready()).await;
    let is_ready = answer
        .with_context(|| format!("the server does not answer within {} s", PATIENCE.as_secs()))
        .flatten()?;
    if let Some(text) = target.output().text_of(&json!({ "ready": is_ready })) {
        terminal::out(&text);
        return Ok(if is_ready { Exit::Passed } else { Exit::Error });
    }
    if !is_ready {
        bail!("the server is not ready: its database does not answer, or its disk is full");
    }
    terminal::out("ready\n");
    Ok(Exit::Passed)
}
