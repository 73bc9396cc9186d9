//! `qualitytrace run`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use qualitytrace_core::gates::Gate;
use qualitytrace_core::time::parse_duration;
use qualitytrace_core::wait::Policy;
use qualitytrace_server::config::{Config, Listen};
use qualitytrace_server::limits::Limits;
use qualitytrace_server::server::Server;
use serde_json::{Map, Value};

use super::Exit;
use super::beside::{Beside, ChosenSet};
use super::files;
use super::interrupt::Interrupt;
use super::learned;
use super::own_token::{self, OwnToken};
use super::plan::Plan;
use super::serve::start_logging;
use super::target::Target;
use crate::client::contact::RECONNECT_TIMEOUT;
use crate::client::{Client, Wanted};
use crate::report::{self, Outcome, TestReport};
use crate::terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, or folders to search
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Server to run them on; without it, one is started for this run only
    #[arg(long, short = 's', alias = "server-url", value_name = "URL", env = "QUALITYTRACE_SERVER_URL")]
    server: Option<String>,
    /// Token to send to the server
    #[arg(long, value_name = "TOKEN", env = "QUALITYTRACE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// File with the token to send to the server; overrides --token
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
    /// How long to retry while the server is unavailable, in seconds
    #[arg(long, alias = "patience", value_name = "SECONDS", default_value_t = RECONNECT_TIMEOUT.as_secs(), requires = "server")]
    reconnect_timeout: u64,
    #[command(flatten)]
    otlp: OtlpOptions,
    /// Variable for the tests; may be given more than once
    #[arg(long = "var", value_name = "NAME=VALUE")]
    variables: Vec<Variable>,
    /// Variable set for the tests: a file, or the id of one in these files or on the server; without it, the only one
    /// in these files
    #[arg(long, value_name = "FILE|ID")]
    vars: Option<String>,
    /// Gates that each run must pass: analyzer-score, analyzer-rules, test-specs; without it, those of a `TestRunner` in
    /// these files, else of the server
    #[arg(long, value_name = "GATE,...", value_delimiter = ',', value_parser = gate)]
    required_gates: Vec<String>,
    /// Triggers in progress at one time; tests that only wait for their spans are not counted
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one)]
    parallel: usize,
    /// Retries of a test that does not pass; overrides the `retries` of the tests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    retries: Option<u32>,
    /// Run each test this many times; overrides the `repeat` of the tests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Count a test that passed only after a retry as failed
    #[arg(long)]
    fail_on_flaky: bool,
    /// Keep what the runs teach about the traces in this file, so that the next run waits no longer than needed; a
    /// server named by --server remembers by itself
    #[arg(long, value_name = "FILE")]
    learned: Option<PathBuf>,
    #[command(flatten)]
    windows: Windows,
    /// How long a failure that depends on missing spans is checked again before it is reported, unless their absence
    /// is proven sooner, like 10s; without it, as the polling profile says, else 10s
    #[arg(long, value_name = "DURATION", value_parser = seconds_or_duration)]
    confirm: Option<Duration>,
    /// Services that send no spans, besides those that tests and profiles name: hosts, addresses, `*.DOMAIN`,
    /// destinations; a server named by --server has its own list in `runs.uninstrumented`
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    uninstrumented: Vec<String>,
    /// Write a JUnit report
    #[arg(long, short = 'j', value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Options {
    /// Uses the server that was named before the command, if one was.
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

/// How to wait, unless a polling profile of the tests says something else.
#[derive(Debug, Clone, Args)]
struct Windows {
    /// Silence that ends a wait when nothing is owed, like 150ms
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    quiet: Option<Duration>,
    /// Silence that ends a wait although spans may still arrive, like 6s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    settle: Option<Duration>,
    /// The longest wait for a trace, like 1m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

impl Windows {
    fn policy(&self) -> Policy {
        Policy {
            quiet: self.quiet.unwrap_or(Policy::DEFAULT.quiet),
            settle: self.settle.unwrap_or(Policy::DEFAULT.settle),
            timeout: self.timeout.unwrap_or(Policy::DEFAULT.timeout),
        }
    }

