//! `qualitytrace run`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use futures_util::{StreamExt, TryStreamExt};
use qualitytrace_core::definition::{Resource, Test, TestSuite};
use qualitytrace_core::wait::Policy;
use qualitytrace_server::config::Config;
use qualitytrace_server::limits::Limits;
use qualitytrace_server::server::Server;
use qualitytrace_server::wire::Outcome;

use super::Exit;
use super::files::{self, File};
use super::serve::{OtlpOptions, start_logging};
use crate::client::Client;
use crate::report::{self, Ending, TestReport};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, or folders to search
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Server to run them on; without it, one is started for this run only
    #[arg(long, short = 's', alias = "server-url", value_name = "URL", env = "QUALITYTRACE_SERVER_URL")]
    server: Option<String>,
    #[command(flatten)]
    otlp: OtlpOptions,
    /// Variable for the tests; may be given more than once
    #[arg(long = "var", value_name = "NAME=VALUE")]
    variables: Vec<Variable>,
    /// Tests under way at one time
    #[arg(long, value_name = "N", default_value_t = 16)]
    parallel: usize,
    /// Write a JUnit report
    #[arg(long, short = 'j', value_name = "FILE")]
    junit: Option<PathBuf>,
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
    start_logging("warn");
    let Some(plan) = Plan::read(&files::find(&options.paths)?)? else { return Ok(Exit::Error) };
    let began = Instant::now();
    let (client, server) = match &options.server {
        Some(url) => (Client::new(url)?, None),
        None => {
            let server = own_server(&options.otlp).await?;
            (Client::new(&server.addresses().http.to_string())?, Some(server))
        }
    };
    let variables: Vec<(String, String)> = options.variables.into_iter().map(|Variable(name, value)| (name, value)).collect();
    let reports = plan.run(&client, &variables, options.parallel).await;
    if let Some(server) = server {
        server.shutdown().await;
    }
    let reports = reports?;
    report::out(&report::pretty::summary(&reports, began.elapsed()));
    if let Some(path) = &options.junit {
        let xml = report::junit::document(&reports, began.elapsed());
        std::fs::write(path, xml).with_context(|| format!("failed to write the JUnit report {}", path.display()))?;
    }
    Ok(exit(&reports))
}

/// What the reports amount to.
pub(crate) fn exit(reports: &[TestReport]) -> Exit {
    if reports.iter().all(|report| report.outcome() == Outcome::Passed) { Exit::Passed } else { Exit::NotPassed }
}

/// A server inside this process: a free port for the API, the usual ones for OTLP, nothing kept.
async fn own_server(otlp: &OtlpOptions) -> anyhow::Result<Server> {
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let config = Config {
        http: SocketAddr::new(host, 0),
        otlp_grpc: otlp.grpc(host),
        otlp_http: otlp.http(host),
        database_url: "sqlite::memory:".to_owned(),
        wait: Policy::default(),
        limits: Limits::default(),
    };
    Ok(Server::start(config).await?)
}

/// What is to be run: tests on their own, and suites whose steps follow one another.
pub(crate) struct Plan {
    sequences: Vec<Sequence>,
}

struct Sequence {
    suite: Option<String>,
    steps: Vec<Step>,
}

struct Step {
    name: String,
    definition: StepDefinition,
}

/// Where a step's test comes from.
enum StepDefinition {
    /// A file, sent to the server first.
    File { source: String, format: qualitytrace_core::definition::Format },
    /// A test that the server knows.
    Stored { id: String },
}

impl Plan {
    /// Reads the files. `None` when something is wrong with them, which has been said by then.
    pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Option<Self>> {
        let files: Vec<File> = paths.iter().map(|path| File::read(path)).collect::<Result<_, _>>()?;
        Self::of(files)
    }

    /// Plans the tests of these files. Tests that are steps of a suite among them are run in that suite only.
    pub(crate) fn of(files: Vec<File>) -> anyhow::Result<Option<Self>> {
        for file in &files {
            report::out(&file.complaints());
        }
        if !files.iter().all(File::is_usable) {
            return Ok(None);
        }
        let mut tests: Vec<(PathBuf, Step, Option<String>)> = Vec::new();
        let mut suites: Vec<(PathBuf, TestSuite)> = Vec::new();
        for file in files {
            for document in file.reading.documents {
                match document.resource {
                    Resource::Test(test) => {
                        let source = file.source[document.span.clone()].to_owned();
                        let id = test.id.clone();
                        tests.push((file.path.clone(), step(&test, source, file.format), id));
                    }
                    Resource::TestSuite(suite) => suites.push((file.path.clone(), suite)),
                    _ => {}
                }
            }
        }
        let mut sequences = Vec::new();
        for (path, suite) in suites {
            sequences.push(suite_sequence(&path, &suite, &mut tests)?);
        }
        sequences.extend(tests.into_iter().map(|(_, step, _)| Sequence { suite: None, steps: vec![step] }));
        if sequences.is_empty() {
            bail!("the files hold no test; a test has `type: Test`");
        }
        Ok(Some(Self { sequences }))
    }

    /// Runs everything, as much at a time as allowed, and shows each test as it ends.
    pub(crate) async fn run(
        &self,
        client: &Client,
        variables: &[(String, String)],
        parallel: usize,
    ) -> anyhow::Result<Vec<TestReport>> {
        let total: usize = self.sequences.iter().map(|sequence| sequence.steps.len()).sum();
        let progress = Progress::new(total);
        let runs = self.sequences.iter().map(|sequence| sequence.run(client, variables.to_vec(), &progress));
        let reports: Vec<Vec<TestReport>> = futures_util::stream::iter(runs).buffered(parallel.max(1)).try_collect().await?;
        Ok(reports.into_iter().flatten().collect())
    }
}
