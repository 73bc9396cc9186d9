//! `qualitytrace completion SHELL`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Arguments, Exit};
use crate::terminal;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  qualitytrace completion bash > /etc/bash_completion.d/qualitytrace
  qualitytrace completion zsh > \"${fpath[1]}/_qualitytrace\"
  qualitytrace completion fish > ~/.config/fish/completions/qualitytrace.fish")]
pub(crate) struct Options {
    /// The shell: bash, zsh, fish, powershell or elvish
    shell: Shell,
}

/// Prints the script.
pub(crate) fn completion(options: &Options) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "qualitytrace", &mut script);
    terminal::out(&String::from_utf8_lossy(&script));
    Exit::Passed
}