    /// Fails on windows that contradict each other. The defaults of another server are not known here.
    fn check(&self, is_own: bool) -> anyhow::Result<()> {
        let settle = self.settle.or(is_own.then_some(Policy::DEFAULT.settle));
        if let Some((quiet, settle)) = self.quiet.zip(settle).filter(|(quiet, settle)| quiet > settle) {
            bail!(
                "--quiet {quiet:?} is longer than --settle {settle:?}: a wait that owes nothing would take longer than one \
                 that does; give a shorter --quiet or a longer --settle"
            );
        }
        Ok(())
    }

    /// Puts them into a polling profile. Values of a profile `of_tests` are kept.
    fn put_into(&self, profile: &mut Map<String, Value>, of_tests: bool) {
        let text = |time: Duration| match time.subsec_nanos() % 1_000_000 {
            0 => format!("{}ms", time.as_millis()),
            _ => format!("{}ns", time.as_nanos()),
        };
        let periodic = profile.entry("periodic").or_insert_with(|| Value::Object(Map::new()));
        let windows = [("quiet", self.quiet), ("settle", self.settle), ("timeout", self.timeout)];
        for (name, window) in windows {
            let is_said = of_tests && !periodic[name].is_null();
            if let Some(window) = window.filter(|_| !is_said) {
                periodic[name] = text(window).into();
            }
        }
    }

    fn are_given(&self) -> bool {
        self.quiet.is_some() || self.settle.is_some() || self.timeout.is_some()
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "write a whole number above 0".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let nanos = parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| "write a duration, like 6s or 500ms".to_owned())
}

/// Parses a duration; a bare number counts seconds.
fn seconds_or_duration(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).or_else(|_| duration(text))
}

fn listen(text: &str) -> Result<Listen, String> {
    Listen::parse(text).ok_or_else(|| "write a port, an ADDRESS:PORT, or `off`".to_owned())
}

fn gate(text: &str) -> Result<String, String> {
    let names: Vec<&str> = Gate::ALL.iter().map(|gate| gate.as_str()).collect();
    Gate::named(text.trim())
        .map(|gate| gate.as_str().to_owned())
        .ok_or_else(|| format!("the gates are {}", names.join(", ")))
}

#[derive(Debug, Clone)]
struct Variable(String, String);

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
        if name.trim().is_empty() {
            return Err("the name is missing; write NAME=VALUE".to_owned());
        }
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
    options.windows.check(options.server.is_none())?;
    for (flag, file) in [("--learned", &options.learned), ("--junit", &options.junit)] {
        if let Some(file) = file {
            files::require_writable(file).with_context(|| format!("{flag} {}", file.display()))?;
        }
    }
    if let Some(url) = options.server.as_ref().filter(|_| !options.uninstrumented.is_empty()) {
        bail!(
            "who sends no spans to the server at {url} is a matter of its setting runs.uninstrumented, and of tests and \
             polling profiles; leave out --uninstrumented, or leave out --server (and QUALITYTRACE_SERVER_URL) to run \
             the tests here"
        );
    }
    let Some(plan) = Plan::of(files::read_all(&options.paths)?)? else {
        return Ok(Exit::Error);
    };
    let began = Instant::now();
    let (client, server) = match &options.server {
        Some(url) => {
            let token = match &options.token_file {
                Some(file) => Some(own_token::read(file)?),
                None => options.token.clone(),
            };
            let client = Client::new(url)?.with_token(token);
            (client.with_reconnect_timeout(Duration::from_secs(options.reconnect_timeout)), None)
        }
        None => {
            let token = OwnToken::random();
            let server = own_server(&options, &token).await?;
            if let Some(path) = &options.learned {
                server.teach(learned::read(path)?);
            }
            let client = Client::new(&server.addresses().http.to_string())?;
            (client.with_token(Some(token.text())), Some(server))
        }
    };
    let wanted = match wanted(&options, &plan, &client, server.is_some()).await {
        Ok(wanted) => wanted,
        Err(error) => {
            if let Some(server) = server {
                server.shutdown().await;
            }
            return Err(error);
        }
    };
    let interrupt = Interrupt::listen();
    let reports = plan.run(&client, &wanted, options.parallel, options.confirm, &interrupt).await;
    // Failed writes do not suppress the rest of the report; they are reported last.
    let mut unwritten: Vec<anyhow::Error> = Vec::new();
    if let Some(server) = server {
        let taught = match &options.learned {
            Some(path) => Some((path, server.learned().await)),
            None => None,
        };
        server.shutdown().await;
        if let Some((path, taught)) = taught {
            let written =
                taught.map_err(Into::into).and_then(|taught| learned::write(path, taught, &plan.ids()));
            unwritten.extend(written.err());
        }
    }
    let reports = reports?;
    terminal::out(&report::pretty::summary(&reports, began.elapsed()));
    if let Some(path) = &options.junit {
        let written = report::junit::document(&reports, began.elapsed())
            .and_then(|xml| Ok(std::fs::write(path, xml)?))
            .with_context(|| format!("failed to write the JUnit report {}", path.display()));
        unwritten.extend(written.err());
    }
    if let Some(last) = unwritten.pop() {
        for error in unwritten {
            terminal::err(&format!("{} {error:#}\n", terminal::style::error("error:")));
        }
        return Err(last);
    }
    if reports.is_empty() {
        bail!("nothing was run: the suites of these files have no steps");
    }
    Ok(if interrupt.is_raised() { Exit::Interrupted } else { exit(&reports, options.fail_on_flaky) })
}

