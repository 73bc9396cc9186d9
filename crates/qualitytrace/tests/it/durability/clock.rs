//! A machine whose clock jumps by a year.

use std::time::Duration;

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::shifted_time::ShiftedTime;
use crate::full_queue::Gate;
use crate::late_spans_load::program::Served;

const YEAR: i64 = 365 * 24 * 3600;
const OLD: &str = "0af7651916cd43dd8448eb211c80319c";

/// A server with a trace that belongs to no run, a finished run and an entry in the audit log, and clocks to move.
struct Bench {
    folder: tempfile::TempDir,
    time: ShiftedTime,
    client: reqwest::Client,
    gate: Gate,
}

impl Bench {
    async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The server closes idle connections when its clock jumps.
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let client = client.timeout(qualitytrace_testing::DEADLINE).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let time = ShiftedTime::new(folder.path());
        Self { folder, time, client, gate: Gate::start().await }
    }

    async fn serve(&self) -> Served {
        let database = format!("sqlite://{}", self.folder.path().join("clock.db").display());
        let server = self.time.serve(&database, &["--runs.retention", "30d"]).await;
        eventually(DEADLINE, "the server is ready", async || {
            self.client.get(server.url("/readyz")).send().await.is_ok_and(|answer| answer.status() == 200)
        })
        .await;
        server
    }

    async fn fill(&self, server: &Served) {
        crate::full_queue::put(&self.client, server, &self.gate.test("t")).await;
        self.send(server, OLD, "0000000000000000").await;
        assert_eq!(self.run(server).await["state"], "FINISHED");
    }

    async fn send(&self, server: &Served, trace: &str, parent: &str) {
        let span = json!({
            "traceId": trace, "spanId": "00f067aa0ba902b7", "parentSpanId": parent, "name": "work", "kind": 2,
            "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
        });
        let spans = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
        let sent = self.client.post(server.url("/v1/traces")).json(&spans).send().await.unwrap();
        assert_eq!(sent.status(), StatusCode::OK);
    }

    /// Runs the test to its end and returns the run.
    async fn run(&self, server: &Served) -> Value {
        let started = crate::full_queue::start(&self.client, server, "t").await;
        self.gate.answers.add_permits(1);
        self.ended(server, &started.json().await.unwrap()).await
    }

    async fn ended(&self, server: &Served, started: &Value) -> Value {
        let run = format!("/api/tests/t/run/{}", started["id"]);
        let events = self.client.get(server.url(&format!("{run}/events/stream"))).send().await.unwrap();
        events.text().await.unwrap();
        self.client.get(server.url(&run)).send().await.unwrap().json().await.unwrap()
    }

    /// Which of trace, first run and first entry of the audit log are there.
    async fn kept(&self, server: &Served) -> [bool; 3] {
        let is_there = async |path: &str| {
            self.client.get(server.url(path)).send().await.unwrap().status() == StatusCode::OK
        };
        let audit = self.client.get(server.url("/api/audit?take=1000")).send().await.unwrap();
        let audit = audit.text().await.unwrap();
        let trace = is_there(&format!("/api/traces/{OLD}")).await;
        [trace, is_there("/api/tests/t/run/1").await, audit.contains("\"action\":\"store\"")]
    }

    /// Waits until old data is removed, after an hour in which the clock could have been corrected.
    async fn removes_old_data(&mut self, server: &Served) {
        self.time.pass(Duration::from_hours(2));
        eventually(DEADLINE, "old data is removed", async || {
            let kept = self.kept(server).await;
            if kept == [false; 3] { Ok(()) } else { Err(format!("{kept:?}")) }
        })
        .await;
    }
}

#[tokio::test]
async fn a_clock_that_jumps_forward_removes_nothing_for_an_hour() {
    let mut bench = Bench::new().await;
    let mut server = bench.serve().await;
    bench.fill(&server).await;
    assert_eq!(bench.kept(&server).await, [true; 3]);
    bench.time.jump(YEAR);
    // The clock is followed when a run begins; old data is looked for every minute.
    assert_eq!(bench.run(&server).await["state"], "FINISHED");
    bench.time.pass(Duration::from_mins(5));
    assert_eq!(bench.run(&server).await["state"], "FINISHED");
    let told = server.logged("the machine's clock went forward by 365 days").await;
    assert!(told.contains(" WARN ") && told.contains("correct it within an hour"), "{told}");
    bench.time.pass(Duration::from_mins(5));
    assert_eq!(bench.run(&server).await["state"], "FINISHED");
    assert_eq!(bench.kept(&server).await, [true; 3]);
    // Then it counts as right.
    bench.removes_old_data(&server).await;
}

#[tokio::test]
async fn a_server_that_starts_with_a_clock_of_next_year_removes_nothing_for_an_hour() {
    let mut bench = Bench::new().await;
    let server = bench.serve().await;
    bench.fill(&server).await;
    drop(server);
    bench.time.jump(YEAR);
    let mut server = bench.serve().await;
    let told = server.logged("the machine's clock is 365 days ahead").await;
    assert!(told.contains(" WARN ") && told.contains("correct it within an hour"), "{told}");
    assert_eq!(bench.run(&server).await["state"], "FINISHED");
    bench.time.pass(Duration::from_mins(5));
    assert_eq!(bench.run(&server).await["state"], "FINISHED");
    assert_eq!(bench.kept(&server).await, [true; 3]);
    bench.removes_old_data(&server).await;
}

#[tokio::test]
async fn a_clock_that_jumps_back_during_a_run_loses_and_repeats_nothing() {
    let mut bench = Bench::new().await;
    let server = bench.serve().await;
    bench.fill(&server).await;
    let started = crate::full_queue::start(&bench.client, &server, "t").await.json().await.unwrap();
    bench.gate.asked(2).await;
    bench.time.jump(-YEAR);
    bench.gate.answers.add_permits(1);
    let ended = bench.ended(&server, &started).await;
    assert_eq!((&ended["state"], &ended["id"]), (&json!("FINISHED"), &json!(2)));
    let seconds = ended["executionTime"].as_f64().unwrap();
    assert!((0.0..120.0).contains(&seconds), "the run took {seconds} s");
    // The next one follows the clock. Numbers go on.
    let next = bench.run(&server).await;
    assert_eq!((&next["state"], &next["id"]), (&json!("FINISHED"), &json!(3)));
    assert!(next["createdAt"].as_str().unwrap() < ended["createdAt"].as_str().unwrap(), "{next}");
    bench.time.pass(Duration::from_mins(5));
    assert_eq!(bench.run(&server).await["id"], 4);
    assert_eq!(bench.kept(&server).await, [true; 3]);
    // And after a restart, with what is stored in its future.
    drop(server);
    let mut server = bench.serve().await;
    let told = server.logged("the machine's clock is 365 days behind").await;
    assert!(told.contains(" WARN ") && told.contains("correct it"), "{told}");
    bench.send(&server, OLD, "00f067aa0ba902b8").await;
    assert_eq!(bench.run(&server).await["id"], 5);
    assert_eq!(bench.kept(&server).await, [true; 3]);
    assert_eq!(bench.gate.times(), 5, "each trigger is sent once");
}
