//! A server whose queue is full, and one that only this machine can reach.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::late_spans_load::program::Served;
use crate::program;

/// A system under test that answers when it gets a permit.
pub(crate) struct Gate {
    pub(crate) url: String,
    /// Each permit is one response.
    pub(crate) answers: Arc<Semaphore>,
    asked: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) async fn start() -> Self {
        let (answers, asked) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (gate, count) = (Arc::clone(&answers), Arc::clone(&asked));
        let handler = async move || {
            count.fetch_add(1, Ordering::SeqCst);
            gate.acquire().await.unwrap().forget();
            "done"
        };
        let router = axum::Router::new().fallback(axum::routing::any(handler));
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, answers, asked }
    }

    /// Waits until it got this many requests.
    pub(crate) async fn asked(&self, times: usize) {
        eventually(DEADLINE, format!("the system gets {times} requests"), async || {
            let asked = self.times();
            if asked >= times { Ok(()) } else { Err(asked) }
        })
        .await;
    }

    /// How many requests it got so far.
    pub(crate) fn times(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// A test that sends it a request.
    pub(crate) fn test(&self, id: &str) -> Value {
        let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": self.url } });
        let spec = json!({ "id": id, "name": id, "trigger": trigger, "skipTraceCollection": true });
        json!({ "type": "Test", "spec": spec })
    }
}

pub(crate) async fn put(client: &Client, server: &Served, test: &Value) {
    let stored = client.put(server.url("/api/tests")).json(test).send().await.unwrap();
    assert!(stored.status().is_success(), "{}", stored.text().await.unwrap());
}

pub(crate) async fn start(client: &Client, server: &Served, id: &str) -> reqwest::Response {
    client.post(server.url(&format!("/api/tests/{id}/run"))).json(&json!({})).send().await.unwrap()
}

#[tokio::test]
async fn a_full_queue_is_said_and_the_command_line_comes_again() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let gate = Gate::start().await;
    let limits = ["--runs.concurrency", "1", "--runs.queue", "1"];
    let server = Served::start(program(), "sqlite::memory:", &limits).await;
    let client = crate::client();
    put(&client, &server, &gate.test("t")).await;
    // One is running, one waits, and there is no room for a third.
    assert_eq!(start(&client, &server, "t").await.status(), StatusCode::OK);
    gate.asked(1).await;
    assert_eq!(start(&client, &server, "t").await.status(), StatusCode::OK);
    let refused = start(&client, &server, "t").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    let said: Value = refused.json().await.unwrap();
    assert_eq!(said["code"], 429);
    assert!(said["error"].as_str().unwrap().contains("the limit (runs.queue)"), "{said}");

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("test.json"), gate.test("u").to_string()).unwrap();
    let mut run = Command::new(program());
    run.args(["run", "test.json", "--server", &server.url("")]).current_dir(folder.path());
    let run = tokio::spawn(async move { run.output().await.unwrap() });
    // The server's metrics show when the command line was refused, too.
    eventually(DEADLINE, "the command line is refused", async || {
        let metrics = client.get(server.url("/metrics")).send().await.unwrap().text().await.unwrap();
        let is_count = |line: &&str| line.contains("_count{") && line.contains("=\"429\"");
        let times = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        metrics.lines().filter(is_count).map(times).sum::<f64>() >= 2.0
    })
    .await;
    gate.answers.add_permits(3);
    let ended = run.await.unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(gate.times(), 3);
}

#[tokio::test]
async fn only_this_machine_reaches_a_server_that_was_not_told_otherwise() {
    // All of 127.0.0.0/8 is this machine, but a server binds only 127.0.0.1: another address of the range stands for
    // the addresses by which other machines reach this one.
    let is_reached = |server: &Served| {
        let other = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), server.http.port()));
        TcpStream::connect(other).is_ok()
    };
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    assert_eq!(server.http.ip(), Ipv4Addr::LOCALHOST);
    assert!(!is_reached(&server));
    let open = Served::start(program(), "sqlite::memory:", &["--host", "0.0.0.0"]).await;
    assert!(is_reached(&open));
}
