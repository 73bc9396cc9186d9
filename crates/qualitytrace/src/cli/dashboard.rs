//! `qualitytrace dashboard`: opens the server's page in a browser.

use std::process::{Command, Stdio};

use anyhow::bail;

use super::Exit;
use super::target::Target;
use crate::terminal;

/// Programs that open an address in a browser.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Opens the page of the server.
pub(crate) async fn dashboard(target: Target) -> anyhow::Result<Exit> {
    let client = target.client()?;
    let url = client.page();
    if !client.has_page().await {
        terminal::err(&format!(
            "the server at {url} has no page for browsers, only an address to begin with\n"
        ));
    }
    let chosen = std::env::var("BROWSER").ok().filter(|browser| !browser.is_empty());
    let openers = chosen.iter().map(String::as_str).chain(OPENERS);
    for opener in openers {
        let mut command = Command::new(opener);
        command.arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if command.status().is_ok_and(|status| status.success()) {
            terminal::out(&format!("opened {url}\n"));
            return Ok(Exit::Passed);
        }
    }
    bail!("failed to open the dashboard url: {url}")
}
