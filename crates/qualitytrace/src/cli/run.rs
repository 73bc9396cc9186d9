//! `qualitytrace run`.

mod confirm;
mod durations;
mod file_settings;
mod follow;
pub(in crate::cli) mod interrupt;
mod last_run;
mod learned;
pub(in crate::cli) mod legacy;
mod metadata;
mod of_project;
mod own_server;
mod parallel;
pub(in crate::cli) mod plan;
pub(in crate::cli) mod reports;
mod selection;
mod system_under_test;
mod trust;
mod variables;
mod windows;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use qualitytrace_core::gates::Gate;
use qualitytrace_server::serve::server::Server;
use qualitytrace_server::wire::request::RunSettings;

use self::durations::seconds_or_duration;
use self::file_settings::{ChosenSet, FileSettings};
use self::interrupt::Interrupt;
use self::legacy::RunSubject;
use self::of_project::{Gives, ProjectSettings};
use self::own_server::{OtlpOptions, own_server};
use self::plan::{Plan, PlanOptions, ServerLifetime, StoredRunnable};
use self::system_under_test::System;
use self::variables::VariableArguments;
use self::windows::Windows;
use super::Exit;
use super::files::{self, File};
use super::own_token::{self, OwnToken};
use super::project::Project;
use super::resource;
use super::serve::start_logging;
use super::target::{CONNECTION, NamedServer, Output, Target};
use crate::client::contact::RECONNECT_TIMEOUT;
use crate::client::{Client, RunOptions};
use crate::report::{self, Level, Outcome, TestReport};
use crate::terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, folders to search, or patterns like 'tests/**/*.yaml' [default: `run.paths` of the project file]
    #[arg(value_name = "FILE|DIR|GLOB")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    project: ProjectSettings,
    #[command(flatten)]
    legacy: legacy::Flags,
    #[command(flatten)]
    with: system_under_test::Options,
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
    /// Run each test this many times, and each suite from its first step to its last; overrides the `repeat` of the tests
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
    /// Services that send no spans, besides those that tests, profiles and the server name: hosts, addresses,
    /// `*.DOMAIN`, destinations
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    uninstrumented: Vec<String>,
    /// Show only what did not pass, and the summary; not `--quiet`, which is about waiting
    #[arg(long, short = 'q', conflicts_with = "verbose")]
    failures_only: bool,
    #[command(flatten)]
    reports: reports::Options,
    #[command(flatten)]
    target: Target,
    /// Start a server for this run only, whatever server is configured
    #[arg(long, conflicts_with_all = ["server_url", "files", "skip_result_wait"], help_heading = CONNECTION)]
    local: bool,
    /// File with the token to send to the server; overrides --token
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    token_file: Option<PathBuf>,
    /// How long to retry while the server is unavailable, like 2m; 1m by default
    #[arg(long, alias = "patience", value_name = "DURATION", value_parser = seconds_or_duration, help_heading = CONNECTION)]
    reconnect_timeout: Option<Duration>,
}

impl Options {
    /// Adds the flags that were given before the command.
    pub(crate) fn on(self, before: Target) -> Self {
        Self { target: self.target.or(before), ..self }
    }

    /// The variable set that was named: a file, or an id.
    fn set(&self) -> Option<&str> {
        self.vars.as_deref().or(self.legacy.environment.as_deref())
    }

    /// The id of the variable set that was named. A file is applied to the server first, as Tracetest does.
    async fn applied_set(&self, client: &Client) -> anyhow::Result<Option<String>> {
        Ok(match self.set() {
            Some(set) if Path::new(set).is_file() => {
                Some(resource::apply::variable_set(client, Path::new(set)).await?)
            }
            other => other.map(ToOwned::to_owned),
        })
    }

    /// How much is shown of tests as they end.
    fn level(&self) -> Level {
        match (self.failures_only, self.target.verbose) {
            _ if self.takes_output() => Level::Nothing,
            (true, _) => Level::Failures,
            (false, true) => Level::Details,
            (false, false) => Level::Usual,
        }
    }

    /// Whether standard output belongs to a report or a result that a program reads.
    fn takes_output(&self) -> bool {
        self.reports.take_output() || self.target.output.is_some_and(|output| output != Output::Pretty)
    }

