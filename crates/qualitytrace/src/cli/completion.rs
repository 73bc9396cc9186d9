//! `qualitytrace completion SHELL`: the script that makes a shell ask this program for completions, and the answers.
//!
//! Ids are those of the server that the command line or the user's own file names: a shell asks in any folder, unasked.

mod shells;

use std::ffi::OsStr;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate, Shell};
use qualitytrace_core::definition::Kind;
use serde_json::Value;

use self::shells::SHELLS;
use super::Arguments;
use super::Exit;
use super::resource;
use super::target::Target;
use crate::client::answer;
use crate::client::resources::{Form, Page};
use crate::report::visible;
use crate::terminal;

/// The variable by which a shell asks for completions; its value is the shell.
const VARIABLE: &str = "QUALITYTRACE_COMPLETE";
/// How long the server may take: a user is waiting for the shell.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How many ids are offered.
const MOST_IDS: u64 = 200;
/// The flags that name the server.
const SERVER_FLAGS: [&str; 3] = ["-s", "--server-url", "--server"];

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
pub(crate) fn completion(options: &Options) -> anyhow::Result<Exit> {
    let shell = options.shell.to_string();
    let writer = SHELLS.completer(&shell).with_context(|| format!("{shell} has no completions"))?;
    let mut script = Vec::new();
    let name = "qualitytrace";
    writer.write_registration(VARIABLE, name, name, name, &mut script)?;
    terminal::out(&String::from_utf8_lossy(&script));
    Ok(Exit::Passed)
}

/// Answers a shell that asks for completions, and ends the process then. Must be called before anything else.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(|| with_ids(Arguments::table())).var(VARIABLE).shells(SHELLS).complete();
}

/// Completes `--id` of every command.
fn with_ids(command: Command) -> Command {
    command.mut_subcommands(|command| {
        command.mut_args(|flag| match flag.get_long() {
            Some("id") => flag.add(ArgValueCompleter::new(ids)),
            _ => flag,
        })
    })
}

fn ids(current: &OsStr) -> Vec<CompletionCandidate> {
    let words: Vec<String> = std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    let (Some(prefix), Ok(runtime)) =
        (current.to_str(), tokio::runtime::Builder::new_current_thread().enable_all().build())
    else {
        return Vec::new();
    };
    let found = runtime.block_on(async { tokio::time::timeout(TIMEOUT, stored(&words)).await });
    // Without an answer there is nothing to offer, and nowhere to say why.
    let stored = found.map(Result::unwrap_or_default).unwrap_or_default();
    // One that begins with a dash would be a flag.
    let offered = stored.into_iter().filter(|(id, _)| id.starts_with(prefix) && !id.starts_with('-'));
    offered.map(|(id, name)| CompletionCandidate::new(id).help(Some(visible::text(&name).into()))).collect()
}

/// The ids and names of what a command line is about.
async fn stored(words: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let kind = words.iter().find_map(|word| resource::kind(word)).unwrap_or(Kind::Test);
    let client = Target::at(server(words), None).users_client()?;
    let page = Page { take: MOST_IDS, ..Page::default() };
    let list: Value = answer::document(&client.list(kind, &page, Form::Json).await?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().into_iter().flatten();
    Ok(items.map(|item| (text(&item["spec"]["id"]), text(&item["spec"]["name"]))).collect())
}

/// The server that a flag names.
fn server(words: &[String]) -> Option<String> {
    let at = words.iter().position(|word| SERVER_FLAGS.contains(&word.as_str()))?;
    words.get(at + 1).cloned()
}
