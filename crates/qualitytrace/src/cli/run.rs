//! `qualitytrace run`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use qualitytrace_core::gates::Gate;
use qualitytrace_core::time::parse_duration;
use qualitytrace_core::wait::Policy;
use qualitytrace_server::config::{Config, Listen, OTLP_GRPC_PORT, OTLP_HTTP_PORT};
use qualitytrace_server::limits::Limits;
use qualitytrace_server::server::Server;
use serde_json::{Map, Value};

use super::Exit;
use super::beside::{Beside, ChosenSet};
use super::files::{self, File};
use super::interrupt::Interrupt;
use super::last_run;
use super::learned;
use super::legacy::{self, Asked};
use super::metadata;
use super::own_token::{self, OwnToken};
use super::plan::{Manner, Plan, Stay, StoredRunnable};
use super::reports;
use super::resource;
use super::selection;
use super::serve::start_logging;
use super::target::{NamedServer, Output, Target};
use super::variables::{self, Given};
use super::with::{self, System};
use crate::client::contact::RECONNECT_TIMEOUT;
use crate::client::{Client, Wanted};
use crate::report::{self, Outcome, TestReport};
use crate::terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, or folders to search
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    legacy: legacy::Flags,
    /// Start a server for this run only, whatever server is configured
    #[arg(long, conflicts_with_all = ["server_url", "files", "skip_result_wait"])]
    local: bool,
    /// File with the token to send to the server; overrides --token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long to retry while the server is unavailable, in seconds
    #[arg(long, alias = "patience", value_name = "SECONDS", default_value_t = RECONNECT_TIMEOUT.as_secs())]
    reconnect_timeout: u64,
    #[command(flatten)]
    with: with::Options,
    #[command(flatten)]
    otlp: OtlpOptions,
    #[command(flatten)]
    selection: selection::Options,
    #[command(flatten)]
    variables: variables::Options,
    /// Variable set for the tests: a file, or the id of one in these files or on the server; without it, the only one
    /// in these files
    #[arg(long, value_name = "FILE|ID")]
    vars: Option<String>,
    /// Gates that each run must pass: analyzer-score, analyzer-rules, test-specs; without it, those of a `TestRunner` in
    /// these files, else of the server
    #[arg(long, value_name = "GATE,...", value_delimiter = ',')]
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
    /// Write more reports: junit, json, tap, html, markdown, github, each to a file or to standard output; several are
    /// separated by commas
    #[arg(long = "report", value_name = "FORMAT[=FILE],...", value_delimiter = ',')]
    reports: Vec<reports::Wanted>,
}

impl Options {
    /// Adds the flags that were given before the command.
    pub(crate) fn on(self, before: Target) -> Self {
        Self { target: self.target.or(before), ..self }
    }

    /// What is to be run. Fails on flags that do not fit together.
    fn asked(&self) -> anyhow::Result<Asked> {
        let asked = self.legacy.asked(&self.paths, Path::exists);
        let mut wrong = asked.as_ref().err().cloned().unwrap_or_default();
        if self.legacy.skip_result_wait && self.junit.is_some() {
            wrong.push("[junit] --junit option is incompatible with --skip-result-wait option".to_owned());
        }
        let names: Vec<&str> = Gate::ALL.iter().map(|gate| gate.as_str()).collect();
        for gate in self.required_gates.iter().filter(|gate| Gate::named(gate.trim()).is_none()) {
            wrong.push(format!(
                "[required-gates] invalid option '{gate}'. valid options: {}",
                names.join(", ")
            ));
        }
        match asked {
            Ok(asked) if wrong.is_empty() => Ok(asked),
            _ => Err(resource::flags(&wrong)),
        }
    }

    /// The server that is named; `None` to start one.
    fn server(&self) -> anyhow::Result<Option<NamedServer>> {
        if self.local {
            return Ok(None);
        }
        let Some(named) = self.target.named_client()? else { return Ok(None) };
        let client = named.client.with_reconnect_timeout(Duration::from_secs(self.reconnect_timeout));
        let client = match &self.token_file {
            Some(file) => client.with_token(Some(own_token::read(file)?)),
            None => client,
        };
        Ok(Some(NamedServer { client, ..named }))
    }

    /// Fails on flags that only a server of this run obeys.
    fn require_own_server(&self, server: &NamedServer) -> anyhow::Result<()> {
        let url = server.client.base();
        if let Some(file) = &self.learned {
            bail!(
                "the server at {url} remembers by itself what runs teach; leave out --learned {}, or add --local to \
                 run the tests here",
                file.display()
            );
        }
        if self.with.is_given() {
            bail!(
                "--with starts the system beside a server of this run, and not for the one at {url}; leave it out, or \
                 add --local"
            );
        }
        if !self.uninstrumented.is_empty() {
            bail!(
                "who sends no spans to the server at {url} is a matter of its setting runs.uninstrumented, and of \
                 tests and polling profiles; leave out --uninstrumented, or add --local to run the tests here"
            );
        }
        Ok(())
    }
}

