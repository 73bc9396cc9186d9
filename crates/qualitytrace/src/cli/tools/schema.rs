//! `qualitytrace schema`: the JSON Schema of definition files.

use anyhow::bail;
use clap::Args;
use qualitytrace_config::nearest;
use qualitytrace_core::definition::{Kind, file_schema};

use crate::cli::Exit;
use crate::terminal;

/// Where editors look for the schema when no other place is given.
const USUAL_PLACE: &str = "./qualitytrace.schema.json";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  qualitytrace schema > qualitytrace.schema.json
  qualitytrace schema Test
  qualitytrace schema --header >> checkout.yaml
  qualitytrace schema --header ../qualitytrace.schema.json

docs/editors.md says how editors use it; `qualitytrace lsp` needs no schema.")]
pub(crate) struct Options {
    /// Kind of definition: Test, `TestSuite`, `VariableSet`, ..; without it, any of them
    #[arg(value_name = "TYPE")]
    kind: Option<String>,
    /// Print the first line of a file that names its schema for editors, instead of the schema
    #[arg(long, value_name = "PATH|URL", num_args = 0..=1, default_missing_value = USUAL_PLACE)]
    header: Option<String>,
}

/// Prints the schema.
pub(crate) fn schema(options: &Options) -> anyhow::Result<Exit> {
    let kind = options.kind.as_deref().map(named).transpose()?;
    let text = match &options.header {
        Some(place) => format!("# yaml-language-server: $schema={place}\n"),
        None => format!("{:#}\n", file_schema(kind)),
    };
    terminal::out(&text);
    Ok(Exit::Passed)
}

/// The kind of this name, in any case of letters.
fn named(name: &str) -> anyhow::Result<Kind> {
    let known = Kind::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(name));
    if let Some(kind) = known.or_else(|| Kind::named(name)) {
        return Ok(kind);
    }
    let names = Kind::ALL.map(Kind::as_str);
    match nearest(name, names) {
        Some(near) => bail!("`{name}` is not a type of definition; did you mean `{near}`?"),
        None => bail!("`{name}` is not a type of definition; name one of {}", names.join(", ")),
    }
}