    /// Takes `--output json` for the JSON report on standard output.
    fn take_output_as_report(&mut self) -> anyhow::Result<()> {
        match self.target.output() {
            Output::Pretty => {}
            Output::Json => self.reports.add_json(),
            Output::Yaml => bail!("`run` reports in JSON, not in YAML: write --output json"),
        }
        Ok(())
    }

    /// Prints diagnostics of the files, away from an output that a program reads.
    fn print_diagnostics(&self) -> fn(&str) {
        if self.takes_output() { terminal::err } else { terminal::out }
    }

    /// Takes over what flags cannot say of the project file. `given` has its other values as defaults.
    pub(crate) fn take_project(&mut self, project: Project, given: &ArgMatches) {
        let is_default = |flag: &str| given.value_source(flag) == Some(ValueSource::DefaultValue);
        self.project.gives = Gives {
            with: is_default("with"),
            paths: is_default("paths"),
            token_file: is_default("token_file"),
        };
        if is_default("server_url") {
            self.target.project = Some(project.file().to_owned());
        }
        if self.project.gives.with {
            self.with.folder = Some(project.folder());
            // A server that the user has configured for other projects is not meant.
            self.local |= self.target.named_server().is_none();
        }
        self.reports.are_of_project = is_default("reports");
        self.variables.of_project.clone_from(&project.variables);
        self.project.file = Some(project);
    }

