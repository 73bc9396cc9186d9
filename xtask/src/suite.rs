//! `cargo xtask test`: every check of this project, cheapest first.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    dogfood, features, page,
    peers::{
        chromium, clickhouse, jaeger, kafka, opensearch, otelcol, postgres, promlint, strace, systems, tempo,
        zipkin,
    },
    process, rules,
    steps::Steps,
    workspace::cargo,
};

/// The variable with which the number of threads is set by hand.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// The ends of the variables that name peers.
const PEER_VARIABLES: [&str; 12] = [
    "CHROMIUM",
    "CLICKHOUSE",
    "JAEGER",
    "KAFKA",
    "OPENSEARCH",
    "OTELCOL",
    "POSTGRES",
    "PROMLINT",
    "STRACE",
    "SYSTEMS",
    "TEMPO",
    "ZIPKIN",
];

/// Whether tests use real peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peers {
    /// They do; a test that does not find its peer fails.
    Required,
    /// They do not; tests that need one return at once.
    Skipped,
}

/// The peers that tests find through their environment.
struct Environment {
    chromium: PathBuf,
    clickhouse: clickhouse::ClickHouse,
    jaeger: jaeger::Jaeger,
    /// It writes to OpenSearch.
    jaeger_on_opensearch: jaeger::Jaeger,
    kafka: PathBuf,
    opensearch: opensearch::OpenSearch,
    otelcol: PathBuf,
    postgres: postgres::Postgres,
    promlint: PathBuf,
    strace: PathBuf,
    systems: PathBuf,
    tempo: tempo::Tempo,
    zipkin: zipkin::Zipkin,
}

/// Runs every check; the first failing step ends the run.
pub(crate) fn run(peers: Peers) -> Result<()> {
    let mut steps = Steps::new();
    let mut count = Count::default();
    let result = checks(peers, &mut steps, &mut count);
    println!("\n{}", steps.summary());
    if peers == Peers::Skipped {
        println!(
            "left out by --no-peers: every test against Chromium, ClickHouse, Jaeger, Kafka, OpenSearch, PostgreSQL, Prometheus' linter, strace, Tempo, \
             Zipkin, the OpenTelemetry Collector and the systems of examples/"
        );
    }
    println!("{} passed, {} failed", count.passed, count.failed.max(u64::from(result.is_err())));
    result
}

