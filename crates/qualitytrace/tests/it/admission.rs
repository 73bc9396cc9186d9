//! `runs.concurrency` and `--parallel` bound concurrent triggers. A run that only waits for spans holds no permit.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use crate::full_queue::{put, start};
use crate::late_spans_load::program::Served;
use crate::{client, program};

/// A system under test that counts its concurrent requests and answers when its gate is open. It has no spans.
struct System {
    url: String,
    gate: Arc<Semaphore>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    asked: AtomicUsize,
    under_way: AtomicUsize,
    peak: AtomicUsize,
}

impl System {
    async fn start() -> Self {
        let (gate, counts) = (Arc::new(Semaphore::new(0)), Arc::<Counts>::default());
        let (answers, counted) = (Arc::clone(&gate), Arc::clone(&counts));
        let handler = async move || {
            counted.asked.fetch_add(1, Ordering::SeqCst);
            let under_way = counted.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            counted.peak.fetch_max(under_way, Ordering::SeqCst);
            drop(answers.acquire().await.unwrap());
            counted.under_way.fetch_sub(1, Ordering::SeqCst);
            "done"
        };
        let router = axum::Router::new().fallback(axum::routing::any(handler));
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, gate, counts }
    }

    fn open(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    fn asked(&self) -> usize {
        self.counts.asked.load(Ordering::SeqCst)
    }

    fn peak(&self) -> usize {
        self.counts.peak.load(Ordering::SeqCst)
    }

    /// A test that waits for a trace that does not come, for longer than any of these tests lasts.
    fn test(&self, id: &str) -> Value {
        let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": self.url } });
        let profile = json!({ "periodic": { "timeout": "2h", "settle": "1h" } });
        let spec = json!({ "id": id, "name": id, "trigger": trigger, "pollingProfile": profile });
        json!({ "type": "Test", "spec": spec })
    }
}

/// How many runs of these tests are in this state.
async fn count(client: &Client, server: &Served, tests: &[&str], state: &str) -> usize {
    let mut count = 0;
    for test in tests {
        let url = server.url(&format!("/api/tests/{test}/run?take=1000"));
        let runs: Value = client.get(url).send().await.unwrap().json().await.unwrap();
        let runs = runs.as_array().into_iter().flatten();
        count += runs.filter(|run| run["state"] == state).count();
    }
    count
}

#[tokio::test]
async fn two_hundred_first_runs_wait_for_their_spans_at_one_time() {
    const RUNS: usize = 200;
    let system = System::start().await;
    let server = Served::start(program(), "sqlite::memory:", &["--runs.concurrency", "16"]).await;
    let client = client();
    put(&client, &server, &system.test("t")).await;
    for _ in 0..RUNS {
        assert!(start(&client, &server, "t").await.status().is_success());
    }
    eventually(DEADLINE, "16 triggers are under way", async || system.asked() == 16).await;
    eventually(DEADLINE, "the others wait for their turn", async || {
        count(&client, &server, &["t"], "CREATED").await == RUNS - 16
    })
    .await;
    system.open();
    eventually(DEADLINE, "every run waits for its spans", async || {
        count(&client, &server, &["t"], "AWAITING_TRACE").await == RUNS
    })
    .await;
    assert_eq!((system.asked(), system.peak()), (RUNS, 16));
}

#[tokio::test]
async fn runs_that_wait_for_spans_have_a_bound_of_their_own() {
    let system = System::start().await;
    system.open();
    let limits = ["--runs.concurrency", "2", "--runs.waiting", "3"];
    let server = Served::start(program(), "sqlite::memory:", &limits).await;
    let client = client();
    put(&client, &server, &system.test("t")).await;
    for _ in 0..5 {
        assert!(start(&client, &server, "t").await.status().is_success());
    }
    let waiting = async || count(&client, &server, &["t"], "AWAITING_TRACE").await;
    eventually(DEADLINE, "three runs wait for spans", async || waiting().await == 3).await;
    assert_eq!(count(&client, &server, &["t"], "CREATED").await, 2);
    let stop = client.post(server.url("/api/tests/t/run/1/stop")).send().await.unwrap();
    assert!(stop.status().is_success());
    eventually(DEADLINE, "the next one may begin", async || system.asked() == 4 && waiting().await == 3)
        .await;
    assert_eq!(count(&client, &server, &["t"], "CREATED").await, 1);
}

fn run(folder: &Path, arguments: &[&str]) -> Child {
    Command::new(program())
        .args(["run", "."])
        .args(arguments)
        .current_dir(folder)
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Writes tests and two suites with a step each, and returns the ids of all tests.
fn write_tests(folder: &Path, system: &System) -> Vec<&'static str> {
    let alone = ["a", "b", "c", "d"];
    let steps = ["first-step", "second-step"];
    for id in alone.iter().chain(&steps) {
        std::fs::write(folder.join(format!("{id}.json")), system.test(id).to_string()).unwrap();
    }
    for step in steps {
        let spec =
            json!({ "id": format!("suite-{step}"), "name": step, "steps": [format!("./{step}.json")] });
        let suite = json!({ "type": "TestSuite", "spec": spec }).to_string();
        std::fs::write(folder.join(format!("suite-{step}.json")), suite).unwrap();
    }
    [&alone[..], &steps[..]].concat()
}

async fn check_parallel(arguments: &[&str]) {
    let system = System::start().await;
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let client = client();
    let folder = tempfile::tempdir().unwrap();
    let tests = write_tests(folder.path(), &system);
    let url = server.url("");
    let run = run(folder.path(), &[&["--server", &url, "--parallel", "2"], arguments].concat());
    eventually(DEADLINE, "two triggers are under way", async || system.asked() == 2).await;
    system.open();
    eventually(DEADLINE, "every test waits for its spans", async || {
        count(&client, &server, &tests, "AWAITING_TRACE").await == tests.len()
    })
    .await;
    assert_eq!((system.asked(), system.peak()), (tests.len(), 2));
    drop(run);
}

#[tokio::test]
async fn tests_and_suites_that_wait_for_spans_hold_no_place_of_the_command_line() {
    check_parallel(&[]).await;
}

#[tokio::test]
async fn series_that_wait_for_spans_hold_no_place_of_the_command_line() {
    check_parallel(&["--retries", "2"]).await;
}

#[tokio::test]
async fn parallel_bounds_the_triggers_of_a_server_that_the_command_line_starts() {
    let system = System::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut steps = Vec::new();
    for id in ["a", "b", "c", "d", "e", "f"] {
        std::fs::write(folder.path().join(format!("{id}.json")), system.test(id).to_string()).unwrap();
        steps.push(json!({ "test": format!("./{id}.json"), "dependsOn": [] }));
    }
    let suite = json!({ "type": "TestSuite", "spec": { "id": "s", "name": "s", "steps": steps } });
    std::fs::write(folder.path().join("suite.json"), suite.to_string()).unwrap();
    let off = ["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let run = run(folder.path(), &[&["--parallel", "2"], &off[..]].concat());
    eventually(DEADLINE, "two triggers are under way", async || system.asked() == 2).await;
    system.open();
    // None of the runs can end while these tests last.
    eventually(DEADLINE, "every step of the suite was triggered", async || system.asked() == 6).await;
    assert_eq!(system.peak(), 2);
    drop(run);
}
