//! `cargo xtask bench NAME`: this server beside a real OpenTelemetry Collector, in one run on one machine.
//!
//! The system under test has one core and the load generator another; a figure means little without the other system's.

use anyhow::{Context as _, Result, bail};

use crate::peers::{jaeger, postgres, tempo};

mod build;
mod ingest;
mod lines;
mod overload;
mod page;
mod record;
mod startup;
mod subject;

use record::Record;

pub(crate) const USAGE: &str = "\
cargo xtask bench NAME [--rounds N] [--seconds S] [--runs N] [--write-docs]

  ingest      spans/s acknowledged over gRPC, gRPC with gzip, and HTTP; processor, memory, refused spans
  overload    three times the rate it can take: what is refused, what memory does, what still gets through
  startup     time until ready, memory when idle, size of the binary
  judge       time to judge large traces
  telemetry   what recording a span costs, beside the OpenTelemetry SDK's batch processor
  runs        many runs at once: runs/s, time to verdict, processor and memory, with few and with many stored runs
  memory      memory over 100,000 runs of 1,000 tests; --runs N instead
  waiting     verdicts on systems whose spans come late or whose exporters are slow, silent or away: how many are wrong, how
              long after the last span and after the evidence they come; --runs N instead of 1,000
  sources     the same late spans, read from Jaeger and Tempo by 10 and by 200 runs at once; --runs N instead of 500
  cli         27 tests of the demo shop in parallel, 100 times; what one test costs besides trigger and wait; --runs N instead
  traces      large traces over the API: columns, selection, dry run, one span, exports, and a trace that is followed live
  page        the page in a real Chromium: large traces opened, scrolled, searched and streamed, heap and bytes; beside
              Zipkin's own page
  build       a release build from nothing: processor time and crates; --against REVISION builds another revision first
  api         how long lists take with 10,000 tests and 100,000 runs stored, in SQLite and PostgreSQL

Results go to the terminal and to target/bench/NAME.json; --write-docs puts them into docs/performance.md.";

/// Options of a benchmark.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How often each figure is measured; the median is reported.
    rounds: u32,
    /// Seconds of each measurement, after a warm-up.
    seconds: u32,
    /// Runs of each kind, for benchmarks that take a number of runs.
    runs: Option<u32>,
    /// A revision to compare with.
    against: Option<String>,
    write_docs: bool,
}

/// Runs the benchmark that the arguments name.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let [name, rest @ ..] = args else {
        println!("{USAGE}");
        return Ok(());
    };
    let options = Options::parse(rest)?;
    let record = match *name {
        "ingest" => ingest::run(&options)?,
        "overload" => overload::run(&options)?,
        "startup" => startup::run(&options)?,
        "build" => build::run(&options)?,
        "judge" => lines::run("judge", &[], &[])?,
        "api" => {
            let postgres = postgres::start()?;
            lines::run("api", &[("QUALITYTRACE_TEST_POSTGRES", &postgres.url)], &[])?
        }
        "telemetry" => lines::run("telemetry", &[], &[])?,
        "runs" => lines::run("runs", &[], &[])?,
        "memory" => lines::run("memory", &[], &runs_of(&options))?,
        "traces" => {
            let jaeger = jaeger::start()?;
            let arguments = ["--jaeger", &jaeger.query, "--jaeger-otlp", &jaeger.otlp].map(str::to_owned);
            lines::run("traces", &[], &arguments)?
        }
        "sources" => sources(&options)?,
        "cli" => lines::run("cli", &[], &runs_of(&options))?,
        "page" => page::run(&options)?,
        "waiting" => lines::run("waiting", &[], &runs_of(&options))?,
        other => bail!("`{other}` is not a benchmark of this project\n\n{USAGE}"),
    };
    record.publish(options.write_docs)
}

/// Verdicts on traces in real data stores, which listen on free loopback ports.
fn sources(options: &Options) -> Result<Record> {
    let (jaeger, tempo) = (jaeger::start()?, tempo::start()?);
    let mut arguments = runs_of(options);
    arguments.extend([
        "--jaeger".to_owned(),
        jaeger.grpc.to_string(),
        jaeger.query.clone(),
        jaeger.otlp.clone(),
    ]);
    arguments.extend(["--tempo".to_owned(), tempo.grpc.to_string(), tempo.http.clone(), tempo.otlp.clone()]);
    lines::run("sources", &[], &arguments)
}

/// The arguments of an example that takes a number of runs.
fn runs_of(options: &Options) -> Vec<String> {
    options.runs.map(|runs| vec!["--runs".to_owned(), runs.to_string()]).unwrap_or_default()
}

impl Options {
    fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Self { rounds: 3, seconds: 5, runs: None, against: None, write_docs: false };
        let mut args = args.iter();
        while let Some(name) = args.next() {
            if *name == "--against" {
                options.against = Some(args.next().context("`--against` needs a revision")?.to_string());
                continue;
            }
            let mut number = || -> Result<u32> {
                let text = args.next().with_context(|| format!("`{name}` needs a number"))?;
                text.parse()
                    .ok()
                    .filter(|n| *n > 0)
                    .with_context(|| format!("`{name} {text}` is not a number above 0"))
            };
            match *name {
                "--rounds" => options.rounds = number()?,
                "--seconds" => options.seconds = number()?,
                "--runs" => options.runs = Some(number()?),
                "--write-docs" => options.write_docs = true,
                other => bail!("`{other}` is not an option of a benchmark\n\n{USAGE}"),
            }
        }
        Ok(options)
    }
}
