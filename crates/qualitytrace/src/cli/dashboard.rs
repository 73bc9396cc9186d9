//! `qualitytrace open` and `qualitytrace dashboard`: open the server's page in a browser.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use clap::Args;

use super::Exit;
use super::target::Target;
use crate::terminal;

/// Programs that open an address in a browser.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The id of a test or of a trace; without it, the list of tests is opened
    id: Option<String>,
    /// The number of a run of the test
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    run: Option<u64>,
    #[command(flatten)]
    target: Target,
}

/// Opens a screen of the page: the tests, a test, a run or a trace. The reader signs in there, where the server has
/// tokens: a token in an argument of the browser would be seen by every user of the machine.
pub(crate) async fn open(options: Options, before: Target) -> anyhow::Result<Exit> {
    let client = options.target.or(before).client()?;
    if !client.has_page().await {
        bail!(
            "the server at {} has no page for browsers, or does not answer; `qualitytrace version` asks it",
            client.page()
        );
    }
    let url = match (options.id, options.run) {
        (None, _) => client.page(),
        (Some(id), run) => client.page_of(&id, run).await?.with_context(|| {
            format!("the server has no test and no trace {id}; `qualitytrace list test` lists its tests")
        })?,
    };
    if in_browser(&url) {
        terminal::out(&format!("opened {url}\n"));
    } else {
        terminal::out(&format!("found no program that opens it; open this address in a browser: {url}\n"));
    }
    Ok(Exit::Passed)
}

/// Opens the page of the server, as Tracetest does.
pub(crate) async fn dashboard(target: Target) -> anyhow::Result<Exit> {
    let client = target.client()?;
    let url = client.page();
    if !client.has_page().await {
        terminal::err(&format!(
            "the server at {url} has no page for browsers, only an address to begin with\n"
        ));
    }
    if in_browser(&url) {
        terminal::out(&format!("opened {url}\n"));
        return Ok(Exit::Passed);
    }
    bail!("failed to open the dashboard url: {url}")
}

/// Opens an address in a browser; `false` if no program does.
fn in_browser(url: &str) -> bool {
    let chosen = std::env::var("BROWSER").ok().filter(|browser| !browser.is_empty());
    let mut openers = chosen.iter().map(String::as_str).chain(OPENERS);
    openers.any(|opener| {
        let mut command = Command::new(opener);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}
