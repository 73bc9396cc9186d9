//! Power cuts: acknowledged data is on the disk, not only in the page cache.
//!
//! The server runs under strace. What it wrote and synced until the moment of a response is put into an empty folder,
//! as a power cut in that moment would leave it, and a server is started on it.

mod disk;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use qualitytrace_testing::{DEADLINE, eventually, within};
use reqwest::StatusCode;
use serde_json::{Value, json};

use self::disk::{CALLS, Record, Unsynced};
use crate::late_spans_load::program::Served;
use crate::program;

/// The strace of the tests; `None` when there is none.
#[expect(clippy::print_stdout, reason = "a test that is left out says so")]
pub(crate) fn strace() -> Option<PathBuf> {
    let Some(strace) = std::env::var_os("QUALITYTRACE_TEST_STRACE") else {
        assert!(std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(), "QUALITYTRACE_TEST_STRACE is not set");
        println!("skipped: QUALITYTRACE_TEST_STRACE is not set");
        return None;
    };
    Some(strace.into())
}

/// Acknowledged data: its path in the API, and the times of request and response.
struct Acknowledged {
    path: String,
    between: (f64, f64),
}

/// A server whose system calls are recorded.
struct Traced {
    server: Served,
    log: PathBuf,
    client: reqwest::Client,
    acknowledged: Vec<Acknowledged>,
}

fn now() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64()
}

