//! `qualitytrace explain`: what a diagnostic code means.

use anyhow::bail;
use clap::Args;
use qualitytrace_config::nearest;
use qualitytrace_core::explain::{self, Example, Explanation};

use crate::cli::Exit;
use crate::terminal::{self, columns, style};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  qualitytrace explain unknown-key
  qualitytrace explain")]
pub(crate) struct Options {
    /// Code of a diagnostic, as `check` shows it in brackets; without it, all codes are listed
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// Prints one explanation, or the list of all.
pub(crate) fn explain(options: &Options) -> anyhow::Result<Exit> {
    let Some(code) = options.code.as_deref() else {
        terminal::out(&list());
        return Ok(Exit::Passed);
    };
    let code = code.trim_matches(['[', ']']);
    let Some(known) = explain::explain(code) else {
        let all = explain::explanations();
        match nearest(code, all.iter().map(|known| known.code)) {
            Some(near) => bail!("there is no diagnostic `{code}`; did you mean `{near}`?"),
            None => bail!("there is no diagnostic `{code}`; `qualitytrace explain` lists them"),
        }
    };
    terminal::out(&shown(&known));
    Ok(Exit::Passed)
}

fn list() -> String {
    let all = explain::explanations();
    let width = all.iter().map(|known| columns::width(known.code)).max().unwrap_or_default();
    let lines = all.iter().map(|known| {
        let first = known.text.split_inclusive(['.', ':']).next().unwrap_or_default();
        format!("{}  {}\n", columns::padded(known.code, width), first.trim_end_matches([':', ' ']))
    });
    lines.collect()
}

fn shown(known: &Explanation) -> String {
    let mut parts = vec![format!("{}\n\n{}\n", style::strong(known.code), known.text)];
    if known.wrong != Example::None {
        parts.push(format!("This has it:\n\n{}", indented(&known.wrong.text())));
    }
    if !known.right.is_empty() {
        parts.push(format!("This has not:\n\n{}", indented(known.right)));
    }
    parts.join("\n")
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}\n")).collect();
    lines.concat()
}
