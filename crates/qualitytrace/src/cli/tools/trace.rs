//! `qualitytrace trace`: traces without a test.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use futures_util::StreamExt as _;
use qualitytrace_core::definition::to_yaml;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::trace::{Span, StatusCode, Trace};
use qualitytrace_server::serve::server::Server;
use qualitytrace_server::wire;
use serde_json::Value;

use super::{local, subject};
use crate::cli::Exit;
use crate::cli::files::regular;
use crate::cli::run::interrupt::end_signal;
use crate::cli::target::{Output, Target};
use crate::client::Client;
use crate::report::visible;
use crate::report::waterfall::{self, Mark};
use crate::terminal::filter::json;
use crate::terminal::{self, columns, duration, style};

/// The media type of Jaeger's JSON.
const JAEGER: &str = "application/vnd.jaeger+json";
/// Widths of the columns of a list: name and service.
const WIDTHS: [usize; 2] = [36, 20];

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the latest traces of the server, or the traces of a file
    #[command(after_help = "Examples:
  qualitytrace trace list
  qualitytrace trace list --service shop --status error
  qualitytrace trace list trace.json --output json")]
    List(ListOptions),
    /// Draw the waterfall of a trace
    #[command(after_help = "Examples:
  qualitytrace trace show 4bf92f3577b34da6a3ce929d0e0e4736
  qualitytrace trace show trace.json -v        with the attributes of each span")]
    Show(ShowOptions),
    /// Write a trace of the server, or of a file, as OTLP or Jaeger JSON
    #[command(after_help = "Examples:
  qualitytrace trace export 4bf92f3577b34da6a3ce929d0e0e4736 > trace.json
  qualitytrace trace export 4bf92f3577b34da6a3ce929d0e0e4736 -o jaeger --out jaeger.json")]
    Export(ExportOptions),
    /// Send trace files to the server: OTLP, Jaeger or Zipkin JSON
    #[command(
        after_help = "Exit codes: 0 all spans are stored, 1 a file cannot be read or sent, 2 some spans are not stored.

Examples:
  qualitytrace trace import trace.json other.json"
    )]
    Import(ImportOptions),
    /// Show traces as they arrive; without a configured server, one is started that receives on 4317 and 4318
    #[command(after_help = "Examples:
  qualitytrace trace tail
  qualitytrace trace tail --count 1 --otlp-http-addr 14318
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 npm start")]
    Tail(TailOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Trace file instead of the server
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only traces with a span of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only traces whose first span has this text in its name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Only traces with this status: `error` (✘), `unset` (·, as most instrumentations leave it) or `ok` (✔)
    #[arg(long, value_name = "STATUS", value_parser = ["ok", "error", "unset"])]
    status: Option<String>,
    /// How many traces
    #[arg(long, value_name = "N", default_value_t = 20)]
    take: u16,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// Trace file, or the id of a trace of the server
    #[arg(value_name = "FILE|ID")]
    trace: String,
    /// Trace of the file, if it has several
    #[arg(long, value_name = "ID")]
    trace_id: Option<String>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    /// Trace file, or the id of a trace of the server
    #[arg(value_name = "FILE|ID")]
    trace: String,
    /// Format
    #[arg(long, short, value_name = "FORMAT", default_value = "otlp")]
    output: Shape,
    /// File to write to; without it, standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Server to talk to
    #[arg(long, short, visible_alias = "server", value_name = "URL")]
    server_url: Option<String>,
    /// Token to send to the server
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

/// Formats of trace files that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    Otlp,
    Jaeger,
}

#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// Trace files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct TailOptions {
    /// End after this many traces
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    #[command(flatten)]
    local: local::Options,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
pub(crate) async fn trace(command: Command, before: Target) -> anyhow::Result<Exit> {
    match command {
        Command::List(options) => list(options, before).await,
        Command::Show(options) => show(options, before).await,
        Command::Export(options) => export(options, before).await,
        Command::Import(options) => import(options, before).await,
        Command::Tail(options) => tail(options, before).await,
    }
}

async fn list(options: ListOptions, before: Target) -> anyhow::Result<Exit> {
    let target = options.target.clone().or(before);
    let items: Vec<Value> = if let Some(file) = &options.file {
        let name = file.display();
        let bytes = regular::read(file).with_context(|| format!("failed to read {name}"))?;
        let traces = subject::read(&bytes).with_context(|| format!("{name} is no trace file"))?;
        let fitting = traces.iter().filter(|trace| options.fits(trace)).map(summary);
        fitting.take(options.take.into()).collect()
    } else {
        let take = options.take.to_string();
        let given = [
            ("service", options.service),
            ("name", options.name),
            ("status", options.status),
            ("take", Some(take)),
        ];
        let filters: Vec<_> = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        target.client()?.traces(&filters).await?
    };
    if let Some(text) = target.output().text_of(&Value::from(items.clone())) {
        terminal::out(&text);
    } else if items.is_empty() {
        terminal::err(
            "no trace fits; `qualitytrace trace tail` shows what arrives, `qualitytrace doctor` why nothing does\n",
        );
    } else {
        let lines: Vec<String> = items.iter().map(line).collect();
        terminal::out(&lines.concat());
    }
    Ok(Exit::Passed)
}

