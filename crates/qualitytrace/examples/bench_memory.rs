//! Benchmark of the memory of a real server over many runs: a JSON line after each tenth of them.
//! `cargo xtask bench memory`; `--runs N` sets their number.

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails is worth nothing")]

#[path = "../tests/late_spans_load/load.rs"]
#[expect(dead_code, reason = "tests and other measurements use the rest")]
mod late_spans_load;

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use late_spans_load::client::Client;
use late_spans_load::program::{Served, beside};
use late_spans_load::system::{Deliveries, Leaf, System};
use serde_json::json;

/// The system sends its spans in several batches within this time.
const DELAY: Duration = Duration::from_millis(20);
const TESTS: usize = 1_000;
const RUNS: usize = 100_000;
const PARTS: usize = 10;
const AT_ONCE: usize = 100;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = arguments.iter().position(|argument| argument == "--runs");
    let runs = named.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(RUNS);
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("runs.db").display());
    let server = Served::start(&beside(), &database, &["--runs.concurrency", "200"]).await;
    let client = Client::new(server.url(""));
    let system = System::start(vec![server.url("")], Deliveries { delay: DELAY, leaf: Leaf::Comes }).await;
    client.put_settle("300ms").await;
    let names: Vec<String> = (0..TESTS.min(runs)).map(|number| format!("test-{number}")).collect();
    for name in &names {
        client.put_test(name, &system.url).await;
    }
    let one = async |test: &str| {
        let run = client.start(test, false, false).await;
        client.events(&run).await.verdict() == "passed"
    };
    let mut stored = 0;
    for _ in 0..PARTS {
        let began = Instant::now();
        let part = (0..runs / PARTS).map(|number| one(&names[number % names.len()]));
        let passed: Vec<bool> = stream::iter(part).buffer_unordered(AT_ONCE).collect().await;
        stored += passed.len();
        let per_second = f64::from(u32::try_from(passed.len()).unwrap()) / began.elapsed().as_secs_f64();
        let found = json!({
            "stored runs": stored, "runs/s": (per_second * 10.0).round() / 10.0,
            "RSS MiB": server.memory_mib("VmRSS:"), "RSS peak MiB": server.memory_mib("VmHWM:"),
            "wrong": passed.iter().filter(|passed| !**passed).count(),
        });
        println!("{found}");
    }
}
