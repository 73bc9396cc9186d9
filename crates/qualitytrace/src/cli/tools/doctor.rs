//! `qualitytrace doctor`: what stands between a system and a green test, each with a next step.

mod exporter;
mod probe;

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use clap::Args;
use qualitytrace_server::serve::server::Server;
use serde_json::{Value, json};

use super::local;
use crate::cli::Exit;
use crate::cli::target::{NamedServer, Output, Target};
use crate::client::Client;
use crate::terminal::{self, columns, style};
use probe::Protocol;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How far the clocks may differ before the times of spans mislead.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(
    after_help = "Checks the exporter settings of this environment (OTEL_*), the ports for OTLP, the server with its \
database and data store, a span end to end over gRPC and HTTP, and the clocks. Without a configured server, one is started for the test \
span, as `run` does.

Examples:
  qualitytrace doctor
  qualitytrace doctor -s http://localhost:11633

Exit codes: 0 nothing is wrong, 1 something is."
)]
pub(crate) struct Options {
    #[command(flatten)]
    local: local::Options,
    #[command(flatten)]
    target: Target,
}

/// How good or bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Good,
    /// It may be intended.
    Doubtful,
    Bad,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    status: Status,
    what: &'static str,
    text: String,
    /// The next step; empty when there is none.
    next: String,
}

impl Finding {
    fn good(what: &'static str, text: impl Into<String>) -> Self {
        Self { status: Status::Good, what, text: text.into(), next: String::new() }
    }

    fn doubtful(what: &'static str, text: impl Into<String>, next: impl Into<String>) -> Self {
        Self { status: Status::Doubtful, what, text: text.into(), next: next.into() }
    }

    fn bad(what: &'static str, text: impl Into<String>, next: impl Into<String>) -> Self {
        Self { status: Status::Bad, what, text: text.into(), next: next.into() }
    }

    fn lines(&self) -> String {
        let mark = match self.status {
            Status::Good => style::good("✔"),
            Status::Doubtful => style::unsure("!"),
            Status::Bad => style::bad("✘"),
        };
        let lines = [
            Some(format!("{mark} {} {}", columns::padded(self.what, 10), self.text)),
            (!self.next.is_empty()).then(|| format!("             → {}", self.next)),
        ];
        let wrapped = |line: String| match style::width() {
            Some(columns) => columns::wrapped(&line, columns, 15) + "\n",
            None => line + "\n",
        };
        lines.into_iter().flatten().map(wrapped).collect()
    }

    fn document(&self) -> Value {
        let status = match self.status {
            Status::Good => "good",
            Status::Doubtful => "doubtful",
            Status::Bad => "bad",
        };
        json!({ "status": status, "about": self.what, "text": self.text, "next": self.next })
    }
}

/// The findings. Those for people are printed as they are made.
#[derive(Debug)]
struct Report {
    output: Output,
    is_bad: bool,
    findings: Vec<Value>,
}

impl Report {
    fn new(output: Output) -> Self {
        Self { output, is_bad: false, findings: Vec::new() }
    }

    fn add(&mut self, finding: &Finding) {
        self.is_bad |= finding.status == Status::Bad;
        self.findings.push(finding.document());
        if self.output == Output::Pretty {
            terminal::out(&finding.lines());
        }
    }

    fn end(self) -> Exit {
        terminal::out(&self.output.text_of(&Value::from(self.findings)).unwrap_or_default());
        if self.is_bad { Exit::Error } else { Exit::Passed }
    }
}

/// Checks everything.
pub(crate) async fn doctor(options: Options, before: Target) -> anyhow::Result<Exit> {
    let target = options.target.or(before);
    let mut report = Report::new(target.output());
    for finding in exporter::findings(variable) {
        report.add(&finding);
    }
    match target.named_client()? {
        Some(named) => of_server(&named, &mut report).await,
        None => of_local(&options.local, &mut report).await?,
    }
    Ok(report.end())
}

/// A variable of the environment; an empty one counts as unset.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Checks a server that is configured.
async fn of_server(named: &NamedServer, report: &mut Report) {
    let client = named.client.clone().with_reconnect_timeout(Duration::ZERO);
    let info = match tokio::time::timeout(PATIENCE, client.info()).await {
        Ok(Ok(info)) => info,
        Ok(Err(error)) => {
            let next = "start it with `qualitytrace serve`, or name another with `qualitytrace configure`";
            return report.add(&Finding::bad("server", format!("{error:#}"), next));
        }
        Err(_) => {
            let text = format!("{} does not answer within {PATIENCE:?}", client.base());
            return report.add(&Finding::bad("server", text, "look at its log, or name another server"));
        }
    };
    report.add(&version(client.base(), info["version"].as_str().unwrap_or_default()));
    report.add(&database(&client, &info).await);
    if let Some(finding) = data_store(&client, &info).await {
        report.add(&finding);
    }
    let otlp = &info["otlp"];
    if otlp["enabled"] == false {
        let next = "enable it with `otlpServer.enabled`, or configure a data store that it reads from";
        return report.add(&Finding::doubtful("otlp", "the server receives no spans", next));
    }
    let is_closed = otlp["tls"] == true || otlp["tokenRequired"] == true;
    if is_closed {
        let next = "give the exporter its certificate or token; docs/security.md says how";
        let text = "the server receives spans over TLS or with a token only; no test span is sent";
        return report.add(&Finding::doubtful("otlp", text, next));
    }
    let host = host_of(client.base());
    let ports = ["grpc", "http", "main"].iter().filter_map(|key| port_of(otlp[*key].as_str()?));
    let ports: Vec<u16> = ports.collect();
    if let Some(finding) = exporter::destination(variable, &host, &ports) {
        report.add(&finding);
    }
    let address = |key: &str| otlp[key].as_str().and_then(|text| at_host(&host, text));
    for (protocol, key) in [(Protocol::Grpc, "grpc"), (Protocol::Http, "http")] {
        let Some(endpoint) = address(key).or_else(|| address("main")) else { continue };
        report.add(&probe::span(&client, protocol, &endpoint).await);
    }
    report.add(&clock(&client).await);
}

