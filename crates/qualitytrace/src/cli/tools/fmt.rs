//! `qualitytrace fmt`: the canonical layout of definition files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{
    EditError, Format, LayoutError, formatted, unified_diff, with_current_conventions,
};

use crate::cli::Exit;
use crate::cli::files::{self, File, format_of, regular};
use crate::cli::project;
use crate::terminal;

#[derive(Debug, Args)]
#[command(
    after_help = "Keys get the order of `qualitytrace schema`, nested lines two blanks, and at most one blank line \
stays between two of them. Texts and comments stay as they are. A file with anchors or tags is left as it is.

With --conventions, selectors, assertions and outputs also get the names of OpenTelemetry's current semantic conventions, \
like `http.response.status_code` for `http.status_code`. Such tests hold for spans of older conventions, too.

Examples:
  qualitytrace fmt tests/
  qualitytrace fmt --check tests/
  qualitytrace fmt --conventions --check tests/
  qualitytrace fmt - < checkout.yaml

Exit codes: 0 done, or nothing to do; 2 with --check, a file has another layout; 3 a file is missing or cannot be read."
)]
pub(crate) struct Options {
    /// Files, folders to search, or patterns like 'tests/**/*.yaml'; `-` for standard input [default: `run.paths` of the
    /// project file]
    #[arg(value_name = "FILE|DIR|GLOB")]
    paths: Vec<PathBuf>,
    /// Change nothing; show what would change and fail if there is any
    #[arg(long)]
    check: bool,
    /// Also write attributes as OpenTelemetry's current semantic conventions name them
    #[arg(long)]
    conventions: bool,
}

/// What became of a file.
enum Outcome {
    Same,
    Changed(String),
    LeftAlone(String),
    Unreadable,
}

/// Formats every file.
pub(crate) fn fmt(options: &Options) -> anyhow::Result<Exit> {
    if options.paths.iter().any(|path| files::is_stdin(path)) {
        return standard_input(options);
    }
    let (mut changed, mut unreadable) = (0, 0);
    let paths = files::find(&project::paths_or_own(&options.paths, &[])?)?;
    for path in &paths {
        let source =
            regular::read_text(path).with_context(|| format!("failed to read {}", path.display()))?;
        match outcome(path, &source, options.conventions) {
            Outcome::Same => {}
            Outcome::LeftAlone(why) => {
                terminal::err(&format!("{} is left as it is: {why}\n", path.display()));
            }
            Outcome::Unreadable => unreadable += 1,
            Outcome::Changed(text) => {
                changed += 1;
                if options.check {
                    terminal::out(&format!(
                        "{} {}\n{}",
                        terminal::style::bad("✘"),
                        path.display(),
                        unified_diff(&source, &text)
                    ));
                } else {
                    std::fs::write(path, text)
                        .with_context(|| format!("failed to write {}", path.display()))?;
                    terminal::out(&format!("{} {}\n", terminal::style::good("✔"), path.display()));
                }
            }
        }
    }
    terminal::err(&summary(options.check, changed, paths.len()));
    Ok(match (unreadable, changed) {
        (1.., _) => Exit::Definition,
        (0, 1..) if options.check => Exit::NotPassed,
        _ => Exit::Passed,
    })
}

fn summary(is_check: bool, changed: usize, count: usize) -> String {
    let files = terminal::counted(count, "file");
    match (is_check, changed) {
        (true, 0) => format!("{files} in the canonical layout\n"),
        (true, _) => {
            format!("{changed} of {files} would change; run `qualitytrace fmt` without --check\n")
        }
        (false, _) => format!("{changed} of {files} changed\n"),
    }
}

/// Writes standard input to standard output in the canonical layout.
fn standard_input(options: &Options) -> anyhow::Result<Exit> {
    let is_check = options.check;
    let (path, source) = (Path::new(files::STDIN_NAME), files::read_stdin()?);
    match outcome(path, &source, options.conventions) {
        Outcome::Unreadable => Ok(Exit::Definition),
        Outcome::LeftAlone(why) => {
            terminal::err(&format!("the text is left as it is: {why}\n"));
            terminal::out(&source);
            Ok(Exit::Passed)
        }
        Outcome::Same if is_check => Ok(Exit::Passed),
        Outcome::Changed(text) if is_check => {
            terminal::out(&unified_diff(&source, &text));
            Ok(Exit::NotPassed)
        }
        Outcome::Same => {
            terminal::out(&source);
            Ok(Exit::Passed)
        }
        Outcome::Changed(text) => {
            terminal::out(&text);
            Ok(Exit::Passed)
        }
    }
}

/// Formats a text, with the names of the current conventions where they are asked for; prints its diagnostics when it
/// cannot be read.
fn outcome(path: &Path, source: &str, conventions: bool) -> Outcome {
    let format: Format = format_of(path);
    let rewritten = if conventions {
        with_current_conventions(source, format, &Budget::default())
    } else {
        Ok(source.to_owned())
    };
    let text = match rewritten {
        Ok(text) => text,
        Err(EditError::Unreadable { .. }) => return unreadable(path, source),
        Err(error) => return Outcome::LeftAlone(error.to_string()),
    };
    match formatted(&text, format) {
        Ok(text) if text == source => Outcome::Same,
        Ok(text) => Outcome::Changed(text),
        Err(error @ LayoutError::Unusual { .. }) => Outcome::LeftAlone(error.to_string()),
        Err(LayoutError::Unreadable { .. }) => unreadable(path, source),
    }
}

fn unreadable(path: &Path, source: &str) -> Outcome {
    terminal::err(&File::parse(path, source.to_owned()).complaints());
    Outcome::Unreadable
}