impl Traced {
    async fn start(strace: &Path, folder: &Path, arguments: &[&str]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (script, log) = (folder.join("traced"), folder.join("calls"));
        // The tracer is a grandchild (-D), so that killing the child kills the server.
        let text = format!(
            "#!/bin/sh\nexec {} -D -ff -ttt -T -y -xx -s 1000000 -e trace={CALLS} -o {} {} \"$@\"\n",
            strace.display(),
            log.display(),
            program().display()
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
        let data = folder.join("data");
        let quiet = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
        let own = ["--data-dir", data.to_str().unwrap()];
        let server = Served::start_with(&script, &[&quiet[..], &own[..], arguments].concat()).await;
        let client = crate::client();
        Self { server, log, client, acknowledged: Vec::new() }
    }

    async fn send(&mut self, method: reqwest::Method, to: &str, body: &Value, path: String) {
        let asked = now();
        let sent = self.client.request(method, self.server.url(to)).json(body).send().await.unwrap();
        let answered = now();
        assert!(sent.status().is_success(), "{to}: {}", sent.text().await.unwrap());
        self.acknowledged.push(Acknowledged { path, between: (asked, answered) });
    }

    async fn put_set(&mut self, number: u32) {
        let id = format!("v{number}");
        let value = json!({ "key": "K", "value": format!("hunter2-{number}"), "type": "secret" });
        let set = json!({ "type": "VariableSet", "spec": { "id": id, "name": id, "values": [value] } });
        self.send(reqwest::Method::PUT, "/api/variablesets", &set, format!("/api/variablesets/{id}")).await;
    }

    async fn put_test(&mut self, number: u32) {
        let id = format!("t{number}");
        let request = json!({ "method": "GET", "url": "http://127.0.0.1:9/" });
        let trigger = json!({ "type": "http", "httpRequest": request });
        let test = json!({ "type": "Test", "spec": { "id": id, "name": id, "trigger": trigger } });
        self.send(reqwest::Method::PUT, "/api/tests", &test, format!("/api/tests/{id}")).await;
    }

    async fn start_run(&mut self, number: u32) {
        let path = format!("/api/tests/t{number}/run");
        self.send(reqwest::Method::POST, &path, &json!({}), format!("{path}/1")).await;
    }

    async fn send_spans(&mut self, number: u32) {
        let trace = format!("{:032x}", u128::from(number) + 1);
        let span = json!({
            "traceId": trace, "spanId": "00f067aa0ba902b7", "name": "work", "kind": 2,
            "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
        });
        let spans = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
        self.send(reqwest::Method::POST, "/v1/traces", &spans, format!("/api/traces/{trace}")).await;
    }

    /// Kills the server as a power cut would, and returns its record until then.
    async fn end(mut self) -> (Record, Vec<Acknowledged>) {
        let main = self.log.with_extension(self.server.child.id().unwrap().to_string());
        self.server.child.kill().await.unwrap();
        self.recorded(&main, "+++ killed by SIGKILL").await
    }

    /// Lets the server end by itself, which writes the log of the database into its file.
    async fn stop(mut self) -> (Record, Vec<Acknowledged>) {
        let main = self.log.with_extension(self.server.child.id().unwrap().to_string());
        crate::reload::signal(&self.server, "-TERM");
        within(DEADLINE, "the server ends", self.server.child.wait()).await.unwrap();
        self.recorded(&main, "+++ exited with 0").await
    }

    async fn recorded(self, main: &Path, end: &str) -> (Record, Vec<Acknowledged>) {
        eventually(DEADLINE, format!("strace finishes {}", main.display()), async || {
            std::fs::read_to_string(main).is_ok_and(|log| log.contains(end))
        })
        .await;
        (Record::read(&self.log), self.acknowledged)
    }
}

#[tokio::test]
async fn every_acknowledged_write_is_synced_before_its_answer() {
    let Some(strace) = strace() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut traced = Traced::start(&strace, folder.path(), &[]).await;
    for number in 0..25 {
        traced.put_set(number).await;
        traced.put_test(number).await;
        traced.send_spans(number).await;
    }
    traced.start_run(0).await;
    let (record, acknowledged) = traced.end().await;
    for Acknowledged { path, between } in acknowledged {
        let syncs = record.syncs(&folder.path().join("data"), between);
        assert!(syncs > 0, "{path} was acknowledged without a sync");
    }
}

#[tokio::test]
async fn spans_are_not_synced_where_that_is_switched_off() {
    let Some(strace) = strace() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut traced = Traced::start(&strace, folder.path(), &["--ingest.fsync", "false"]).await;
    for number in 0..20 {
        traced.send_spans(number).await;
    }
    traced.put_test(0).await;
    let (record, acknowledged) = traced.end().await;
    let syncs: Vec<usize> = acknowledged
        .iter()
        .map(|Acknowledged { between, .. }| record.syncs(&folder.path().join("data"), *between))
        .collect();
    let (definition, spans) = syncs.split_last().unwrap();
    assert_eq!(spans.iter().sum::<usize>(), 0, "{syncs:?}");
    assert!(*definition > 0, "definitions are synced all the same");
}

#[tokio::test]
async fn spans_that_arrive_together_share_a_sync() {
    let Some(strace) = strace() else { return };
    let folder = tempfile::tempdir().unwrap();
    let traced = Traced::start(&strace, folder.path(), &[]).await;
    let mut requests = tokio::task::JoinSet::new();
    let asked = now();
    for number in 1..=200 {
        let span = json!({
            "traceId": format!("{number:032x}"), "spanId": "00f067aa0ba902b7", "name": "work", "kind": 2,
            "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
        });
        let spans = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
        requests.spawn(traced.client.post(traced.server.url("/v1/traces")).json(&spans).send());
    }
    for sent in requests.join_all().await {
        assert_eq!(sent.unwrap().status(), StatusCode::OK);
    }
    let between = (asked, now());
    let (record, _) = traced.end().await;
    let syncs = record.syncs(&folder.path().join("data"), between);
    assert!((1..100).contains(&syncs), "{syncs} syncs for 200 requests");
}

#[tokio::test]
async fn runs_that_start_together_share_syncs() {
    let Some(strace) = strace() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut traced = Traced::start(&strace, folder.path(), &[]).await;
    traced.put_test(0).await;
    let mut requests = tokio::task::JoinSet::new();
    let asked = now();
    for _ in 0..60 {
        requests.spawn(traced.client.post(traced.server.url("/api/tests/t0/run")).json(&json!({})).send());
    }
    for started in requests.join_all().await {
        assert_eq!(started.unwrap().status(), StatusCode::OK);
    }
    let between = (asked, now());
    let (record, _) = traced.end().await;
    let syncs = record.syncs(&folder.path().join("data"), between);
    // Each alone would take two at least: for the run, and for its entry in the audit log.
    assert!((1..100).contains(&syncs), "{syncs} syncs for 60 runs");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_power_cut() {
    let Some(strace) = strace() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut traced = Traced::start(&strace, folder.path(), &[]).await;
    for number in 0..8 {
        traced.put_set(number).await;
        traced.put_test(number).await;
        traced.start_run(number).await;
        traced.send_spans(number).await;
    }
    let client = traced.client.clone();
    let (record, acknowledged) = traced.end().await;
    // A cut after the first responses of each kind, and some later ones.
    for (cut, unsynced) in
        [(0, Unsynced::Lost), (1, Unsynced::Torn), (2, Unsynced::EverySecond), (3, Unsynced::Lost)]
            .into_iter()
            .chain([(14, Unsynced::EverySecond), (31, Unsynced::Lost), (31, Unsynced::EverySecond)])
    {
        let at = acknowledged[cut].between.1;
        is_there_after_a_cut(&client, folder.path(), &record, &acknowledged, (at, unsynced)).await;
    }
}

/// Starts a server on what a power cut leaves, and checks that everything acknowledged before it is there.
async fn is_there_after_a_cut(
    client: &reqwest::Client,
    folder: &Path,
    record: &Record,
    acknowledged: &[Acknowledged],
    (at, unsynced): (f64, Unsynced),
) {
    let left = tempfile::tempdir().unwrap();
    let data = left.path().join("data");
    record.cut(folder, at, unsynced, left.path());
    let database = format!("sqlite://{}", data.join("qualitytrace.db").display());
    let server = Served::start(program(), &database, &["--data-dir", data.to_str().unwrap()]).await;
    for Acknowledged { path, .. } in acknowledged.iter().filter(|acknowledged| acknowledged.between.1 <= at) {
        let got = client.get(server.url(path)).send().await.unwrap();
        assert_eq!(got.status(), StatusCode::OK, "{path} after a cut at {at}, {unsynced:?}");
    }
}

#[tokio::test]
async fn pages_that_are_torn_while_the_log_is_written_into_the_file_lose_nothing() {
    let Some(strace) = strace() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut traced = Traced::start(&strace, folder.path(), &[]).await;
    for number in 0..6 {
        traced.put_set(number).await;
        traced.put_test(number).await;
        traced.send_spans(number).await;
    }
    let client = traced.client.clone();
    let (record, acknowledged) = traced.stop().await;
    // From the last answer on, the log is written into the file, page by page, and then removed.
    let end = acknowledged.last().unwrap().between.1;
    let calls: Vec<f64> =
        record.times(&folder.path().join("data")).into_iter().filter(|began| *began > end).collect();
    assert!(calls.len() > 20, "the log was not written into the file: {} calls", calls.len());
    let last = calls.len() - 1;
    let cuts = (0..=9).map(|part| calls[last * part / 9]).chain([f64::MAX]);
    for (cut, unsynced) in
        cuts.zip([Unsynced::Torn, Unsynced::EverySecond, Unsynced::Torn, Unsynced::Lost].into_iter().cycle())
    {
        is_there_after_a_cut(&client, folder.path(), &record, &acknowledged, (cut, unsynced)).await;
    }
}