/// Checks what `run` would find, with a server that is started for the test span.
async fn of_local(options: &local::Options, report: &mut Report) -> anyhow::Result<()> {
    let next = "`run` and `trace tail` start a server of their own; `qualitytrace configure` names one";
    report.add(&Finding::good("server", format!("none is configured; {next}")));
    let mut wanted = options.addresses();
    let ports: Vec<u16> = wanted.iter().flatten().map(SocketAddr::port).filter(|port| *port != 0).collect();
    if let Some(finding) = exporter::destination(variable, "localhost", &ports) {
        report.add(&finding);
    }
    for (address, protocol) in wanted.iter_mut().zip([Protocol::Grpc, Protocol::Http]) {
        let Some(at) = *address else { continue };
        let finding = port(at, protocol);
        if finding.status != Status::Good {
            // The test span is sent to a free port instead.
            *address = Some(SocketAddr::new(at.ip(), 0));
        }
        report.add(&finding);
    }
    let (server, client) = local::start(wanted).await?;
    spans_of_local(&server, &client, report).await;
    server.shutdown().await;
    Ok(())
}

async fn spans_of_local(server: &Server, client: &Client, report: &mut Report) {
    let addresses = server.addresses();
    for (protocol, address) in [(Protocol::Grpc, addresses.otlp_grpc), (Protocol::Http, addresses.otlp_http)]
    {
        if let Some(address) = address {
            report.add(&probe::span(client, protocol, &format!("http://{address}")).await);
        }
    }
}

/// Whether a port can be listened on.
fn port(address: SocketAddr, protocol: Protocol) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::good("port", format!("{address} is free for OTLP over {}", protocol.name())),
        Err(error) => Finding::bad(
            "port",
            format!("{address}, for OTLP over {}, cannot be listened on: {error}", protocol.name()),
            "end the collector or server that listens there, or give `run` another port; with `--with` it chooses free ones",
        ),
    }
}

fn version(base: &str, theirs: &str) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    if theirs == own {
        return Finding::good("server", format!("{base} has version {theirs}, as this program"));
    }
    let text = format!("{base} has version {theirs}, and this program {own}");
    Finding::doubtful("server", text, "use the same version on both sides")
}

async fn database(client: &Client, info: &Value) -> Finding {
    let kind = info["database"].as_str().unwrap_or("unknown");
    match client.is_ready().await {
        Ok(true) if kind == "memory" => Finding::doubtful(
            "database",
            "in memory: tests and traces are gone when the server stops",
            "give the server a `data-dir` to keep them",
        ),
        Ok(true) => Finding::good("database", format!("{kind} answers")),
        Ok(false) => Finding::bad("database", format!("{kind} does not answer"), "look at the server's log"),
        Err(error) => Finding::bad("database", format!("{error:#}"), "look at the server's log"),
    }
}

/// Whether the data store that the server reads traces from answers; `None` for one that is not queried.
async fn data_store(client: &Client, info: &Value) -> Option<Finding> {
    let kind = info["dataStore"]["type"].as_str().filter(|kind| *kind != "otlp")?;
    Some(match tokio::time::timeout(PATIENCE, crate::cli::data_store::trouble(client)).await {
        Ok(Ok(None)) => Finding::good("data store", format!("{kind} answers")),
        Ok(Ok(Some(why))) => Finding::bad(
            "data store",
            format!("{kind} cannot be queried: {why}"),
            "`qualitytrace datastore test` shows each step, `qualitytrace get datastore current` its settings",
        ),
        Ok(Err(error)) => Finding::bad("data store", format!("{error:#}"), "look at the server's log"),
        Err(_) => Finding::bad(
            "data store",
            format!("{kind} does not answer within {PATIENCE:?}"),
            "look whether it runs, and for a firewall in between",
        ),
    })
}

/// Compares the clock of the server, as its answers tell it, with that of this machine.
async fn clock(client: &Client) -> Finding {
    let asked = Instant::now();
    let apart = match client.clock_difference().await {
        Ok(Some(apart)) => apart,
        Ok(None) => return Finding::doubtful("clock", "the server does not tell its time", ""),
        Err(error) => return Finding::bad("clock", format!("{error:#}"), "look at the server's log"),
    };
    if apart <= CLOCK_TOLERANCE + asked.elapsed() {
        return Finding::good("clock", "of the server and of this machine agree");
    }
    let text = format!("of the server and of this machine are {} s apart", apart.as_secs());
    Finding::bad("clock", text, "synchronise both with NTP: times of spans and waits are off by as much")
}

/// The host of an address.
fn host_of(base: &str) -> String {
    reqwest::Url::parse(base).ok().and_then(|url| url.host_str().map(ToOwned::to_owned)).unwrap_or_default()
}

/// The endpoint at the port of a listener, on the host that this machine reaches it by.
fn at_host(host: &str, listener: &str) -> Option<String> {
    Some(format!("http://{host}:{}", port_of(listener)?))
}

/// The port of a listener.
fn port_of(listener: &str) -> Option<u16> {
    listener.rsplit_once(':')?.1.parse().ok()
}
