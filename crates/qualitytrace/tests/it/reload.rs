//! Configuration reload while the server runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::StatusCode;
use serde_json::json;

use crate::full_queue::{Gate, put, start};
use crate::late_spans_load::program::Served;
use crate::program;

/// A server with a configuration file.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    pub(crate) served: Served,
    pub(crate) client: reqwest::Client,
}

pub(crate) const BASE: &str =
    "server: {httpPort: 0}\notlp-grpc-addr: off\notlp-http-addr: off\ndatabase-url: 'sqlite::memory:'\n";

impl Bench {
    pub(crate) async fn start(more: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("qualitytrace.yaml");
        write(&file, more);
        let data = folder.path().join("data");
        let arguments = ["--config", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
        let served = Served::start_with(program(), &arguments).await;
        Self { folder, served, client: crate::client() }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("qualitytrace.yaml")
    }

    /// Whether a body of this size is accepted; other errors do not matter.
    async fn takes(&self, bytes: usize) -> bool {
        let body = vec![b' '; bytes];
        let sent = self.client.post(self.served.url("/api/tests")).body(body).send().await.unwrap();
        sent.status() != StatusCode::PAYLOAD_TOO_LARGE
    }

    /// Stops the server, which flushes its telemetry.
    async fn stop(&mut self) {
        signal(&self.served, "-TERM");
        self.served.child.wait().await.unwrap();
    }

    /// The state of a run of the test `t`.
    pub(crate) async fn state(&self, number: u32) -> String {
        let path = format!("/api/tests/t/run/{number}");
        let run = self.client.get(self.served.url(&path)).send().await.unwrap();
        run.json::<serde_json::Value>().await.unwrap()["state"].as_str().unwrap().to_owned()
    }

    async fn get(&self, trace: &str) {
        let header = format!("00-{trace}-00000000000000aa-01");
        let sent = self.client.get(self.served.url("/api/tests")).header("traceparent", header).send().await;
        assert_eq!(sent.unwrap().status(), StatusCode::OK);
    }
}

/// Sends a signal to the server.
pub(crate) fn signal(served: &Served, name: &str) {
    let pid = served.child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// Replaces the file by a new one, as editors do.
pub(crate) fn write(file: &Path, more: &str) {
    let beside = file.with_extension("new");
    std::fs::write(&beside, format!("{BASE}{more}")).unwrap();
    std::fs::rename(beside, file).unwrap();
}

#[tokio::test]
async fn a_changed_file_counts_at_once_and_a_broken_one_does_not() {
    let mut bench = Bench::start("limits: {bodyBytes: 1MiB}\n").await;
    assert!(bench.takes(5_000).await);
    write(&bench.file(), "limits: {bodyBytes: 4KiB}\nauth: {otlp: true}\n");
    let line = bench.served.logged("reloaded the configuration").await;
    assert!(line.contains("limits.bodyBytes=4KiB"), "{line}");
    let line = bench.served.logged("restart the server").await;
    assert!(line.contains("auth.otlp=true") && !line.contains("bodyBytes"), "{line}");
    assert!(!bench.takes(5_000).await);

    write(&bench.file(), "limits: {bodyBytes: lots}\n");
    let line = bench.served.logged("cannot be `lots`").await;
    assert!(line.contains("qualitytrace.yaml:5:21"), "{line}");
    bench.served.logged("stays as it was").await;
    assert!(!bench.takes(5_000).await);
}

#[tokio::test]
async fn a_file_behind_a_link_is_followed() {
    let mut bench = Bench::start("").await;
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("real.yaml");
    std::fs::rename(bench.file(), &target).unwrap();
    std::os::unix::fs::symlink(&target, bench.file()).unwrap();
    // A server that starts with the link watches both folders.
    let (file, data) = (bench.file(), elsewhere.path().join("data"));
    let arguments = ["--config", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    bench.served = Served::start_with(program(), &arguments).await;
    std::fs::write(&target, format!("{BASE}limits: {{bodyBytes: 4KiB}}\n")).unwrap();
    let line = bench.served.logged("reloaded the configuration").await;
    assert!(line.contains("limits.bodyBytes=4KiB"), "{line}");
}

#[tokio::test]
async fn sighup_reads_the_file_again() {
    let mut bench = Bench::start("").await;
    signal(&bench.served, "-HUP");
    bench.served.logged("reloaded the configuration").await;
    assert!(bench.takes(5_000).await);
}

/// Spans are sent to one receiver, then to another: each is found at one of the two, whatever was in flight.
#[tokio::test]
async fn no_span_is_lost_when_the_sink_changes() {
    let (first, second) = (
        Served::start(program(), "sqlite::memory:", &[]).await,
        Served::start(program(), "sqlite::memory:", &[]).await,
    );
    let sink = |to: &Served| {
        format!(
            "tracer: {{a: {{type: open-telemetry, transport: http, endpoint: 'http://{}', throttle: 1ms}}}}\n",
            to.http
        )
    };
    let mut bench = Bench::start(&sink(&first)).await;
    let traces: Vec<String> = (1..=60_u32).map(|n| format!("{n:032x}")).collect();
    for (n, trace) in traces.iter().enumerate() {
        if n == 20 {
            write(&bench.file(), &sink(&second));
        }
        if n == 40 {
            bench.served.logged("reloaded the configuration").await;
        }
        bench.get(trace).await;
    }
    bench.stop().await;
    let mut found = BTreeSet::new();
    for server in [&first, &second] {
        let before = found.len();
        for trace in &traces {
            let got = bench.client.get(server.url(&format!("/api/traces/{trace}"))).send().await.unwrap();
            if got.status() == StatusCode::OK {
                found.insert(trace.clone());
            }
        }
        assert!(found.len() > before, "both receivers get spans");
    }
    assert_eq!(found.len(), traces.len());
}

/// The server is its own system under test: the trigger's trace goes into its own store, all of its spans elsewhere.
#[tokio::test]
async fn a_run_is_one_trace_under_its_caller() {
    let receiver = Served::start(program(), "sqlite::memory:", &[]).await;
    let mut bench = Bench::start("").await;
    let sink = |id: &str, to: &Served| {
        format!(
            "  {id}: {{type: open-telemetry, transport: http, endpoint: 'http://{}', throttle: 1ms}}\n",
            to.http
        )
    };
    write(&bench.file(), &format!("tracer:\n{}{}", sink("own", &bench.served), sink("other", &receiver)));
    bench.served.logged("reloaded the configuration").await;
    let test = json!({ "type": "Test", "spec": {
        "id": "t", "name": "T",
        "trigger": { "type": "http", "httpRequest": { "method": "GET", "url": bench.served.url("/api/tests") } },
        "specs": [{ "selector": "span[name = \"GET /api/tests\"]", "assertions": ["attr:http.method = \"GET\""] }],
        "outputs": [{ "name": "METHOD", "selector": "span[name = \"GET /api/tests\"]", "value": "attr:http.method" }],
    } });
    let created = bench.client.post(bench.served.url("/api/tests")).json(&test).send().await.unwrap();
    assert!(created.status().is_success(), "{}", created.text().await.unwrap());
    let caller = "0123456789abcdef0123456789abcdef";
    let run = bench.client.post(bench.served.url("/api/tests/t/run")).json(&json!({}));
    let run = run.header("traceparent", format!("00-{caller}-00000000000000aa-01"));
    let run = run.header("authorization", "Bearer geheim").send().await.unwrap();
    assert_eq!(run.status(), StatusCode::OK);
    // The stream of events ends with the run.
    let events = bench.client.get(bench.served.url("/api/tests/t/run/1/events/stream")).send().await.unwrap();
    let events = events.text().await.unwrap();
    bench.stop().await;
    let got = bench.client.get(receiver.url(&format!("/api/traces/{caller}"))).send().await.unwrap();
    let trace = got.text().await.unwrap();
    for name in [
        "POST /api/tests/{testId}/run",
        "Resolve trigger",
        "Trigger test",
        "Start processing trigger response",
        "Start polling trace",
        "Fetching trace",
        "Evaluating trace",
        "Process outputs",
        "Execute assertions",
    ] {
        assert!(trace.contains(&format!("\"{name}\"")), "{name} is missing: {trace}\n{events}");
    }
    for attribute in [
        "tracetest.run.trace_poller.succesful",
        "tracetest.run.trace_poller.finish_reason",
        "tracetest.run.trace_poller.amount_retrieved_spans",
        "tracetest.run.output_processor.outputs",
        "tracetest.run.assertion_runner.all_assertions_passed",
    ] {
        assert!(trace.contains(attribute), "{attribute} is missing: {trace}");
    }
    assert!(!trace.contains("geheim"), "{trace}");
}

/// A collector that accepts connections and never answers: the server is ready and answers all the same.
#[tokio::test]
async fn a_silent_collector_holds_up_nothing() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let mut bench = Bench::start(&format!(
        "tracer:\n  http: {{type: open-telemetry, transport: http, endpoint: 'http://{address}', throttle: 1ms}}\n  \
         grpc: {{type: open-telemetry, transport: grpc, endpoint: 'http://{address}', throttle: 1ms}}\n"
    ))
    .await;
    bench.get("0123456789abcdef0123456789abcdef").await;
    // It did try: both sinks are connected by now and wait for a response.
    let _first = silent.accept().await.unwrap();
    let _second = silent.accept().await.unwrap();
    let ready = bench.client.get(bench.served.url("/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), StatusCode::OK);
    bench.get("0123456789abcdef0123456789abcde0").await;
    assert!(bench.takes(5_000).await);
    bench.stop().await;
}

#[tokio::test]
async fn more_and_fewer_runs_at_one_time_count_while_runs_are_under_way() {
    let gate = Gate::start().await;
    let mut bench = Bench::start("runs: {concurrency: 1}\n").await;
    put(&bench.client, &bench.served, &gate.test("t")).await;
    for _ in 0..4 {
        assert_eq!(start(&bench.client, &bench.served, "t").await.status(), StatusCode::OK);
    }
    gate.asked(1).await;
    write(&bench.file(), "runs: {concurrency: 3}\n");
    bench.served.logged("reloaded the configuration").await;
    gate.asked(3).await;
    // Of three running ones, two have to end before the last may begin.
    write(&bench.file(), "runs: {concurrency: 1}\n");
    bench.served.logged("reloaded the configuration").await;
    gate.answers.add_permits(2);
    let ended = async || {
        let runs = bench.client.get(bench.served.url("/api/tests/t/run")).send().await.unwrap();
        let runs: serde_json::Value = runs.json().await.unwrap();
        runs.as_array().unwrap().iter().filter(|run| run["state"] == "FINISHED").count()
    };
    eventually(DEADLINE, "two runs end", async || ended().await == 2).await;
    assert_eq!(gate.times(), 3);
    gate.answers.add_permits(1);
    gate.asked(4).await;
    gate.answers.add_permits(1);
    eventually(DEADLINE, "four runs end", async || ended().await == 4).await;
}

#[tokio::test]
async fn addresses_that_become_listed_are_not_spoken_to_any_more() {
    let gate = Gate::start().await;
    gate.answers.add_permits(9);
    let mut bench = Bench::start("").await;
    put(&bench.client, &bench.served, &gate.test("t")).await;
    start(&bench.client, &bench.served, "t").await;
    eventually(DEADLINE, "the first run ends", async || bench.state(1).await == "FINISHED").await;
    write(&bench.file(), "trigger: {deny: [127.0.0.0/8]}\n");
    let line = bench.served.logged("reloaded the configuration").await;
    assert!(line.contains("trigger.deny=127.0.0.0/8"), "{line}");
    // The connection of the first run is still open; it must not be reused.
    start(&bench.client, &bench.served, "t").await;
    eventually(DEADLINE, "the second run ends", async || {
        !matches!(bench.state(2).await.as_str(), "CREATED" | "EXECUTING")
    })
    .await;
    assert_eq!((bench.state(2).await.as_str(), gate.times()), ("TRIGGER_FAILED", 1));
}

#[tokio::test]
async fn a_token_that_is_taken_away_opens_nothing() {
    let mut bench = Bench::start("auth: {tokens: ['full:first-token-0123456789']}\n").await;
    let status = async |bench: &Bench, token: &str| {
        let sent = bench.client.get(bench.served.url("/api/tests")).bearer_auth(token).send().await;
        sent.unwrap().status()
    };
    assert_eq!(status(&bench, "first-token-0123456789").await, StatusCode::OK);
    write(&bench.file(), "auth: {tokens: ['full:other-token-0123456789']}\n");
    let line = bench.served.logged("reloaded the configuration").await;
    assert!(line.contains("auth.tokens=full:sha256:") && !line.contains("other-token"), "{line}");
    assert_eq!(status(&bench, "first-token-0123456789").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&bench, "other-token-0123456789").await, StatusCode::OK);
}

#[tokio::test]
async fn room_for_what_arrives_changes_at_once() {
    let mut bench = Bench::start("limits: {ingestBytes: 2KiB}\n").await;
    let status = async |bench: &Bench| {
        let span = json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "x".repeat(50_000),
        });
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
        bench.client.post(bench.served.url("/v1/traces")).json(&body).send().await.unwrap().status()
    };
    assert_eq!(status(&bench).await, StatusCode::PAYLOAD_TOO_LARGE);
    write(&bench.file(), "limits: {ingestBytes: 1MiB}\n");
    bench.served.logged("reloaded the configuration").await;
    assert_eq!(status(&bench).await, StatusCode::OK);
    write(&bench.file(), "limits: {ingestBytes: 2KiB}\n");
    bench.served.logged("reloaded the configuration").await;
    assert_eq!(status(&bench).await, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_after_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let renew = || {
        let made =
            rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        made.cert.pem()
    };
    let first = renew();
    let tls = format!(
        "server: {{httpPort: 0, tls: {{certFile: {}, keyFile: {}}}}}\n",
        certificate.display(),
        key.display()
    );
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = folder.path().join("qualitytrace.yaml");
    std::fs::write(&file, BASE.replace("server: {httpPort: 0}\n", &tls)).unwrap();
    let data = folder.path().join("data");
    let arguments = ["--config", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    let mut served = Served::start_with(program(), &arguments).await;
    let is_trusted = async |served: &Served, authority: &str| {
        let root = reqwest::Certificate::from_pem(authority.as_bytes()).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([root]).timeout(DEADLINE).build().unwrap();
        client.get(format!("https://{}/healthz", served.http)).send().await.is_ok()
    };
    assert!(is_trusted(&served, &first).await);
    let second = renew();
    assert!(is_trusted(&served, &first).await, "the server has not reloaded yet");
    signal(&served, "-HUP");
    served.logged("reloaded the configuration").await;
    assert!(is_trusted(&served, &second).await);
    assert!(!is_trusted(&served, &first).await);

    // A broken certificate changes nothing.
    std::fs::write(&certificate, "nothing").unwrap();
    signal(&served, "-HUP");
    let line = served.logged("stays as it was").await;
    assert!(line.contains("server.tls") && line.contains("cert.pem"), "{line}");
    assert!(is_trusted(&served, &second).await);

    // Removing TLS from the file needs a restart.
    std::fs::write(&file, BASE).unwrap();
    let line = served.logged("reloaded the configuration").await;
    assert!(!line.contains("server.tls"), "{line}");
    served.logged("server.tls stays as it was: restart the server to switch TLS off").await;
    assert!(is_trusted(&served, &second).await);
}
