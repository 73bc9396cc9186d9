//! Variables of a run that the command line gives: `--var`, `--secret` and `--env-file`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args;

use crate::cli::files::regular;

#[derive(Debug, Default, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Variable for the tests; may be given more than once
    #[arg(long = "var", value_name = "NAME=VALUE", help_heading = "Variables")]
    variables: Vec<Variable>,
    /// Variable whose value appears in no output; without a value, it is read from the environment; may be given more
    /// than once
    #[arg(long = "secret", value_name = "NAME[=VALUE]", help_heading = "Variables")]
    secrets: Vec<String>,
    /// File with NAME=VALUE lines: variables for the tests, and for `${NAME}` in their files where the environment has
    /// none; may be given more than once
    #[arg(long = "env-file", value_name = "FILE", help_heading = "Variables")]
    env_files: Vec<PathBuf>,
    /// Names and values of the project file.
    #[arg(skip)]
    pub(crate) of_project: Vec<(String, String)>,
}

/// The variables that were given.
#[derive(Debug, Default)]
pub(crate) struct VariableArguments {
    /// Those of the project file, of other files and of flags: later ones count more.
    pub(crate) plain: Vec<(String, String)>,
    pub(crate) secret: Vec<(String, String)>,
    of_files: Vec<(String, String)>,
}

impl Options {
    /// Reads the files and the environment.
    pub(crate) fn read(&self) -> anyhow::Result<VariableArguments> {
        let mut of_files = Vec::new();
        for file in &self.env_files {
            of_files.extend(read(file)?);
        }
        let mut secret = Vec::new();
        for text in &self.secrets {
            secret.push(match text.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => {
                    let value = std::env::var(text);
                    (
                        text.clone(),
                        value.with_context(|| format!("--secret {text}: the environment has no {text}"))?,
                    )
                }
            });
        }
        let flags = self.variables.iter().map(|Variable(name, value)| (name.clone(), value.clone()));
        let plain = self.of_project.iter().chain(&of_files).cloned().chain(flags).collect();
        Ok(VariableArguments { plain, secret, of_files })
    }
}

impl VariableArguments {
    /// The value of `${NAME}` in a definition file.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        let of_file =
            || self.of_files.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        std::env::var(name).ok().or_else(of_file)
    }
}

/// `NAME=VALUE`.
#[derive(Debug, Clone)]
struct Variable(String, String);

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
        if name.trim().is_empty() {
            return Err("the name is missing; write NAME=VALUE".to_owned());
        }
        Ok(Self(name.to_owned(), value.to_owned()))
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let text = regular::read_text(file)
        .with_context(|| format!("failed to read the variables of {}", file.display()))?;
    match pairs(&text) {
        Ok(pairs) => Ok(pairs),
        Err(line) => bail!("{}:{line}: write NAME=VALUE, or begin a comment with #", file.display()),
    }
}

/// The pairs of a text, or the number of the first line that is none. A value may be in quotes.
fn pairs(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(at + 1)?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(at + 1);
        }
        let inner = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
        found.push((name.to_owned(), inner.unwrap_or(value).to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_pairs_comments_and_quotes() {
        let text = "# a comment\n\nA=1\nexport B = two words \nC=\"x = y\"\nD='#'\nE=\n";
        let expected = [("A", "1"), ("B", "two words"), ("C", "x = y"), ("D", "#"), ("E", "")];
        let found = pairs(text).unwrap();
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(pairs("A=1\nnonsense\n"), Err(2));
        assert_eq!(pairs("=1\n"), Err(1));
    }
}