fn checks(peers: Peers, steps: &mut Steps, count: &mut Count) -> Result<()> {
    steps.step("tools", tools)?;
    steps.step("house rules", rules::report)?;
    steps.step("formatting", || {
        process::run(&mut cargo(["fmt", "--all", "--check"])).context("`cargo fmt --all` puts it right")
    })?;
    steps.step("lints", || {
        process::run(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    })?;
    steps.step("documentation", || {
        let mut doc = cargo(["doc", "--quiet", "--workspace", "--no-deps"]);
        process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    steps.step("features of the telemetry crate", features::check)?;
    if peers == Peers::Required {
        steps.step("checks of the page", page::check)?;
    }
    let environment = match peers {
        Peers::Required => Some(peers_of_tests(steps)?),
        Peers::Skipped => None,
    };
    steps.step("tests and documentation examples", || cargo_test(environment.as_ref(), count))?;
    if peers == Peers::Required {
        steps.step("tests of the server with itself", dogfood::run)?;
    }
    Ok(())
}

/// Installs the peers of tests, and starts those that all tests share.
fn peers_of_tests(steps: &mut Steps) -> Result<Environment> {
    // They take some seconds to start, meanwhile the others are installed.
    let mut opensearch = steps.step("OpenSearch", opensearch::start)?;
    let mut zipkin = steps.step("Zipkin", zipkin::start)?;
    Ok(Environment {
        chromium: steps.step("Chromium", chromium::install)?,
        clickhouse: steps.step("ClickHouse", clickhouse::start)?,
        jaeger: steps.step("Jaeger", jaeger::start)?,
        kafka: steps.step("Kafka", kafka::install)?,
        otelcol: steps.step("OpenTelemetry Collector", otelcol::install)?,
        postgres: steps.step("PostgreSQL", postgres::start)?,
        promlint: steps.step("Prometheus' linter", promlint::install)?,
        strace: steps.step("strace", strace::install)?,
        systems: steps.step("example systems", systems::install)?,
        tempo: steps.step("Tempo", tempo::start)?,
        jaeger_on_opensearch: steps.step("Jaeger on OpenSearch", || {
            opensearch.wait()?;
            zipkin.wait()?;
            jaeger::start_on(&opensearch.url)
        })?,
        opensearch,
        zipkin,
    })
}

/// Checks for the tools that the build needs, before it fails late with an unclear message.
fn tools() -> Result<()> {
    process::require("cc", "install a C compiler (the package `gcc` or `clang`)")?;
    for component in ["fmt", "clippy"] {
        process::output(cargo([component, "--version"]).stdin(Stdio::null()))
            .with_context(|| format!("cargo {component} is missing: rustup component add rustfmt clippy"))?;
    }
    Ok(())
}

fn cargo_test(environment: Option<&Environment>, count: &mut Count) -> Result<()> {
    let mut command = cargo(["test", "--workspace", "--no-fail-fast"]);
    tell(&mut command, environment);
    if std::env::var_os(TEST_THREADS).is_none() {
        command.env(TEST_THREADS, test_threads().to_string());
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("failed to start cargo test")?;
    let stdout = child.stdout.take().context("cargo test has no output to read")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("failed to read what cargo test says")?;
        println!("{line}");
        count.take(&line);
    }
    let status = child.wait().context("failed to wait for cargo test")?;
    if !count.failures.is_empty() {
        let names: Vec<_> = count.failures.iter().map(String::as_str).collect();
        bail!("{} tests failed: {}", count.failed, names.join(", "));
    }
    process::succeeded(&command, status)
}

/// The number of tests that run at the same time: twice the processors, because most tests wait for timers, disks and
/// other processes.
fn test_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, Into::into)
}

fn tell(command: &mut Command, environment: Option<&Environment>) {
    match environment {
        Some(environment) => {
            command.env("QUALITYTRACE_REQUIRE_PEERS", "1");
            command.env("QUALITYTRACE_TEST_CHROMIUM", &environment.chromium);
            command.env("QUALITYTRACE_TEST_CLICKHOUSE", &environment.clickhouse.url);
            let jaeger::Jaeger { grpc, query, otlp, .. } = &environment.jaeger;
            command.env("QUALITYTRACE_TEST_JAEGER", format!("{grpc} {query} {otlp}"));
            let on_opensearch =
                format!("{} {}", environment.opensearch.url, environment.jaeger_on_opensearch.otlp);
            command.env("QUALITYTRACE_TEST_OPENSEARCH", on_opensearch);
            let tempo::Tempo { grpc, http, otlp, .. } = &environment.tempo;
            command.env("QUALITYTRACE_TEST_TEMPO", format!("{grpc} {http} {otlp}"));
            command.env("QUALITYTRACE_TEST_ZIPKIN", &environment.zipkin.url);
            command.env("QUALITYTRACE_TEST_KAFKA", &environment.kafka);
            command.env("QUALITYTRACE_TEST_OTELCOL", &environment.otelcol);
            command.env("QUALITYTRACE_TEST_POSTGRES", &environment.postgres.url);
            command.env("QUALITYTRACE_TEST_PROMLINT", &environment.promlint);
            command.env("QUALITYTRACE_TEST_STRACE", &environment.strace);
            command.env("QUALITYTRACE_TEST_SYSTEMS", &environment.systems);
        }
        None => {
            command.env_remove("QUALITYTRACE_REQUIRE_PEERS");
            for name in PEER_VARIABLES {
                command.env_remove(format!("QUALITYTRACE_TEST_{name}"));
            }
        }
    }
}

/// The totals of all test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    failures: BTreeSet<String>,
}

impl Count {
    /// Reads one line of `cargo test`.
    fn take(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            let number = |unit: &str| -> u64 {
                let words = result.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect::<Vec<_>>();
                words
                    .windows(2)
                    .find(|pair| pair[1] == unit)
                    .and_then(|pair| pair[0].parse().ok())
                    .unwrap_or(0)
            };
            self.passed += number("passed");
            self.failed += number("failed");
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failures.insert(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_all_programs_are_added_up() {
        let said = "\
test lang::a ... ok
test lang::b ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s
test result: ok. 40 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.20s";
        let mut count = Count::default();
        said.lines().for_each(|line| count.take(line));
        let failures = BTreeSet::from(["lang::b".to_owned()]);
        assert_eq!(count, Count { passed: 41, failed: 1, failures });
    }
}