/// Where the server that is started for the run expects OTLP, besides its own port.
#[derive(Debug, Clone, Args)]
struct OtlpOptions {
    /// Address for OTLP over gRPC [default: 4317, or a free port with --with]
    #[arg(long, value_name = "ADDR|off", env = "QUALITYTRACE_OTLP_GRPC_ADDR", value_parser = listen)]
    otlp_grpc_addr: Option<Listen>,
    /// Address for OTLP over HTTP [default: 4318, or a free port with --with]
    #[arg(long, value_name = "ADDR|off", env = "QUALITYTRACE_OTLP_HTTP_ADDR", value_parser = listen)]
    otlp_http_addr: Option<Listen>,
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

/// Runs the tests of every file and reports.
pub(crate) async fn run(options: Options) -> anyhow::Result<Exit> {
    start_logging(if options.target.verbose { "warn,qualitytrace::client=debug" } else { "warn" }, None);
    if options.legacy.environment.is_some() {
        terminal::err("Flag --environment has been deprecated, use --vars instead\n");
    }
    let asked = options.asked()?;
    let server = options.server()?;
    options.windows.check(server.is_none())?;
    for (flag, file) in [("--learned", &options.learned), ("--junit", &options.junit)] {
        if let Some(file) = file {
            files::require_writable(file).with_context(|| format!("{flag} {}", file.display()))?;
        }
    }
    options.reports.iter().try_for_each(reports::Wanted::require_writable)?;
    if let Some(server) = &server {
        options.require_own_server(server)?;
    }
    let given = options.variables.read()?;
    match (asked, server) {
        (Asked::Stored { ids, is_suite }, server) => {
            let client = match server {
                Some(server) => server.client,
                None => options.target.client()?,
            };
            let stored = legacy::stored(&client, &ids, is_suite).await?;
            let wanted = wanted(&options, given, &[], &client, false).await?;
            run_stored(&options, &client, &stored, wanted).await
        }
        (Asked::Files(files), Some(server)) => run_files(&options, given, &files, &server.client).await,
        (Asked::Files(paths) | Asked::Paths(paths), server) => {
            if options.legacy.skip_result_wait {
                bail!("--skip-result-wait goes with -f FILE and a server that outlives this command");
            }
            run_paths(&options, given, &paths, server).await
        }
    }
}

/// Runs files on a server, with the result text of Tracetest.
async fn run_files(
    options: &Options,
    given: Given,
    files: &[PathBuf],
    client: &Client,
) -> anyhow::Result<Exit> {
    let missing: Vec<_> = files.iter().filter(|file| !file.exists()).collect();
    if !missing.is_empty() {
        for file in missing {
            terminal::out(&format!("WARN\tDefinition file does not exist: {}\n", file.display()));
        }
        terminal::out("WARN\tInvalid definition file found, stopping execution\n");
        return Ok(Exit::Definition);
    }
    let value = |name: &str| given.value(name);
    // Tracetest ends with 1 where a file is there and cannot be used.
    let plan = Plan::of(files::read_all(files, value)?, value).map_err(|error| anyhow!("{error:#}"))?;
    let Some(mut plan) = plan else { return Ok(Exit::Error) };
    plan.select(&options.selection, &[])?;
    if options.selection.list {
        return Ok(plan.list());
    }
    let wanted = wanted(options, given, plan.files(), client, false).await?;
    let stored = plan.store(client).await?;
    run_stored(options, client, &stored, wanted).await
}

async fn run_stored(
    options: &Options,
    client: &Client,
    stored: &[StoredRunnable],
    wanted: Wanted,
) -> anyhow::Result<Exit> {
    let output = options.target.output.unwrap_or(Output::Pretty);
    let skip_wait = options.legacy.skip_result_wait;
    legacy::run(client, stored, wanted, output, skip_wait, options.junit.as_deref()).await
}

/// Runs files and folders, with our own report, on the named server or on one that is started for them.
async fn run_paths(
    options: &Options,
    given: Given,
    paths: &[PathBuf],
    named: Option<NamedServer>,
) -> anyhow::Result<Exit> {
    if options.target.output.is_some_and(|output| output != Output::Pretty) {
        bail!("--output json and yaml need -f FILE and a server; --report json writes a report for programs");
    }
    let value = |name: &str| given.value(name);
    let Some(mut plan) = Plan::of(files::read_all(paths, value)?, value)? else {
        return Ok(Exit::Definition);
    };
    plan.select(&options.selection, &options.legacy.ids)?;
    if options.selection.list {
        return Ok(plan.list());
    }
    if plan.is_empty() {
        terminal::err("nothing is selected, so nothing is run\n");
        return Ok(Exit::Passed);
    }
    let began = Instant::now();
    let interrupt = Interrupt::listen();
    let (client, server) = connect(options, named).await?;
    let system = match (&server, options.with.is_given()) {
        (Some(own), true) => tokio::select! {
            system = start_system(options, own) => Some(system?),
            () = interrupt.raised() => return Ok(Exit::Interrupted),
        },
        _ => None,
    };
    let wanted = match wanted(options, given, plan.files(), &client, server.is_some()).await {
        Ok(wanted) => wanted,
        Err(error) => {
            if let Some(server) = server {
                server.shutdown().await;
            }
            return Err(error);
        }
    };
    let manner = Manner {
        parallel: options.parallel,
        confirm: options.confirm,
        fail_fast: options.selection.fail_fast,
        stay: if server.is_none() { Stay::Lasting } else { Stay::Run },
        is_quiet: options.reports.iter().any(reports::Wanted::takes_output),
    };
    let reports = plan.run(&client, &wanted, manner, &interrupt).await;
    if let Some(system) = system {
        system.stop().await;
    }
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
    last_run::keep(&reports);
    let summary = report::pretty::summary(&reports, began.elapsed());
    if manner.is_quiet {
        terminal::err(&summary);
    } else {
        terminal::out(&summary);
    }
    let junit = options.junit.clone().map(reports::Wanted::junit);
    for wanted in options.reports.iter().chain(&junit) {
        unwritten.extend(wanted.write(&reports, began.elapsed()).err());
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

/// A client of the named server, or of one that is started and returned, too.
async fn connect(options: &Options, named: Option<NamedServer>) -> anyhow::Result<(Client, Option<Server>)> {
    if let Some(NamedServer { client, file }) = named {
        if let Some(file) = file {
            terminal::err(&format!(
                "running on the server at {}, which {} names; --local runs the tests here\n",
                client.base(),
                file.display()
            ));
        }
        return Ok((client, None));
    }
    let token = OwnToken::random();
    let server = own_server(options, &token).await?;
    if let Some(path) = &options.learned {
        server.teach(learned::read(path)?);
    }
    let client = Client::new(&server.addresses().http.to_string())?;
    Ok((client.with_token(Some(token.text())), Some(server)))
}

/// Starts the system under test.
async fn start_system(options: &Options, server: &Server) -> anyhow::Result<System> {
    let Some(address) = server.addresses().otlp_http else {
        bail!("--with needs OTLP over HTTP; leave out `--otlp-http-addr off`");
    };
    options.with.start(&format!("http://{address}")).await
}

/// The settings of the runs: flags override what is beside the tests, which overrides the server's settings.
async fn wanted(
    options: &Options,
    given: Given,
    files: &[File],
    client: &Client,
    is_own: bool,
) -> anyhow::Result<Wanted> {
    let beside = Beside::of(files)?;
    let vars = options.vars.as_deref().or(options.legacy.environment.as_deref());
    let (variable_set, variable_set_id) = match beside.chosen_set(vars)? {
        ChosenSet::None => (None, None),
        ChosenSet::Read(set) => (Some(set), None),
        ChosenSet::Stored(id) if is_own => bail!(
            "there is no variable set `{id}`: it is no file, and none of the files that were read defines it"
        ),
        ChosenSet::Stored(id) => (None, Some(id)),
    };
    let required_gates = match Some(options.required_gates.clone()).filter(|gates| !gates.is_empty()) {
        Some(gates) => Some(gates.iter().map(|gate| gate.trim().to_owned()).collect()),
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
        variables: given.plain,
        secrets: given.secret,
        variable_set,
        variable_set_id,
        required_gates,
        settings,
        retries: options.retries,
        repeat: options.repeat,
        group: options.legacy.group.clone(),
        metadata: metadata::of_process(),
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
    let Options { otlp, parallel, windows, uninstrumented, with, .. } = options;
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    // The system that is started is told where to send its spans.
    let address = |given: Option<&Listen>, usual: u16| {
        let port = if with.is_given() { 0 } else { usual };
        given.map_or(Some(SocketAddr::new(host, port)), |given| given.address(host))
    };
    let config = Config {
        http: SocketAddr::new(host, 0),
        otlp_grpc: address(otlp.otlp_grpc_addr.as_ref(), OTLP_GRPC_PORT),
        otlp_http: address(otlp.otlp_http_addr.as_ref(), OTLP_HTTP_PORT),
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
