//! `qualitytrace datastore`: tests the connection to a data store, and prints what feeds it.

mod collector;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use qualitytrace_core::definition::{self, Kind, Resource, Stored};
use serde_json::Value;

use super::Exit;
use super::files::File;
use super::target::Target;
use crate::client::resources::Form;
use crate::client::{Client, answer};
use crate::terminal;

/// The steps of a connection test: the key in the server's answer, and the name.
const STEPS: [(&str, &str); 4] = [
    ("portCheck", "port"),
    ("connectivity", "connectivity"),
    ("authentication", "authentication"),
    ("fetchTraces", "fetch"),
];

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Test the connection to a data store step by step: port, connectivity, authentication, fetch
    Test {
        /// Definition of the data store to test [default: the one of the server]
        #[arg(long, short, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        target: Target,
    },
    /// Print a configuration of the OpenTelemetry Collector that feeds a data store and this server
    CollectorConfig {
        /// The type of the data store, such as jaeger, tempo, zipkin or opensearch
        #[arg(value_name = "TYPE")]
        kind: String,
        /// Where this server takes OTLP over gRPC
        #[arg(long, value_name = "HOST:PORT", default_value = "localhost:4317")]
        endpoint: String,
    },
}

/// Runs the command. `before` are the flags before the command.
pub(crate) async fn data_store(options: Options, before: Target) -> anyhow::Result<Exit> {
    match options.command {
        Command::Test { file, target } => test(file, target.or(before)).await,
        Command::CollectorConfig { kind, endpoint } => {
            let Some(text) = collector::configuration(&kind, &endpoint) else {
                bail!(
                    "`{kind}` is no type of a data store; there are: {}",
                    collector::kinds().collect::<Vec<_>>().join(", ")
                )
            };
            terminal::out(&text);
            Ok(Exit::Passed)
        }
    }
}

async fn test(file: Option<PathBuf>, target: Target) -> anyhow::Result<Exit> {
    let client = target.client()?;
    let spec = match file {
        Some(path) => {
            let file = File::read(&path)?;
            terminal::err(&file.complaints());
            if !file.is_usable() {
                return Ok(Exit::Definition);
            }
            let stores = file.reading.documents.iter().map(|document| &document.resource);
            let store = stores.into_iter().find(|resource| matches!(resource, Resource::DataStore(_)));
            let store = store.with_context(|| format!("{} holds no data store", path.display()))?;
            definition::to_spec_json(store, &Stored::default())
        }
        None => current(&client).await?,
    };
    let tested = client.connection(&spec).await?;
    let has_failed = failed_step(&tested).is_some();
    terminal::out(&target.output().text_of(&tested).unwrap_or_else(|| shown(&spec, &tested)));
    Ok(if has_failed { Exit::Error } else { Exit::Passed })
}

/// The data store of a server.
async fn current(client: &Client) -> anyhow::Result<Value> {
    let current = client.resource(Kind::DataStore, "current", Form::Json).await?;
    let current = current.context("the server has no data store")?;
    let mut current: Value = answer::document(&current)?;
    Ok(current["spec"].take())
}

/// Tests the data store of a server; returns the step that fails, with its message.
pub(super) async fn trouble(client: &Client) -> anyhow::Result<Option<String>> {
    let tested = client.connection(&current(client).await?).await?;
    Ok(failed_step(&tested).map(|(key, name)| {
        let text = |field: &str| tested[key][field].as_str().filter(|text| !text.is_empty());
        let parts: Vec<&str> = [Some(*name), text("message"), text("error")].into_iter().flatten().collect();
        parts.join(": ")
    }))
}

/// The step that fails.
fn failed_step(tested: &Value) -> Option<&'static (&'static str, &'static str)> {
    STEPS.iter().find(|(key, _)| tested[key]["status"] == "failed")
}

/// Renders the steps, one on each line.
fn shown(spec: &Value, tested: &Value) -> String {
    let steps = STEPS.iter().filter(|(key, _)| tested[key]["status"].is_string());
    let lines = steps.map(|(key, name)| {
        let text = |field: &str| tested[key][field].as_str().unwrap_or_default();
        let cause = if text("error").is_empty() { String::new() } else { format!("\n    {}", text("error")) };
        format!("{name:15} {:8} {}{cause}\n", text("status"), text("message"))
    });
    let lines: String = lines.collect();
    if lines.is_empty() {
        let kind = spec["type"].as_str().unwrap_or_default();
        return format!(
            "a data store of type `{kind}` is not queried: spans are sent to the server over OTLP\n"
        );
    }
    lines
}