/// The settings of the runs: flags override what is beside the tests, which overrides the server's settings.
async fn wanted(options: &Options, plan: &Plan, client: &Client, is_own: bool) -> anyhow::Result<Wanted> {
    let beside = Beside::of(plan.files())?;
    let (variable_set, variable_set_id) = match beside.chosen_set(options.vars.as_deref())? {
        ChosenSet::None => (None, None),
        ChosenSet::Read(set) => (Some(set), None),
        ChosenSet::Stored(id) if is_own => bail!(
            "there is no variable set `{id}`: it is no file, and none of the files that were read defines it"
        ),
        ChosenSet::Stored(id) => (None, Some(id)),
    };
    let required_gates = match Some(options.required_gates.clone()).filter(|gates| !gates.is_empty()) {
        Some(gates) => Some(gates),
        None if beside.required_gates.is_some() => beside.required_gates,
        None => client.usual_gates().await?,
    };
    let mut settings = beside.settings;
    if !is_own && options.windows.are_given() {
        let of_tests = settings.polling_profile.is_some();
        let mut profile = match settings.polling_profile.take() {
            Some(profile) => profile,
            None => client.usual_profile().await?,
        };
        options.windows.put_into(&mut profile, of_tests);
        settings.polling_profile = Some(profile);
    }
    Ok(Wanted {
        variables: options
            .variables
            .iter()
            .map(|Variable(name, value)| (name.clone(), value.clone()))
            .collect(),
        variable_set,
        variable_set_id,
        required_gates,
        settings,
        retries: options.retries,
        repeat: options.repeat,
    })
}

/// The exit code for the reports.
pub(crate) fn exit(reports: &[TestReport], fail_on_flaky: bool) -> Exit {
    let passes =
        |outcome: Outcome| if fail_on_flaky { outcome == Outcome::Passed } else { outcome.is_pass() };
    if reports.iter().any(|report| report.outcome == Outcome::Unknown) {
        Exit::Error
    } else if reports.iter().all(|report| passes(report.outcome)) {
        Exit::Passed
    } else if reports.iter().all(|report| passes(report.outcome) || is_undecided(report.outcome)) {
        Exit::Inconclusive
    } else {
        Exit::NotPassed
    }
}

/// Whether it is neither passed nor failed: missing spans could change it, or it was not begun.
fn is_undecided(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Inconclusive | Outcome::Skipped)
}

/// Starts a server inside this process: a free port for the API, with a token that only this process knows, the usual
/// ports for OTLP, and a database in memory.
async fn own_server(options: &Options, token: &OwnToken) -> anyhow::Result<Server> {
    let Options { otlp, parallel, windows, uninstrumented, .. } = options;
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let config = Config {
        http: SocketAddr::new(host, 0),
        otlp_grpc: otlp.otlp_grpc_addr.address(host),
        otlp_http: otlp.otlp_http_addr.address(host),
        // The tests are the user's own files, and the server only lives for them.
        limits: Limits {
            commands: true,
            concurrent_runs: (*parallel).max(1),
            uninstrumented: uninstrumented.clone(),
            ..Limits::default()
        },
        safety: token.safety()?,
        wait: windows.policy(),
        ..Config::default()
    };
    Ok(Server::start(config).await?)
}