    /// What is to be run. Fails on flags that do not fit together.
    fn asked(&self) -> anyhow::Result<RunSubject> {
        let asked = self.legacy.asked(&self.paths, Path::exists);
        let mut wrong = asked.as_ref().err().cloned().unwrap_or_default();
        if self.legacy.skip_result_wait && self.reports.junit.is_some() {
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
        let token = self.token_file.as_deref().map(own_token::read).transpose()?;
        let (own, given) = if self.project.gives.token_file { (token, None) } else { (None, token) };
        let target = self.target.clone().with_token(given);
        let Some(named) = target.named_client()? else { return Ok(None) };
        let client = named.client.with_reconnect_timeout(self.reconnect_timeout.unwrap_or(RECONNECT_TIMEOUT));
        let client = if own.is_some() { client.with_token(own) } else { client };
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
        Ok(())
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "write a whole number above 0".to_owned())
}

/// Runs the tests of every file and reports.
pub(crate) async fn run(mut options: Options) -> anyhow::Result<Exit> {
    start_logging(if options.target.verbose { "warn,qualitytrace::client=debug" } else { "warn" }, None);
    if options.legacy.environment.is_some() {
        terminal::err("Flag --environment has been deprecated, use --vars instead\n");
    }
    let asked = options.asked()?;
    options.with.check()?;
    let server = options.server()?;
    if matches!((&asked, &server), (RunSubject::Paths(_), _) | (RunSubject::Files(_), None)) {
        options.take_output_as_report()?;
    }
    options.windows.check(server.is_none())?;
    if let Some(file) = &options.learned {
        files::require_writable(file).with_context(|| format!("--learned {}", file.display()))?;
    }
    options.reports.require_writable()?;
    if let Some(server) = &server {
        options.require_own_server(server)?;
    }
    if matches!((&asked, &server), (RunSubject::Stored { .. }, _) | (RunSubject::Files(_), Some(_))) {
        options.reports.require_only_junit()?;
    }
    let given = options.variables.read()?;
    match (asked, server) {
        (RunSubject::Stored { ids, is_suite }, server) => {
            let client = match server {
                Some(server) => server.client,
                None => options.target.client()?,
            };
            let stored = legacy::stored(&client, &ids, is_suite).await?;
            let set = options.applied_set(&client).await?;
            let wanted = wanted(&options, set.as_deref(), given, &[], &client, false).await?;
            run_stored(&options, &client, &stored, wanted).await
        }
        (RunSubject::Files(files), Some(server)) => {
            Box::pin(run_files(&options, given, &files, &server.client)).await
        }
        (RunSubject::Files(paths) | RunSubject::Paths(paths), server) => {
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
    given: VariableArguments,
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
    let plan = Plan::of(files::read_all(files, value)?, value, options.print_diagnostics());
    let Some(mut plan) = plan.map_err(|error| anyhow!("{error:#}"))? else { return Ok(Exit::Error) };
    plan.select(&options.selection, &[])?;
    if options.selection.list {
        return Ok(plan.list());
    }
    let set = options.applied_set(client).await?;
    let wanted = wanted(options, set.as_deref(), given, plan.files(), client, false).await?;
    let stored = plan.store(client).await?;
    run_stored(options, client, &stored, wanted).await
}

async fn run_stored(
    options: &Options,
    client: &Client,
    stored: &[StoredRunnable],
    wanted: RunOptions,
) -> anyhow::Result<Exit> {
    let manner = legacy::LegacyRunOptions {
        output: options.target.output(),
        skip_wait: options.legacy.skip_result_wait,
        junit: options.reports.junit.as_deref(),
        confirm: options.confirm,
        fail_fast: options.selection.fail_fast,
        fail_on_flaky: options.fail_on_flaky,
    };
    legacy::run(client, stored, wanted, manner).await
}

/// Runs files and folders, with our own report, on the named server or on one that is started for them.
async fn run_paths(
    options: &Options,
    given: VariableArguments,
    paths: &[PathBuf],
    named: Option<NamedServer>,
) -> anyhow::Result<Exit> {
    let value = |name: &str| given.value(name);
    let Some(mut plan) = Plan::of(files::read_all(paths, value)?, value, options.print_diagnostics())? else {
        return Ok(Exit::Definition);
    };
    plan.select(&options.selection, &options.legacy.ids)?;
    if options.selection.list {
        return Ok(plan.list());
    }
    if plan.is_empty() {
        terminal::err("nothing is selected, so nothing is run\n");
        // The next program finds an empty report, and not a missing one or that of an earlier run.
        failed_writes(options.reports.write(&[], Duration::ZERO))?;
        return Ok(Exit::Passed);
    }
    if named.is_none() {
        options.project.require_trust(&options.with, &plan)?;
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
    let wanted = match wanted(options, options.set(), given, plan.files(), &client, server.is_some()).await {
        Ok(wanted) => wanted,
        Err(error) => {
            if let Some(server) = server {
                server.shutdown().await;
            }
            return Err(error);
        }
    };
    let manner = PlanOptions {
        parallel: options.parallel,
        confirm: options.confirm,
        fail_fast: options.selection.fail_fast,
        stay: if server.is_none() { ServerLifetime::Lasting } else { ServerLifetime::Run },
        level: options.level(),
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
    if manner.level == Level::Nothing {
        terminal::err(&summary);
    } else {
        terminal::out(&summary);
    }
    unwritten.extend(options.reports.write(&reports, began.elapsed()));
    failed_writes(unwritten)?;
    if reports.is_empty() {
        bail!("nothing was run: the suites of these files have no steps");
    }
    Ok(if interrupt.is_raised() { Exit::Interrupted } else { exit(&reports, options.fail_on_flaky) })
}

/// Fails with the last of the files that could not be written; the others are printed.
fn failed_writes(mut unwritten: Vec<anyhow::Error>) -> anyhow::Result<()> {
    let Some(last) = unwritten.pop() else { return Ok(()) };
    for error in unwritten {
        terminal::err(&format!("{} {error:#}\n", terminal::style::error("error:")));
    }
    Err(last)
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

/// The settings of the runs: flags override what is beside the tests, which overrides the server's settings. `set` is the
/// variable set that was named.
async fn wanted(
    options: &Options,
    set: Option<&str>,
    given: VariableArguments,
    files: &[File],
    client: &Client,
    is_own: bool,
) -> anyhow::Result<RunOptions> {
    let beside = FileSettings::of(files)?;
    let (variable_set, variable_set_id) = match beside.chosen_set(set)? {
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
    let mut settings = RunSettings { uninstrumented: options.uninstrumented.clone(), ..beside.settings };
    // A server of this run has them already, unless a profile beside the tests replaces its own.
    if options.windows.are_given() && (!is_own || settings.polling_profile.is_some()) {
        let mut profile = match settings.polling_profile.take() {
            Some(profile) => profile,
            None => client.usual_profile().await?,
        };
        options.windows.put_into(&mut profile);
        settings.polling_profile = Some(profile);
    }
    Ok(RunOptions {
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
