//! `qualitytrace man`: the manual pages, made of the table of commands.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::Arguments;
use super::Exit;
use crate::terminal;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  qualitytrace man | man -l -
  qualitytrace man --out /usr/local/share/man/man1")]
pub(crate) struct Options {
    /// Folder to write a page for each command to; without it, the page of the program goes to standard output
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the pages.
pub(crate) fn man(options: &Options) -> anyhow::Result<Exit> {
    match &options.out {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(Arguments::table(), folder))
                .with_context(|| format!("failed to write the pages to {}", folder.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Arguments::table()).render(&mut page)?;
            terminal::out(&String::from_utf8_lossy(&page));
        }
    }
    Ok(Exit::Passed)
}
