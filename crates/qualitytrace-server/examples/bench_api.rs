//! Benchmark of lists: 10,000 tests and 100,000 runs, one JSON line for each request and database.
//!
//! `cargo run --release -p qualitytrace-server --example bench_api [TESTS] [RUNS] [REQUESTS]`; PostgreSQL is measured
//! if `QUALITYTRACE_TEST_POSTGRES` names a server.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints what it measured")]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use qualitytrace_core::definition::{self, Format};
use qualitytrace_core::time::Timestamp;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use qualitytrace_server::storage::store::{NewDefinition, Store};
use serde_json::{Value, json};
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Executor as _};

/// Requests before the measurement.
const WARM_UP: usize = 50;
/// Definitions that are stored in one batch.
const BATCH: usize = 1_000;
/// One suite for so many tests.
const TESTS_PER_SUITE: usize = 10;
/// How the database was filled.
const NOTE: &str = "Tests and suites are stored by the server's own code. One run of one test is carried out for real; \
                    its row and its events are then copied by SQL to all other tests and numbers. One client asks, one \
                    request at a time. `augmented`: with versions and a summary of the runs of each test.";

/// The requests: a path, and whether augmented.
const REQUESTS: [(&str, bool); 12] = [
    ("/api/tests", false),
    ("/api/tests", true),
    ("/api/tests?take=20&skip=1980", true),
    ("/api/tests?sortBy=name&sortDirection=asc&skip=5000", true),
    ("/api/tests?sortBy=last_run", true),
    ("/api/tests?query=test%20777", true),
    ("/api/tests?outcome=failed", true),
    ("/api/tests?outcome=passed&tag=smoke", true),
    ("/api/tests?trigger=http&sortBy=name", true),
    ("/api/tests/test-777/run", false),
    ("/api/testsuites", true),
    ("/api/resources", true),
];

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let number = |at: usize, default: usize| arguments.get(at).copied().unwrap_or(default);
    let size = Size { tests: number(0, 10_000), runs: number(1, 100_000), requests: number(2, 2_000) };
    match measure_all(size).await {
        Ok(()) => {
            println!("{}", json!({ "note": NOTE }));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Size {
    tests: usize,
    runs: usize,
    requests: usize,
}

async fn measure_all(size: Size) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite://{}", folder.path().join("bench.db").display());
    measure("SQLite", &file, size).await?;
    match std::env::var("QUALITYTRACE_TEST_POSTGRES") {
        Ok(server) => measure("PostgreSQL", &fresh(&server).await?, size).await,
        Err(_) => {
            eprintln!("PostgreSQL is left out: QUALITYTRACE_TEST_POSTGRES is not set");
            Ok(())
        }
    }
}

/// Creates a new database on a server.
async fn fresh(server: &str) -> Result<String, Failure> {
    sqlx::any::install_default_drivers();
    let name = format!("bench_{:016x}", rand::random::<u64>());
    let mut connection = AnyConnection::connect(server).await?;
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
    let (base, query) = server.split_once('?').unwrap_or((server, ""));
    let (base, _) = base.rsplit_once('/').ok_or("the URL names no database")?;
    Ok(format!("{base}/{name}?{query}").trim_end_matches('?').to_owned())
}

async fn measure(database: &str, url: &str, size: Size) -> Result<(), Failure> {
    Bench::define(url, size).await?;
    let bench = Bench::start(url).await?;
    bench.run_once().await?;
    // The same with a single run: the number of stored runs must not matter.
    bench.ask(database, size, 1, "/api/tests", true).await?;
    bench.server.shutdown().await;
    multiply(url, size).await?;
    let bench = Bench::start(url).await?;
    for (path, augmented) in REQUESTS {
        bench.ask(database, size, size.runs, path, augmented).await?;
    }
    bench.server.shutdown().await;
    Ok(())
}

struct Bench {
    server: Server,
    client: reqwest::Client,
    base: String,
}

impl Bench {
    async fn start(url: &str) -> Result<Self, Failure> {
        let config = Config {
            http: SocketAddr::from(([127, 0, 0, 1], 0)),
            otlp_grpc: None,
            otlp_http: None,
            database_url: url.to_owned(),
            ..Config::default()
        };
        let server = Server::start(config).await?;
        let base = format!("http://{}", server.addresses().http);
        Ok(Self { server, client: reqwest::Client::builder().no_proxy().no_gzip().build()?, base })
    }

    /// Stores the tests, and suites of some of them, before the server starts.
    async fn define(url: &str, size: Size) -> Result<(), Failure> {
        let store = Store::open(url).await?;
        let tests = (0..size.tests).map(|at| {
            let request = json!({ "method": "GET", "url": "${var:BASE}/healthz" });
            json!({ "type": "Test", "spec": {
                "id": format!("test-{at}"), "name": format!("Test {at}"), "description": "measured",
                "trigger": { "type": "http", "httpRequest": request }, "skipTraceCollection": true,
                "tags": if at % 7 == 0 { json!(["smoke"]) } else { json!([]) },
                "specs": [{ "selector": "span[name=\"Tracetest trigger\"]", "assertions": ["attr:tracetest.response.status = 200"] }],
            }})
        });
        let suites = (0..size.tests / TESTS_PER_SUITE).map(|at| {
            let steps: Vec<String> = (0..3).map(|step| format!("test-{}", at * TESTS_PER_SUITE + step)).collect();
            json!({ "type": "TestSuite", "spec": { "id": format!("suite-{at}"), "name": format!("Suite {at}"), "steps": steps } })
        });
        let texts: Vec<String> = tests.chain(suites).map(|document| document.to_string()).collect();
        let mut created = Timestamp::from_nanos(1_700_000_000_000_000_000);
        for texts in texts.chunks(BATCH) {
            let mut new = Vec::with_capacity(texts.len());
            for text in texts {
                let document = definition::read(text, Format::Json).documents.pop().ok_or("no definition")?;
                let id = document.resource.id().ok_or("no id")?.to_owned();
                new.push(NewDefinition::of(&document.resource, &id, Format::Json, text));
            }
            created = created + Duration::from_secs(1);
            store.put_all(&new, "measured", created).await?.map_err(|(at, put)| format!("{at}: {put:?}"))?;
        }
        store.close().await;
        Ok(())
    }

    /// Executes one run.
    async fn run_once(&self) -> Result<(), Failure> {
        let runs = format!("{}/api/tests/test-0/run", self.base);
        let variables = json!({ "variables": [{ "key": "BASE", "value": self.base }] });
        self.client.post(&runs).json(&variables).send().await?.error_for_status()?;
        loop {
            let run: Value = self.client.get(format!("{runs}/1")).send().await?.json().await?;
            match run["state"].as_str() {
                Some("FINISHED") => return Ok(()),
                Some(
                    "CREATED" | "EXECUTING" | "AWAITING_TRACE" | "ANALYZING_TRACE" | "AWAITING_TEST_RESULTS",
                ) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                other => return Err(format!("the run ended as {other:?}").into()),
            }
        }
    }

    async fn ask(
        &self,
        database: &str,
        size: Size,
        runs: usize,
        path: &str,
        augmented: bool,
    ) -> Result<(), Failure> {
        let address = format!("{}{path}", self.base);
        let mut times = Vec::with_capacity(size.requests);
        for round in 0..WARM_UP + size.requests {
            let request = self.client.get(&address).header("X-Tracetest-Augmented", augmented.to_string());
            let begin = Instant::now();
            let bytes = request.send().await?.error_for_status()?.bytes().await?;
            if round >= WARM_UP {
                times.push(begin.elapsed());
            }
            assert!(bytes.len() > 100, "{path} is answered with nothing");
        }
        times.sort_unstable();
        let at = |share: usize| milliseconds(times[(times.len() - 1) * share / 100]);
        let line = json!({
            "database": database, "tests": size.tests, "runs": runs, "request": path, "augmented": augmented,
            "p50 ms": at(50), "p99 ms": at(99), "max ms": at(100),
        });
        println!("{line}");
        Ok(())
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 1e2
}

/// Copies the executed run to all tests, as often as needed.
async fn multiply(url: &str, size: Size) -> Result<(), Failure> {
    let random = if url.starts_with("sqlite") { "randomblob(16)" } else { "uuid_send(gen_random_uuid())" };
    let each = size.runs / size.tests;
    let numbers = format!(
        "WITH RECURSIVE n(number) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT number + 1 FROM n WHERE number < {each})"
    );
    let others = "r.kind = 'Test' AND NOT (r.id = 'test-0' AND n.number = 1)";
    let statements = [
        format!(
            "{numbers} INSERT INTO runs
                 (kind, test_id, number, test_version, trace_id, state, created, variables, request, passed, failed, turn,
                  owner, triggered, wish, outcome, duration)
             SELECT r.kind, r.id, n.number, 1, {random}, s.state, s.created + n.number, s.variables, s.request, s.passed,
                  s.failed, s.turn, s.owner, s.triggered, s.wish, s.outcome, s.duration
             FROM resources r CROSS JOIN n CROSS JOIN runs s
             WHERE {others} AND s.test_id = 'test-0' AND s.number = 1"
        ),
        format!(
            "{numbers} INSERT INTO run_events (test_id, number, seq, at, body)
             SELECT r.id, n.number, e.seq, e.at, e.body FROM resources r CROSS JOIN n CROSS JOIN run_events e
             WHERE {others} AND e.test_id = 'test-0' AND e.number = 1"
        ),
        format!(
            "INSERT INTO run_numbers (test_id, number, stored, ended, outcome)
             SELECT id, {each}, {each}, {each}, CASE WHEN id LIKE '%7' THEN 'failed' ELSE 'passed' END FROM resources
             WHERE kind = 'Test'
             ON CONFLICT (test_id) DO UPDATE SET number = excluded.number, stored = excluded.stored,
                 ended = excluded.ended, outcome = excluded.outcome"
        ),
        "UPDATE resources SET last_run = created WHERE kind = 'Test'".to_owned(),
        // PostgreSQL does this by itself after a while.
        "ANALYZE".to_owned(),
    ];
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(url).await?;
    for statement in statements {
        connection.execute(AssertSqlSafe(statement)).await?;
    }
    connection.close().await?;
    Ok(())
}
