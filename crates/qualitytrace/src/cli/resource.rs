//! `qualitytrace apply|get|list|delete|export RESOURCE`.

pub(super) mod apply;
mod name;
mod table;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use qualitytrace_core::definition::{self, Format, Kind};
use serde_json::Value;

use super::Exit;
use super::files::format_of;
use super::target::{Output, Target};
use crate::client::Client;
use crate::client::answer;
use crate::client::resources::{Form, Page};
use crate::terminal;
use name::Name;

/// How to do what deleting a data store would mean.
const GO_BACK: &str =
    "a server always has one data store; to take spans over OTLP again, apply this file with \
`qualitytrace apply -f otlp.yaml`:

type: DataStore
spec:
  name: OTLP
  type: otlp

";
/// Page size when a whole list is requested.
const MOST: u64 = 1_000;

/// What can be done with resources.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create or change a resource on a server
    Apply(Apply),
    /// Show a resource of a server
    Get(Get),
    /// List resources of a server
    List(List),
    /// Remove a resource from a server
    Delete(Delete),
    /// Write a resource of a server to a file, as its author wrote it
    Export(Export),
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// What it is, if not what the file says: test, testsuite, variableset, datastore, pollingprofile, analyzer, testrunner,
    /// config, demo
    resource: Option<String>,
    /// Definitions to send, or folders of them; an id that the server generates is written into the file
    #[arg(long, short, value_name = "FILE|DIR")]
    file: Vec<PathBuf>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// What it is: test, testsuite, variableset, datastore, pollingprofile, analyzer, testrunner, config, demo
    resource: Option<String>,
    #[command(flatten)]
    which: ResourceName,
    #[command(flatten)]
    target: Target,
}

/// One resource of a kind.
#[derive(Debug, Args)]
struct ResourceName {
    /// Which one: its id, or its name if no other has it
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Which one, by its id
    #[arg(long, conflicts_with = "name")]
    id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// What they are: test, testsuite, variableset, datastore, pollingprofile, analyzer, testrunner, config, demo
    resource: Option<String>,
    /// How many to show
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true)]
    take: i64,
    /// How many to leave out first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    skip: i64,
    /// What to sort by: created, name or `last_run` for tests
    #[arg(long = "sortBy", value_name = "FIELD", default_value = "")]
    sort_by: String,
    /// Which way: asc or desc
    #[arg(long = "sortDirection", value_name = "WAY", default_value = "desc")]
    sort_direction: String,
    #[command(flatten)]
    filters: Filters,
    /// Show all of them, whatever --take says
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    target: Target,
}

/// What selects the resources of a list.
#[derive(Debug, Args)]
struct Filters {
    /// Only those whose name or description contains this text
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// Only tests and suites with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only tests whose latest run ended like this: passed, failed, inconclusive, broken or stopped
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    /// Only tests with this type of trigger, like http
    #[arg(long, value_name = "TYPE")]
    trigger: Option<String>,
}

