//! Benchmark of many concurrent runs on a real server: a JSON line for each kind of load. `cargo xtask bench runs`;
//! `--smoke` does a little of everything. The server uses a SQLite file, or the database that `--database-url URL`
//! names.

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails is worth nothing")]

#[path = "../tests/late_spans_load/load.rs"]
#[expect(dead_code, reason = "tests and other measurements use the rest")]
mod late_spans_load;

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use late_spans_load::client::{Client, Started};
use late_spans_load::program::{Served, beside};
use late_spans_load::system::{Deliveries, Leaf, System};
use qualitytrace_testing::{DEADLINE, eventually};
use serde_json::json;

/// The system sends its spans in several batches within this time.
const DELAY: Duration = Duration::from_millis(50);

struct Bench {
    server: Served,
    client: Client,
    stored: usize,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_smoke = arguments.iter().any(|argument| argument == "--smoke");
    let (at_once, tests, stored) = if is_smoke { (20, 20, 100) } else { (200, 1_000, 10_000) };
    let folder = tempfile::tempdir().unwrap();
    let named = arguments.iter().position(|argument| argument == "--database-url");
    let database = match named.and_then(|at| arguments.get(at + 1)) {
        Some(url) => url.clone(),
        None => format!("sqlite://{}", folder.path().join("runs.db").display()),
    };
    let server = Served::start(&beside(), &database, &["--runs.concurrency", "200"]).await;
    let client = Client::new(server.url(""));
    let system = System::start(vec![server.url("")], Deliveries { delay: DELAY, leaf: Leaf::Comes }).await;
    // The wait of first runs is measured elsewhere.
    client.put_settle("1s").await;
    let mut bench = Bench { server, client, stored: 0 };
    let names: Vec<String> = (0..tests).map(|number| format!("test-{number}")).collect();
    for name in &names {
        bench.client.put_test(name, &system.url).await;
    }
    bench.runs("the first run of a test", &names[..1], 1, 1).await;
    bench.runs("one test, all at once", &names[..1], at_once, at_once).await;
    bench.runs("one run of each test, 50 at a time", &names, tests, 50).await;
    bench.runs("known tests, 50 at a time", &names, tests, 50).await;
    bench.store(&system, stored).await;
    bench.runs("one test, all at once", &names[..1], at_once, at_once).await;
    bench.runs("known tests, 50 at a time", &names, tests, 50).await;
    bench.stop(&system, if is_smoke { 5 } else { 100 }).await;
}

impl Bench {
    /// Runs these tests in turn, `parallel` at a time.
    async fn runs(&mut self, load: &str, tests: &[String], runs: usize, parallel: usize) {
        let busy = self.server.processor_seconds();
        let began = Instant::now();
        let each = (0..runs).map(|number| self.one(&tests[number % tests.len()]));
        let mut times: Vec<(Duration, bool)> = stream::iter(each).buffer_unordered(parallel).collect().await;
        let took = began.elapsed();
        let busy = self.server.processor_seconds() - busy;
        times.sort_unstable();
        let at = |percent: usize| times[(runs * percent / 100).min(runs - 1)].0.as_millis();
        let found = json!({
            "load": load, "stored runs": self.stored, "runs": runs,
            "runs/s": tenths(count(runs) / took.as_secs_f64()),
            "p50 ms to verdict": at(50), "p99 ms": at(99), "processor ms/run": tenths(busy * 1e3 / count(runs)),
            "RSS peak MiB": self.server.peak_mib(), "wrong": times.iter().filter(|(_, right)| !right).count(),
        });
        println!("{found}");
        self.stored += runs;
    }

    /// One run: its duration, and whether its verdict is right.
    async fn one(&self, test: &str) -> (Duration, bool) {
        let began = Instant::now();
        let run = self.client.start(test, false, false).await;
        let events = self.client.events(&run).await;
        (began.elapsed(), events.verdict() == "passed")
    }

    /// Stores runs without waiting for spans, as many as after months of use.
    async fn store(&mut self, system: &System, runs: usize) {
        self.client.put_quick_test("quick", &system.url).await;
        let each = (0..runs).map(|_| async {
            let run = self.client.start("quick", false, false).await;
            self.client.events(&run).await
        });
        stream::iter(each).buffer_unordered(50).for_each(async |_| ()).await;
        self.stored += runs;
    }

    /// Measures how long it takes to stop runs whose trigger hangs.
    async fn stop(&self, system: &System, runs: usize) {
        self.client.put_hanging_test("hanging", &system.url).await;
        let start = (0..runs).map(|_| self.client.start("hanging", false, false));
        let started: Vec<Started> = stream::iter(start).buffer_unordered(50).collect().await;
        for run in &started {
            eventually(DEADLINE, "the run is executing", async || {
                self.client.state(run).await == "EXECUTING"
            })
            .await;
        }
        let mut times = Vec::new();
        for run in &started {
            let began = Instant::now();
            self.client.ask(run, "stop").await;
            self.client.events(run).await;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let at = |percent: usize| times[(runs * percent / 100).min(runs - 1)].as_millis();
        let found = json!({
            "load": "stop of a hanging trigger", "stored runs": self.stored, "runs": runs,
            "p50 ms to verdict": at(50), "p99 ms": at(99),
        });
        println!("{found}");
    }
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn count(runs: usize) -> f64 {
    f64::from(u32::try_from(runs).unwrap())
}
