//! `qualitytrace doctor`: what stands between a system and a green test, each with a next step.

mod exporter;
mod probe;

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use clap::Args;
use qualitytrace_server::server::Server;
use serde_json::Value;

use super::local;
use crate::cli::Exit;
use crate::cli::target::{NamedServer, Target};
use crate::client::Client;
use crate::terminal::{self, columns, style};
use probe::Protocol;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How far the clocks may differ before the times of spans mislead.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(
    after_help = "Checks the exporter settings of this environment (OTEL_*), the ports for OTLP, the server and its \
database, a span end to end over gRPC and HTTP, and the clocks. Without a configured server, one is started for the test \
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
        let mut out = format!("{mark} {} {}\n", columns::padded(self.what, 10), self.text);
        if !self.next.is_empty() {
            let next = format!("             → {}\n", self.next);
            out.push_str(&next);
        }
        out
    }
}

/// Prints every finding as it is made.
#[derive(Debug, Default)]
struct Report {
    is_bad: bool,
}

impl Report {
    fn add(&mut self, finding: &Finding) {
        self.is_bad |= finding.status == Status::Bad;
        terminal::out(&finding.lines());
    }
}

/// Checks everything.
pub(crate) async fn doctor(options: Options, before: Target) -> anyhow::Result<Exit> {
    let mut report = Report::default();
    for finding in exporter::findings(|name| std::env::var(name).ok().filter(|value| !value.is_empty())) {
        report.add(&finding);
    }
    match options.target.or(before).named_client()? {
        Some(named) => of_server(&named, &mut report).await,
        None => of_local(&options.local, &mut report).await?,
    }
    Ok(if report.is_bad { Exit::Error } else { Exit::Passed })
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
    let port = listener.rsplit_once(':')?.1;
    Some(format!("http://{host}:{port}"))
}
