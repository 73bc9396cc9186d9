//! `qualitytrace run`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use qualitytrace_server::config::{Config, Listen};
use qualitytrace_server::limits::Limits;
use qualitytrace_server::server::Server;

use super::Exit;
use super::files;
use super::interrupt::Interrupt;
use super::learned;
use super::plan::Plan;
use super::serve::start_logging;
use super::target::Target;
use crate::client::contact::PATIENCE;
use crate::client::{Client, Wanted};
use crate::report::{self, Outcome, TestReport};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, or folders to search
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Server to run them on; without it, one is started for this run only
    #[arg(long, short = 's', alias = "server-url", value_name = "URL", env = "QUALITYTRACE_SERVER_URL")]
    server: Option<String>,
    /// Token to show to the server
    #[arg(long, value_name = "TOKEN", env = "QUALITYTRACE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// How long to wait for a server that goes away meanwhile, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE.as_secs(), requires = "server")]
    patience: u64,
    #[command(flatten)]
    otlp: OtlpOptions,
    /// Variable for the tests; may be given more than once
    #[arg(long = "var", value_name = "NAME=VALUE")]
    variables: Vec<Variable>,
    /// Tests under way at one time
    #[arg(long, value_name = "N", default_value_t = 16)]
    parallel: usize,
    /// Further tries of a test that does not pass; what the tests say themselves does not count then
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    retries: Option<u32>,
    /// Run each test this many times; what the tests say themselves does not count then
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Take a test for failed that passed only when it was tried again
    #[arg(long)]
    fail_on_flaky: bool,
    /// Keep what the runs teach about the traces in this file, so that the next run waits no longer than needed; a
    /// server named by --server remembers by itself
    #[arg(long, value_name = "FILE")]
    learned: Option<PathBuf>,
    /// Write a JUnit report
    #[arg(long, short = 'j', value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Options {
    /// The same on the server that was named before the command, if one was.
    pub(crate) fn on(self, before: Target) -> Self {
        let (server, token) = before.server_and_token();
        Self { server: server.or(self.server), token: token.or(self.token), ..self }
    }
}

/// Where the server that is started for the run expects OTLP, besides its own port.
#[derive(Debug, Clone, Args)]
struct OtlpOptions {
    /// Address for OTLP over gRPC
    #[arg(long, value_name = "ADDR|off", env = "QUALITYTRACE_OTLP_GRPC_ADDR", value_parser = listen, default_value = "4317")]
    otlp_grpc_addr: Listen,
    /// Address for OTLP over HTTP
    #[arg(long, value_name = "ADDR|off", env = "QUALITYTRACE_OTLP_HTTP_ADDR", value_parser = listen, default_value = "4318")]
    otlp_http_addr: Listen,
}

fn listen(text: &str) -> Result<Listen, String> {
    Listen::parse(text).ok_or_else(|| "write a port, an ADDRESS:PORT, or `off`".to_owned())
}

#[derive(Debug, Clone)]
struct Variable(String, String);

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
        Ok(Self(name.to_owned(), value.to_owned()))
    }
}

/// Runs the tests of every file and reports.
pub(crate) async fn run(options: Options) -> anyhow::Result<Exit> {
    start_logging("warn", None);
    if let (Some(url), Some(file)) = (&options.server, &options.learned) {
        bail!(
            "the server at {url} remembers by itself what runs teach; leave out --learned {}, or leave out --server (and \
             QUALITYTRACE_SERVER_URL) to run the tests here",
            file.display()
        );
    }
    let Some(plan) = Plan::of(files::read_all(&options.paths)?)? else {
        return Ok(Exit::Error);
    };
    let began = Instant::now();
    let (client, server) = match &options.server {
        Some(url) => {
            let client = Client::new(url)?.with_token(options.token.clone());
            (client.with_patience(Duration::from_secs(options.patience)), None)
        }
        None => {
            let server = own_server(&options.otlp).await?;
            if let Some(path) = &options.learned {
                server.teach(learned::read(path)?);
            }
            (Client::new(&server.addresses().http.to_string())?, Some(server))
        }
    };
    let variables = options.variables.into_iter().map(|Variable(name, value)| (name, value)).collect();
    let wanted = Wanted { variables, retries: options.retries, repeat: options.repeat };
    let interrupt = Interrupt::listen();
    let reports = plan.run(&client, &wanted, options.parallel, &interrupt).await;
    if let Some(server) = server {
        let taught = match &options.learned {
            Some(path) => Some((path, server.learned().await?)),
            None => None,
        };
        server.shutdown().await;
        if let Some((path, taught)) = taught {
            learned::write(path, taught, &plan.ids())?;
        }
    }
    let reports = reports?;
    report::out(&report::pretty::summary(&reports, began.elapsed()));
    if let Some(path) = &options.junit {
        let xml = report::junit::document(&reports, began.elapsed());
        std::fs::write(path, xml)
            .with_context(|| format!("failed to write the JUnit report {}", path.display()))?;
    }
    if reports.is_empty() {
        bail!("nothing was run: the suites of these files have no steps");
    }
    Ok(if interrupt.is_raised() { Exit::Interrupted } else { exit(&reports, options.fail_on_flaky) })
}

/// What the reports amount to.
pub(crate) fn exit(reports: &[TestReport], fail_on_flaky: bool) -> Exit {
    let passes =
        |outcome: Outcome| if fail_on_flaky { outcome == Outcome::Passed } else { outcome.is_pass() };
    if reports.iter().any(|report| report.outcome == Outcome::Unknown) {
        Exit::Error
    } else if reports.iter().all(|report| passes(report.outcome)) {
        Exit::Passed
    } else {
        Exit::NotPassed
    }
}

/// A server inside this process: a free port for the API, the usual ones for OTLP, nothing kept.
async fn own_server(otlp: &OtlpOptions) -> anyhow::Result<Server> {
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let config = Config {
        http: SocketAddr::new(host, 0),
        otlp_grpc: otlp.otlp_grpc_addr.address(host),
        otlp_http: otlp.otlp_http_addr.address(host),
        // The tests are the user's own files, and the server lives only for them.
        limits: Limits { commands: true, ..Limits::default() },
        ..Config::default()
    };
    Ok(Server::start(config).await?)
}
