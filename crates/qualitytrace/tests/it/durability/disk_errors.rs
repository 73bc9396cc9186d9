//! A disk that answers with errors now and then (EIO): strace lets every so-manieth call fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::under_strace;
use crate::full_disk::{all_is_there, store};
use crate::late_spans_load::program::Served;
use crate::power::strace;
use crate::program;

/// Each thread counts its own calls, and a connection that failed is replaced by one with a thread of its own.
const FAILING: &str = "-e trace=pwrite64,fdatasync,pread64 -e inject=pwrite64:error=EIO:when=230+97 \
                       -e inject=fdatasync:error=EIO:when=17+13 -e inject=pread64:error=EIO:when=60+29";

/// A system that counts the requests of each trace.
struct RequestCounter {
    url: String,
    requests: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl RequestCounter {
    async fn start() -> Self {
        let requests: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        let counts = Arc::clone(&requests);
        let handler = async move |headers: axum::http::HeaderMap| {
            let trace = headers["traceparent"].to_str().unwrap().split('-').nth(1).unwrap().to_owned();
            *counts.lock().unwrap().entry(trace).or_default() += 1;
            "done"
        };
        let router = axum::Router::new().fallback(axum::routing::any(handler));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, requests }
    }

    fn of(&self, trace: &str) -> u32 {
        self.requests.lock().unwrap().get(trace).copied().unwrap_or_default()
    }
}

/// Starts a run. `None` when it was refused, with words.
async fn start(client: &reqwest::Client, server: &Served) -> Option<(u64, String)> {
    let answer = client.post(server.url("/api/tests/t/run")).json(&json!({})).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    if status != StatusCode::OK {
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
        let says_what_to_do =
            ["fails; check it, then try again", "cannot be read; check its disk, then see with"];
        assert!(says_what_to_do.iter().any(|expected| text.contains(expected)), "{text}");
        return None;
    }
    let run: Value = serde_json::from_str(&text).unwrap();
    Some((run["id"].as_u64().unwrap(), run["traceId"].as_str().unwrap().to_owned()))
}

#[tokio::test]
async fn a_disk_that_fails_now_and_then_loses_and_repeats_nothing() {
    let Some(strace) = strace() else { return };
    let (client, system) = (crate::client(), RequestCounter::start().await);
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("errors.db").display());
    let server = Served::start(program(), &database, &[]).await;
    let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": system.url } });
    let spec = json!({ "id": "t", "name": "T", "trigger": trigger, "skipTraceCollection": true });
    let test = json!({ "type": "Test", "spec": spec });
    let put = client.put(server.url("/api/tests")).json(&test).send().await.unwrap();
    put.error_for_status().unwrap();
    drop(server);

    let traced = under_strace(&strace, folder.path(), FAILING);
    let mut server = Served::start(&traced, &database, &[]).await;
    let (mut acknowledged, mut runs) = (Vec::new(), Vec::new());
    for number in 0..60 {
        acknowledged.push(store(&client, &server, number).await);
        runs.push(start(&client, &server).await);
    }
    assert!(acknowledged.iter().flatten().any(|is_stored| !is_stored), "the disk never failed");
    let accepted: Vec<(u64, String)> = runs.into_iter().flatten().collect();
    assert!(accepted.len() > 10, "{} runs were accepted", accepted.len());
    // They end while the disk fails.
    let state = async |server: &Served, number: u64| -> Result<String, String> {
        let url = server.url(&format!("/api/tests/t/run/{number}"));
        let answer = client.get(url).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        let run: Value = serde_json::from_str(&text).unwrap();
        if status == StatusCode::OK { Ok(run["state"].as_str().unwrap().to_owned()) } else { Err(text) }
    };
    for (number, _) in &accepted {
        eventually(DEADLINE, format!("run {number} ends"), async || {
            let state = state(&server, *number).await?;
            if state == "FINISHED" || state == "FAILED" { Ok(()) } else { Err(state) }
        })
        .await;
    }
    server.child.kill().await.unwrap();

    let server = Served::start(program(), &database, &[]).await;
    all_is_there(&client, &server, &acknowledged).await;
    for (number, trace) in &accepted {
        let state = state(&server, *number).await.unwrap();
        let sent = system.of(trace);
        assert!(
            sent == 1 || (state == "FAILED" && sent == 0),
            "run {number} is {state}, and was sent {sent} times"
        );
    }
    assert_eq!(store(&client, &server, 60).await, [true; 2]);
    drop(server);
    let mut verify = tokio::process::Command::new(program());
    let verified = verify.args(["verify", "--database-url", &database]).output().await.unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
}
