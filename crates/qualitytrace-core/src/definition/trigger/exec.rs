//! Commands on the server's machine.

use qualitytrace_config::tree::{Node, Shape};
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::period::{self, Period};
use crate::definition::reader::Reader;
use crate::definition::shape::{Pairs, is_blank, texts};
use crate::definition::text::{Text, mapped_pairs};

/// A command on the server's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exec {
    /// The command.
    pub command: Command,
    /// Environment variables, beside those of the server and those that carry the trace context.
    pub env: Vec<(String, Text)>,
    /// The working directory; empty means that of the server.
    pub working_directory: Text,
    /// The timeout; `None` means the server's default.
    pub timeout: Option<Period>,
}

impl Exec {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(Self {
            command: match &self.command {
                Command::Words(words) => {
                    Command::Words(words.iter().map(&mut *text).collect::<Result<_, _>>()?)
                }
                Command::Line(line) => Command::Line(text(line)?),
            },
            env: mapped_pairs(&self.env, text)?,
            working_directory: text(&self.working_directory)?,
            timeout: self.timeout.clone(),
        })
    }
}

/// The command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments.
    Words(Vec<Text>),
    /// A command line for the shell.
    Line(Text),
}

impl Default for Command {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<Exec> {
    let mut fields = reader.fields(block, "a command trigger")?;
    let command = match fields.get("command").map(|node| (node, &node.shape)) {
        None => Command::default(),
        Some((_, Shape::List(_))) => Command::Words(fields.texts("command")),
        Some((node, Shape::Scalar(_) | Shape::Map(_) | Shape::Null)) => {
            Command::Line(reader.text(node, "`command`").unwrap_or_default())
        }
    };
    let exec = Exec {
        command,
        env: fields.pairs("env"),
        working_directory: fields.text("workingDirectory").unwrap_or_default(),
        timeout: period::read(&mut fields, "timeout"),
    };
    fields.finish();
    Some(exec)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExecSpec<'a> {
    /// A program with its arguments as a list, or a command line of a shell as text.
    #[serde(skip_serializing_if = "is_blank")]
    command: Option<CommandSpec<'a>>,
    /// Variables of its environment.
    #[serde(skip_serializing_if = "is_blank")]
    env: Pairs<'a>,
    /// The folder to run it in; by default that of the server.
    #[serde(skip_serializing_if = "is_blank")]
    working_directory: &'a str,
    /// How long it may take; `1m` by default.
    #[serde(skip_serializing_if = "is_blank")]
    timeout: Option<&'a str>,
}

/// A program and its arguments, or a line for the shell.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
enum CommandSpec<'a> {
    Words(Vec<&'a str>),
    Line(&'a str),
}

impl<'a> ExecSpec<'a> {
    pub(super) fn of(exec: &'a Exec) -> Self {
        let command = match &exec.command {
            Command::Words(words) => {
                Some(texts(words)).filter(|words| !words.is_empty()).map(CommandSpec::Words)
            }
            Command::Line(line) => {
                Some(line.value.as_str()).filter(|line| !line.is_empty()).map(CommandSpec::Line)
            }
        };
        Self {
            command,
            env: Pairs::of(&exec.env),
            working_directory: &exec.working_directory.value,
            timeout: period::text(exec.timeout.as_ref()),
        }
    }
}