impl Filters {
    /// Returns the parameters of the server.
    fn parameters(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("query", &self.query),
            ("tag", &self.tag),
            ("outcome", &self.outcome),
            ("trigger", &self.trigger),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// What it is: test, testsuite, variableset or demo
    resource: Option<String>,
    #[command(flatten)]
    which: ResourceName,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// What it is: test, testsuite, variableset, datastore, pollingprofile, analyzer, testrunner, config, demo
    resource: Option<String>,
    #[command(flatten)]
    which: ResourceName,
    /// Where to write it
    #[arg(long, short, value_name = "FILE", default_value = "resource.yaml")]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Runs the command. `before` are the flags before the command.
pub(crate) async fn run(command: Command, before: Target) -> anyhow::Result<Exit> {
    match command {
        Command::Apply(options) => apply(options, before).await,
        Command::Get(options) => get(options, before).await,
        Command::List(options) => list(options, before).await,
        Command::Delete(options) => delete(options, before).await,
        Command::Export(options) => export(options, before).await,
    }
}

async fn apply(options: Apply, before: Target) -> anyhow::Result<Exit> {
    let mut wrong = Vec::new();
    if options.file.is_empty() {
        wrong.push("[file] Definition file must be provided".to_owned());
    }
    let name = match options.resource.as_deref() {
        None if wrong.is_empty() => None,
        resource => named(resource, &mut wrong),
    };
    if !wrong.is_empty() {
        return Err(flags(&wrong));
    }
    let target = options.target.or(before);
    apply::apply_all(&target.client()?, name, &options.file, target.output.unwrap_or(Output::Yaml)).await
}

async fn get(options: Get, before: Target) -> anyhow::Result<Exit> {
    let (name, which) = one(options.resource.as_deref(), options.which)?;
    let target = options.target.or(before);
    let (client, output) = (target.client()?, target.output.unwrap_or(Output::Yaml));
    let id = which.id(&client, name).await?;
    match client.resource(name.kind, &id, form(output)).await? {
        Some(body) => show(&client, name.kind, &body, output).await?,
        None => terminal::out(&format!("Resource {} with ID {id} not found\n", name.word)),
    }
    Ok(Exit::Passed)
}

async fn list(options: List, before: Target) -> anyhow::Result<Exit> {
    let mut wrong = Vec::new();
    for (flag, number) in [("take", options.take), ("skip", options.skip)] {
        if number < 0 {
            wrong.push(format!("[{flag}] {flag} parameter must be greater than or equal to 0"));
        }
    }
    if !["asc", "desc", ""].contains(&options.sort_direction.as_str()) {
        wrong.push("[sortDirection] sortDirection parameter must be either asc or desc".to_owned());
    }
    let name = named(options.resource.as_deref(), &mut wrong);
    let Some(name) = name.filter(|_| wrong.is_empty()) else { return Err(flags(&wrong)) };
    let target = options.target.or(before);
    let (client, output) = (target.client()?, target.output.unwrap_or(Output::Pretty));
    let mut page = Page {
        take: u64::try_from(options.take).unwrap_or_default(),
        skip: u64::try_from(options.skip).unwrap_or_default(),
        sort_by: &options.sort_by,
        direction: &options.sort_direction,
        filters: options.filters.parameters(),
    };
    if output == Output::Yaml {
        if options.all {
            page.take = count(&client, name.kind, &page).await?.max(1);
        }
        let body = client.list(name.kind, &page, Form::YamlStream).await?;
        terminal::out(&if body.is_empty() { body } else { format!("{body}\n") });
        return Ok(Exit::Passed);
    }
    let shown = if options.all {
        complete(&client, name.kind, page).await?
    } else {
        listed(&client.list(name.kind, &page, Form::Json).await?)?
    };
    if output == Output::Json {
        terminal::out(&terminal::filter::json(&format!("{shown:#}\n")));
    } else {
        let items = shown["items"].as_array().cloned().unwrap_or_default();
        terminal::out(&table::table(name.kind, &items, page_of(&client, name.kind).await.as_deref()));
    }
    Ok(Exit::Passed)
}

/// A list from this page to its end.
async fn complete(client: &Client, kind: Kind, page: Page<'_>) -> anyhow::Result<Value> {
    let mut shown = listed(&client.list(kind, &page, Form::Json).await?)?;
    while length(&shown) < shown["count"].as_u64().unwrap_or(0).saturating_sub(page.skip) {
        let next = Page { take: MOST, skip: page.skip + length(&shown), ..page.clone() };
        let more = parsed(&client.list(kind, &next, Form::Json).await?)?;
        let Some(more) = more["items"].as_array().filter(|items| !items.is_empty()) else { break };
        shown["items"].as_array_mut().into_iter().for_each(|items| items.extend(more.iter().cloned()));
    }
    Ok(shown)
}

async fn delete(options: Delete, before: Target) -> anyhow::Result<Exit> {
    let (name, which) = one(options.resource.as_deref(), options.which)?;
    let client = options.target.or(before).client()?;
    let id = which.id(&client, name).await?;
    if name.kind == Kind::DataStore {
        terminal::err(GO_BACK);
    }
    if !client.delete(name.kind, &id).await? {
        bail!("Resource {} with ID {id} not found", name.word);
    }
    terminal::out(&format!("✔ {} successfully deleted\n", name.title()));
    Ok(Exit::Passed)
}

async fn export(options: Export, before: Target) -> anyhow::Result<Exit> {
    let (name, which) = one(options.resource.as_deref(), options.which)?;
    let client = options.target.or(before).client()?;
    let id = which.id(&client, name).await?;
    let format = format_of(&options.file);
    let form = match format {
        Format::Yaml => Form::Yaml,
        Format::Json => Form::PlainJson,
    };
    let Some(shown) = client.resource(name.kind, &id, form).await? else {
        bail!("Resource not found");
    };
    let shown = match format {
        Format::Yaml => shown,
        Format::Json => format!("{:#}\n", parsed(&shown)?),
    };
    let text = match client.source(name.kind, &id, format).await? {
        // With the id in the file, applying it again updates the same resource.
        Some(text) if !definition::has_id(&text, format, 0) => {
            definition::with_id(&text, format, 0, &id).unwrap_or(shown)
        }
        Some(text) => text,
        None => shown,
    };
    std::fs::write(&options.file, text)
        .with_context(|| format!("{} cannot be written", options.file.display()))?;
    terminal::out(&format!("✔  Definition exported successfully for resource type: {}\n", name.word));
    Ok(Exit::Passed)
}

/// The resource of a command.
fn one(resource: Option<&str>, which: ResourceName) -> anyhow::Result<(Name, ResourceName)> {
    let mut wrong = Vec::new();
    if which.id.as_ref().or(which.name.as_ref()).is_none_or(String::is_empty) {
        wrong.push("[id] resource id must be provided".to_owned());
    }
    match named(resource, &mut wrong) {
        Some(name) if wrong.is_empty() => Ok((name, which)),
        _ => Err(flags(&wrong)),
    }
}

impl ResourceName {
    /// The id; a name is looked up, unless a resource has it as its id.
    async fn id(self, client: &Client, name: Name) -> anyhow::Result<String> {
        let text = match (self.id, self.name) {
            (Some(id), _) => return Ok(id),
            (None, text) => text.unwrap_or_default(),
        };
        if client.resource(name.kind, &text, Form::Json).await?.is_some() {
            return Ok(text);
        }
        // Names that contain this one are found, too.
        let filters = if name.kind.is_singleton() { Vec::new() } else { vec![("query", text.as_str())] };
        let found = complete(client, name.kind, Page { take: MOST, filters, ..Page::default() }).await?;
        let items = found["items"].as_array().into_iter().flatten().map(|item| &item["spec"]);
        let ids = items.filter(|spec| spec["name"] == text.as_str()).filter_map(|spec| spec["id"].as_str());
        match ids.collect::<Vec<_>>()[..] {
            [] => Ok(text),
            [id] => Ok(id.to_owned()),
            [..] => bail!("several are called `{text}`; `qualitytrace list {}` shows their ids", name.word),
        }
    }
}

/// The kind of resource that a word means; `None` for any other word.
pub(super) fn kind(word: &str) -> Option<Kind> {
    Name::of(word).ok().map(|name| name.kind)
}

fn named(resource: Option<&str>, wrong: &mut Vec<String>) -> Option<Name> {
    let Some(resource) = resource else {
        wrong
            .push(format!("[resource] resource name must be provided. Available resources: {}", name::all()));
        return None;
    };
    Name::of(resource).map_err(|error| wrong.push(error.to_string())).ok()
}

/// An error that lists the invalid flags, a line each.
pub(super) fn flags(wrong: &[String]) -> anyhow::Error {
    anyhow::anyhow!("The following errors occurred when validating the flags:\n{}", wrong.join("\n"))
}

const fn form(output: Output) -> Form {
    match output {
        Output::Yaml => Form::Yaml,
        Output::Json | Output::Pretty => Form::Json,
    }
}

/// The address of the page that shows resources of a kind; `None` when the server has none.
async fn page_of(client: &Client, kind: Kind) -> Option<String> {
    (kind == Kind::Test && client.has_page().await).then(|| client.page())
}

/// Prints a resource from a response.
async fn show(client: &Client, kind: Kind, body: &str, output: Output) -> anyhow::Result<()> {
    terminal::out(&match output {
        Output::Yaml => format!("{body}\n"),
        Output::Json => terminal::filter::json(&format!("{:#}\n", parsed(body)?)),
        Output::Pretty => table::table(kind, &[parsed(body)?], page_of(client, kind).await.as_deref()),
    });
    Ok(())
}

fn parsed(body: &str) -> anyhow::Result<Value> {
    answer::document(body)
}

/// Parses a list response.
fn listed(body: &str) -> anyhow::Result<Value> {
    let list = parsed(body)?;
    if !list["items"].is_array() {
        bail!("the server's answer is not a list; is it a server of Qualitytrace or Tracetest?");
    }
    Ok(list)
}

fn length(list: &Value) -> u64 {
    list["items"].as_array().map_or(0, |items| items.len() as u64)
}

async fn count(client: &Client, kind: Kind, page: &Page<'_>) -> anyhow::Result<u64> {
    let first = Page { take: 1, ..page.clone() };
    Ok(parsed(&client.list(kind, &first, Form::Json).await?)?["count"].as_u64().unwrap_or_default())
}