impl ListOptions {
    /// Whether a trace of a file passes the filters, as a server has them.
    fn fits(&self, trace: &Trace) -> bool {
        let has = |text: &str, wanted: &str| text.to_lowercase().contains(&wanted.to_lowercase());
        let root = trace.roots().next().map(|at| trace.span(at));
        let is_of =
            |service: &String| trace.spans().iter().any(|span| span.service().eq_ignore_ascii_case(service));
        self.service.as_ref().is_none_or(is_of)
            && self.name.as_ref().is_none_or(|name| root.is_some_and(|root| has(&root.name, name)))
            && self.status.as_ref().is_none_or(|wanted| status(trace) == wanted)
    }
}

/// The status of a trace: an error if any span has one, else that of its first span.
fn status(trace: &Trace) -> &'static str {
    let of = |span: &Span| span.status.as_ref().map(|status| status.code).unwrap_or_default();
    let root = trace.roots().next().map(|at| of(trace.span(at))).unwrap_or_default();
    let is_bad = trace.spans().iter().any(|span| of(span) == StatusCode::Error);
    match if is_bad { StatusCode::Error } else { root } {
        StatusCode::Error => "error",
        StatusCode::Ok => "ok",
        StatusCode::Unset => "unset",
    }
}

/// The summary of a trace of a file, as a server has it.
fn summary(trace: &Trace) -> Value {
    let root = trace.roots().next().map(|at| trace.span(at));
    let start = trace.spans().iter().map(|span| span.start).min().unwrap_or_default();
    let end = trace.spans().iter().map(|span| span.end.unwrap_or(span.start)).max().unwrap_or_default();
    serde_json::json!({
        "traceId": trace.id().to_string(),
        "name": root.map(|root| root.name.to_string()),
        "service": root.map(|root| root.service().to_owned()),
        "spans": trace.spans().len(),
        "status": status(trace),
        "startTime": wire::time::rfc3339(start),
        "duration": u64::try_from(end.since(start).as_nanos()).unwrap_or(u64::MAX),
    })
}

/// A line of the list.
fn line(item: &Value) -> String {
    let text = |key: &str| visible::text(item[key].as_str().unwrap_or_default());
    let mark = match item["status"].as_str() {
        Some("error") => style::bad("✘"),
        Some("ok") => style::good("✔"),
        _ => style::faint("·"),
    };
    let [name, service] = terminal::fitting(WIDTHS, [12, 8], 60);
    let spans = terminal::counted(item["spans"].as_u64().unwrap_or(0).try_into().unwrap_or(0), "span");
    let took = duration(Duration::from_nanos(item["duration"].as_u64().unwrap_or(0)));
    format!(
        "{mark} {} {} {} {spans:>9} {took:>9}\n",
        text("traceId"),
        columns::fitted(&text("name"), name),
        style::faint(columns::fitted(&text("service"), service)),
    )
}

/// The trace of a file, or of the server.
async fn named(
    name: &str,
    id: Option<&str>,
    client: impl FnOnce() -> anyhow::Result<Client>,
) -> anyhow::Result<Trace> {
    if !Path::new(name).exists() && name.parse::<TraceId>().is_ok() {
        return subject::of_server(&client()?, name).await;
    }
    subject::of_file(name, id)
}

async fn show(options: ShowOptions, before: Target) -> anyhow::Result<Exit> {
    let target = options.target.or(before);
    let trace = named(&options.trace, options.trace_id.as_deref(), || target.client()).await?;
    let drawn = subject::drawable(trace)?;
    if let Some(text) = target.output().text_of(&serde_json::to_value(&drawn)?) {
        terminal::out(&text);
        return Ok(Exit::Passed);
    }
    let count = terminal::counted(drawn.spans.len(), "span");
    terminal::out(&format!("trace {}, {count}\n\n", style::strong(&drawn.trace_id)));
    let rows = waterfall::rows(&drawn, usize::MAX, |_| Mark::Plain);
    for (row, span) in rows.iter().zip(&drawn.spans) {
        let attributes = if target.verbose { attributes(span) } else { String::new() };
        terminal::out(&format!("{row}\n{attributes}"));
    }
    Ok(Exit::Passed)
}

/// The attributes of a span, a line each, as a selector has them.
fn attributes(span: &wire::Span) -> String {
    let line = |(name, value): (&String, &Value)| {
        let value = visible::text(&value.to_string());
        style::faint(format!("{}{} = {value}", "  ".repeat(span.depth + 2), visible::text(name))) + "\n"
    };
    span.attributes.iter().map(line).collect()
}

