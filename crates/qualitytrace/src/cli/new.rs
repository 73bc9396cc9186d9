//! `qualitytrace new`: a first test from an address, a curl command, a file of another tool, or a trace of a server.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Format, formatted};
use qualitytrace_core::import::{self, Imported, Purpose, Tool};
use reqwest::redirect::Policy;

use super::Exit;
use super::files::regular;
use super::target::Target;
use crate::terminal;

/// How long an address may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The status that is asserted of an address that did not answer.
const USUAL_STATUS: u64 = 200;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  qualitytrace new http://localhost:8080/orders > orders.yaml
  qualitytrace new \"curl -X POST http://localhost:8080/orders -d '{}'\" --out tests/
  qualitytrace new openapi.yaml --out tests/
  qualitytrace new --trace 4bf92f3577b34da6a3ce929d0e0e4736 -s http://localhost:11633")]
pub(crate) struct Options {
    /// An address, which is asked once for its status; a curl command; or a file: `OpenAPI`, HAR, a Postman collection,
    /// hurl
    #[arg(value_name = "URL|COMMAND|FILE", required_unless_present = "trace")]
    from: Option<String>,
    /// Trace of the server to make a test of; it satisfies the test
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    trace: Option<String>,
    /// File or folder to write to; without it, standard output
    #[arg(long, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// Writes definitions of what was given.
pub(crate) async fn new(options: Options, before: Target) -> anyhow::Result<Exit> {
    if options.target.output.or(before.output).is_some() {
        bail!("`new` writes YAML; --out FILE names a file for it");
    }
    let definitions = match &options.trace {
        Some(id) => {
            let text = options.target.clone().or(before).client()?.test_of_trace(id).await?;
            vec![(format!("trace-{id}"), text)]
        }
        None => imported(options.from.as_deref().unwrap_or_default()).await?,
    };
    // As `fmt` has it. What it leaves alone stays as it is.
    let definitions: Vec<(String, String)> = definitions
        .into_iter()
        .map(|(name, text)| (name, formatted(&text, Format::Yaml).unwrap_or(text)))
        .collect();
    match &options.out {
        None => {
            let texts: Vec<&str> = definitions.iter().map(|(_, text)| text.trim_end()).collect();
            terminal::out(&format!("{}\n", texts.join("\n---\n")));
        }
        Some(out) => write(out, &definitions)?,
    }
    Ok(Exit::Passed)
}

async fn imported(from: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut status = None;
    let (text, tool) = if from.starts_with("http://") || from.starts_with("https://") {
        status = Some(status_of(from).await);
        (format!("curl '{}'", from.replace('\'', "'\\''")), Some(Tool::Curl))
    } else if from.starts_with("curl ") {
        (from.to_owned(), Some(Tool::Curl))
    } else {
        let text = regular::read_text(Path::new(from)).with_context(|| {
            if looks_like_address(from) {
                format!("there is no file {from}; for an address, write http://{from}")
            } else {
                format!("failed to read {from}")
            }
        })?;
        (text, None)
    };
    let purpose = Purpose::Files { status };
    let Imported { definitions, warnings } = import::import_for(purpose, tool, &text, &Budget::default())?;
    for warning in warnings {
        terminal::err(&format!("{} {warning}\n", terminal::style::unsure("warning:")));
    }
    Ok(definitions.into_iter().map(|definition| (definition.name, definition.text)).collect())
}

/// Whether a text that is no file was meant as an address without its scheme.
fn looks_like_address(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    host == "localhost" || host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// The status that an address answers with, which the test asserts; 200 if it does not answer.
async fn status_of(url: &str) -> u64 {
    // Fails when a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(ANSWER_TIMEOUT).redirect(Policy::none()).build();
    let answer = match client {
        Ok(client) => client.get(url).send().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) => {
            let status = answer.status();
            terminal::err(&format!("{url} answered {}, which the test asserts\n", status.as_u16()));
            status.as_u16().into()
        }
        Err(_) => {
            terminal::err(&format!(
                "{} {url} did not answer, so the test asserts status {USUAL_STATUS}; change it if another is right\n",
                terminal::style::unsure("warning:")
            ));
            USUAL_STATUS
        }
    }
}

/// Writes all into a file, or each into a file of a folder, which is made if it is not there. What is there is not
/// overwritten.
fn write(out: &Path, definitions: &[(String, String)]) -> anyhow::Result<()> {
    let is_file = out.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    let folder = if is_file { out.parent().unwrap_or(out) } else { out };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;
    let files: Vec<(PathBuf, String)> = if is_file {
        let texts: Vec<&str> = definitions.iter().map(|(_, text)| text.trim_end()).collect();
        vec![(out.to_owned(), format!("{}\n", texts.join("\n---\n")))]
    } else {
        let mut files: Vec<(PathBuf, String)> = Vec::new();
        for (name, text) in definitions {
            let stem = file_stem(name);
            let names = std::iter::once(stem.clone()).chain((2..).map(|number| format!("{stem}-{number}")));
            let mut paths = names.map(|name| out.join(format!("{name}.yaml")));
            let free = paths.find(|path| files.iter().all(|(known, _)| known != path));
            files.extend(free.map(|path| (path, text.clone())));
        }
        files
    };
    if let Some((taken, _)) = files.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        bail!("{} is already there; remove it, or choose another --out", taken.display());
    }
    for (path, text) in files {
        // A new file, and not what a link leads to.
        let mut options = std::fs::OpenOptions::new();
        let written = options.write(true).create_new(true).open(&path);
        written
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("failed to write {}", path.display()))?;
        terminal::out(&format!("{}\n", path.display()));
    }
    Ok(())
}

/// A name as the name of a file.
fn file_stem(name: &str) -> String {
    let words: Vec<String> = name
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let stem: String = words.join("-").chars().take(60).collect();
    if stem.is_empty() { "test".to_owned() } else { stem }
}

#[cfg(test)]
mod tests {
    use super::file_stem;

    #[test]
    fn a_name_becomes_that_of_a_file() {
        assert_eq!(file_stem("GET /orders/{id}"), "get-orders-id");
        assert_eq!(file_stem("../../etc/passwd"), "etc-passwd");
        assert_eq!(file_stem("漢字"), "test");
    }
}
