//! Measures lists: 10,000 tests and 100,000 runs stored, one JSON line for each request and database.
//!
//! `cargo run --release -p qualitytrace-server --example bench_api [TESTS] [RUNS] [REQUESTS]`; PostgreSQL is measured
//! where `QUALITYTRACE_TEST_POSTGRES` names one.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints what it measured")]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use qualitytrace_core::definition::Kind;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_server::config::Config;
use qualitytrace_server::server::Server;
use qualitytrace_server::store::{Mode, NewDefinition, NewRun, Store};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

/// Requests before the first that counts.
const WARM_UP: usize = 50;
/// What is asked for: a path, and whether with all that only the server knows.
const REQUESTS: [(&str, bool); 5] = [
    ("/api/tests", false),
    ("/api/tests", true),
    ("/api/tests?sortBy=name&sortDirection=asc&skip=5000", true),
    ("/api/tests?sortBy=last_run", true),
    ("/api/tests?query=test%20777", true),
];

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let number = |at: usize, default: usize| arguments.get(at).copied().unwrap_or(default);
    let size = Size { tests: number(0, 10_000), runs: number(1, 100_000), requests: number(2, 2_000) };
    match measure_all(size).await {
        Ok(()) => ExitCode::SUCCESS,
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

async fn measure_all(size: Size) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    measure("SQLite", &format!("sqlite://{}", folder.path().join("bench.db").display()), size).await?;
    match std::env::var("QUALITYTRACE_TEST_POSTGRES") {
        Ok(server) => measure("PostgreSQL", &fresh(&server).await?, size).await,
        Err(_) => {
            eprintln!("PostgreSQL is left out: QUALITYTRACE_TEST_POSTGRES is not set");
            Ok(())
        }
    }
}

/// A new database on a server.
async fn fresh(server: &str) -> Result<String, Box<dyn std::error::Error>> {
    sqlx::any::install_default_drivers();
    let name = format!("bench_{:016x}", rand::random::<u64>());
    let mut connection = sqlx::AnyConnection::connect(server).await?;
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
    let (base, query) = server.split_once('?').unwrap_or((server, ""));
    let (base, _) = base.rsplit_once('/').ok_or("the URL names no database")?;
    Ok(format!("{base}/{name}?{query}").trim_end_matches('?').to_owned())
}

async fn measure(database: &str, url: &str, size: Size) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(url).await?;
    fill(&store, size).await?;
    store.close().await;
    let config = Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        database_url: url.to_owned(),
        ..Config::default()
    };
    let server = Server::start(config).await?;
    let client = reqwest::Client::builder().no_proxy().no_gzip().build()?;
    for (path, augmented) in REQUESTS {
        let address = format!("http://{}{path}", server.addresses().http);
        let mut times = Vec::with_capacity(size.requests);
        for round in 0..WARM_UP + size.requests {
            let request = client.get(&address).header("X-Tracetest-Augmented", augmented.to_string());
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
            "database": database, "tests": size.tests, "runs": size.runs, "request": path, "augmented": augmented,
            "p50_ms": at(50), "p99_ms": at(99), "max_ms": at(100),
        });
        println!("{line}");
    }
    server.shutdown().await;
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

async fn fill(store: &Store, size: Size) -> Result<(), Box<dyn std::error::Error>> {
    let start = 1_700_000_000_000_000_000_u64;
    for at in 0..size.tests {
        let (id, name) = (format!("test-{at}"), format!("Test {at}"));
        let request = json!({ "method": "GET", "url": "http://127.0.0.1:1/" });
        let trigger = json!({ "type": "http", "httpRequest": request });
        let spec = json!({ "id": id, "name": name, "description": "measured", "trigger": trigger });
        let text = json!({ "type": "Test", "spec": spec }).to_string();
        let new = NewDefinition {
            kind: Kind::Test,
            id: &id,
            tenant: "",
            name: &name,
            description: "measured",
            sort_kind: "",
            format: "json",
            text: &text,
            spec: spec.to_string(),
        };
        store.put(&new, Mode::Create, Timestamp::from_nanos(start + at as u64)).await?;
    }
    for at in 0..size.runs {
        let run = NewRun {
            test: format!("test-{}", at % size.tests),
            test_version: 1,
            trace: TraceId::from_bytes(rand::random()).ok_or("an id of zeros")?,
            state: "FINISHED",
            created: Timestamp::from_nanos(start + at as u64),
            variables: "{}".to_owned(),
            request: "{}".to_owned(),
            owner: "bench".to_owned(),
            step_of: None,
            event: "{}".to_owned(),
        };
        store.insert_run(&run, u64::MAX >> 1).await?;
    }
    Ok(())
}