async fn export(options: ExportOptions, before: Target) -> anyhow::Result<Exit> {
    let target = Target::at(options.server_url, options.token).or(before);
    let is_file = Path::new(&options.trace).exists();
    let bytes = match options.output {
        Shape::Otlp if is_file => bail!(
            "{} is a file already; of a file only `-o jaeger` is written, and `trace import` stores it",
            options.trace
        ),
        Shape::Jaeger if is_file => {
            let trace = subject::of_file(&options.trace, None)?;
            serde_json::to_vec(&wire::jaeger::Document(trace))?
        }
        Shape::Otlp | Shape::Jaeger => {
            let media = if options.output == Shape::Otlp { subject::OTLP } else { JAEGER };
            let client = target.client()?;
            let found = client.trace_as(&options.trace, media).await?;
            let missing =
                || format!("the server at {} has no span of trace {}", client.base(), options.trace);
            found.with_context(missing)?
        }
    };
    match &options.out {
        Some(path) => {
            std::fs::write(path, bytes).with_context(|| format!("failed to write {}", path.display()))?;
        }
        None => terminal::out(&json(&format!("{}\n", String::from_utf8_lossy(&bytes).trim_end()))),
    }
    Ok(Exit::Passed)
}

async fn import(options: ImportOptions, before: Target) -> anyhow::Result<Exit> {
    let target = options.target.or(before);
    let (client, output) = (target.client()?, target.output());
    let (mut exit, mut all) = (Exit::Passed, Vec::new());
    for file in &options.files {
        let name = file.display();
        let bytes = regular::read(file).with_context(|| format!("failed to read {name}"))?;
        let stored = client.store_traces(bytes).await.with_context(|| format!("failed to import {name}"))?;
        let number = |key: &str| usize::try_from(stored[key].as_u64().unwrap_or(0)).unwrap_or(0);
        let refused = number("refused");
        if refused > 0 {
            exit = Exit::NotPassed;
        }
        if output != Output::Pretty {
            let mut row = stored;
            row["file"] = name.to_string().into();
            all.push(row);
            continue;
        }
        let mark = if refused == 0 { style::good("✔") } else { style::bad("✘") };
        terminal::out(&format!(
            "{mark} {name}: {} of {} stored ({})\n",
            terminal::counted(number("spans"), "span"),
            terminal::counted(number("traceCount"), "trace"),
            stored["format"].as_str().unwrap_or("unknown")
        ));
        for trace in stored["traces"].as_array().into_iter().flatten() {
            terminal::out(&format!("  {}\n", visible::text(trace["traceId"].as_str().unwrap_or_default())));
        }
        for problem in stored["problems"].as_array().into_iter().flatten() {
            let text = |key: &str| visible::text(problem[key].as_str().unwrap_or_default());
            terminal::err(&format!("  {}: {}\n", text("location"), text("reason")));
        }
    }
    terminal::out(&output.text_of(&Value::from(all)).unwrap_or_default());
    Ok(exit)
}

async fn tail(options: TailOptions, before: Target) -> anyhow::Result<Exit> {
    let target = options.target.or(before);
    let (client, server) = match target.named_client()? {
        Some(named) => {
            terminal::err(&format!("traces that arrive at {}\n", named.client.base()));
            (named.client, None)
        }
        None => {
            let (server, client) = local::start(options.local.addresses()).await?;
            terminal::err(&listening(&server));
            (client, Some(server))
        }
    };
    let done = tokio::select! {
        done = follow(&client, options.count, target.output()) => done.map(|()| Exit::Passed),
        () = end_signal() => Ok(Exit::Interrupted),
    };
    if let Some(server) = server {
        server.shutdown().await;
    }
    done
}

fn listening(server: &Server) -> String {
    let addresses = server.addresses();
    let shown = |address: Option<std::net::SocketAddr>| {
        address.map_or_else(|| "off".to_owned(), |address| format!("http://{address}"))
    };
    format!(
        "listening for OTLP over gRPC at {} and over HTTP at {}; set OTEL_EXPORTER_OTLP_ENDPOINT to one of them\n",
        shown(addresses.otlp_grpc),
        shown(addresses.otlp_http)
    )
}

/// Prints traces once nothing more of them arrives.
async fn follow(client: &Client, count: Option<usize>, output: Output) -> anyhow::Result<()> {
    let mut seen = 0;
    let mut arrivals = pin!(client.arrivals());
    while count.is_none_or(|count| seen < count) {
        let Some(message) = arrivals.next().await else {
            bail!("the server at {} has closed the stream of arrivals", client.base());
        };
        let message = message?;
        if message["what"] != "settled" {
            continue;
        }
        for item in message["traces"].as_array().into_iter().flatten() {
            seen += 1;
            terminal::out(&match output {
                Output::Pretty => line(item),
                Output::Json => json(&format!("{item}\n")),
                Output::Yaml => format!("---\n{}", to_yaml(item)),
            });
        }
    }
    Ok(())
}
