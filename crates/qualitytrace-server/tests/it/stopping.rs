//! Stopping of runs: a run can be stopped at any time, whatever its trigger waits for.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::{DEADLINE, eventually, within};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// The timeout of each trigger.
const TIMEOUT: &str = "60s";
/// The time within which a stopped run must end; far less than the timeout, and far more than it takes.
const BOUND: Duration = Duration::from_secs(10);

/// Accepts every connection and never responds. Reports when a client sends data, and when it disconnects.
async fn silent() -> (SocketAddr, mpsc::UnboundedReceiver<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                    let _ = tell.send("speaks");
                }
                let _ = tell.send("hangs up");
            });
        }
    });
    (address, told)
}

async fn server() -> (Server, String) {
    let server = Server::start(Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        limits: Limits { commands: true, ..Limits::default() },
        ..Config::default()
    });
    let server = server.await.unwrap();
    let url = format!("http://{}/api/tests", server.addresses().http);
    (server, url)
}

/// Returns the events of a run so far.
async fn events(client: &Client, run: &str) -> Vec<Value> {
    client.get(format!("{run}/events")).send().await.unwrap().json().await.unwrap()
}

fn place(events: &[Value], kind: &str) -> Option<usize> {
    events.iter().position(|event| event["type"] == kind || event["what"] == kind)
}

/// Starts a test, waits until it hangs, stops it, and checks the result.
async fn check(kind: &str, trigger: &Value, hangs: impl AsyncFnOnce(&Client, &str)) {
    let ((server, url), client) = (server().await, crate::client());
    let test = json!({ "type": "Test", "spec": { "id": kind, "name": kind, "trigger": trigger } });
    client.put(&url).json(&test).send().await.unwrap().error_for_status().unwrap();
    let start = client.request(Method::POST, format!("{url}/{kind}/run")).json(&json!({}));
    start.send().await.unwrap().error_for_status().unwrap();
    let run = format!("{url}/{kind}/run/1");
    hangs(&client, &run).await;
    let wanted = Instant::now();
    client.post(format!("{run}/stop")).send().await.unwrap().error_for_status().unwrap();
    // The stream ends with the run.
    let stream = client.get(format!("{run}/events/stream")).send().await.unwrap().text().await.unwrap();
    let took = wanted.elapsed();
    println!("{kind}: stopped after {took:?}");
    assert!(took < BOUND, "{kind}: stopped after {took:?}");
    let told: Vec<Value> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let at = |what: &str| place(&told, what);
    assert!(at("triggering").is_some() && at("triggering") < at("stopped"), "{kind}: {stream}");
    assert_eq!(at("stopped"), Some(told.len() - 1), "{kind}: {stream}");
    assert_eq!((at("judged"), at("triggerFailed")), (None, None), "{kind}: {stream}");
    assert_eq!(at("triggered").is_some(), kind == "traceid", "{kind}: {stream}");
    let shown: Value = client.get(&run).send().await.unwrap().json().await.unwrap();
    assert_eq!(shown["state"], "STOPPED", "{kind}");
    assert!(!events(&client, &run).await.is_empty());
    server.shutdown().await;
}

/// Like [`check`], for a trigger with a peer: the peer sees that the connection is closed.
async fn check_peer(kind: &str, trigger: impl FnOnce(SocketAddr) -> Value) {
    let (address, mut told) = silent().await;
    check(kind, &trigger(address), async |_, _| {
        assert_eq!(within(DEADLINE, "the peer is spoken to", told.recv()).await, Some("speaks"));
    })
    .await;
    within(DEADLINE, format!("{kind}: the connection is closed"), async {
        while told.recv().await.expect("a connection is open") != "hangs up" {}
    })
    .await;
}

#[tokio::test]
async fn an_http_request_ends_with_its_run() {
    check_peer("http", |peer| {
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("http://{peer}/"), "timeout": TIMEOUT } })
    })
    .await;
}

#[tokio::test]
async fn a_graphql_query_ends_with_its_run() {
    for introspection in [false, true] {
        check_peer("graphql", |peer| {
            json!({ "type": "graphql", "graphql": {
                "url": format!("http://{peer}/"), "timeout": TIMEOUT, "introspection": introspection,
                "body": { "query": "{ a }" },
            } })
        })
        .await;
    }
}

#[tokio::test]
async fn a_grpc_call_ends_with_its_run() {
    let proto = "syntax = \"proto3\"; package a; service B { rpc C(M) returns (M); } message M {}";
    for protocol in [proto, ""] {
        check_peer("grpc", |peer| {
            json!({ "type": "grpc", "grpc": {
                "address": peer.to_string(), "method": "a.B.C", "protobufFile": protocol, "request": "{}",
                "timeout": TIMEOUT,
            } })
        })
        .await;
    }
}

#[tokio::test]
async fn a_kafka_message_ends_with_its_run() {
    check_peer("kafka", |peer| {
        json!({ "type": "kafka", "kafka": {
            "brokerUrls": [peer.to_string()], "topic": "t", "messageValue": "x", "timeout": TIMEOUT,
        } })
    })
    .await;
}

#[tokio::test]
async fn a_command_ends_with_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("process");
    let line = format!("echo $$ > {0}.new; mv {0}.new {0}; sleep 60", note.display());
    let trigger = json!({ "type": "exec", "exec": { "command": line, "timeout": TIMEOUT } });
    check("exec", &trigger, async |_, _| {
        eventually(DEADLINE, "the command is running", async || note.exists()).await;
    })
    .await;
    let process = std::fs::read_to_string(&note).unwrap();
    let entry = std::path::Path::new("/proc").join(process.trim());
    eventually(DEADLINE, "the command is gone", async || {
        !std::fs::read_to_string(entry.join("cmdline")).is_ok_and(|line| line.contains("sleep"))
    })
    .await;
}

#[tokio::test]
async fn a_wait_for_a_trace_ends_with_its_run() {
    let trigger = json!({ "type": "traceid", "traceid": { "id": "0102030405060708090a0b0c0d0e0f10" } });
    check("traceid", &trigger, until_answered).await;
}

/// Starts a test with so many assertions, each of which reads all of a large response.
async fn judged(url: &str, client: &Client, subject: SocketAddr, id: &str, assertions: usize) -> String {
    let claim = |number: usize| format!("attr:tracetest.response.body | json_path '$[{number}]' = \"0\"");
    let test = json!({ "type": "Test", "spec": {
        "id": id, "name": id, "skipTraceCollection": true,
        "trigger": { "type": "http", "httpRequest": { "method": "GET", "url": format!("http://{subject}/") } },
        "specs": [{ "selector": "span[]", "assertions": (0..assertions).map(claim).collect::<Vec<_>>() }],
    } });
    client.put(url).json(&test).send().await.unwrap().error_for_status().unwrap();
    let start = client.post(format!("{url}/{id}/run")).json(&json!({}));
    start.send().await.unwrap().error_for_status().unwrap();
    format!("{url}/{id}/run/1")
}

/// Waits until the trigger got its response: the run waits for its trace, or is being judged if it collects none.
async fn until_answered(client: &Client, run: &str) {
    eventually(DEADLINE, "the trigger is answered", async || {
        let state = state(client, run).await;
        if matches!(state.as_str(), "AWAITING_TRACE" | "FINISHED") { Ok(()) } else { Err(state) }
    })
    .await;
}

async fn state(client: &Client, run: &str) -> String {
    let shown: Value = client.get(run).send().await.unwrap().json().await.unwrap();
    shown["state"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn judging_ends_with_its_run() {
    const FEW: usize = 10;
    const MANY: usize = 20 * FEW;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let subject = listener.local_addr().unwrap();
    let numbers = format!("[{}0]", "0,".repeat(200_000));
    let router = axum::Router::new().fallback(move || std::future::ready(numbers.clone()));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let ((server, url), client) = (server().await, crate::client());

    // Measures how long a part of it takes on this machine now.
    let few = judged(&url, &client, subject, "few", FEW).await;
    until_answered(&client, &few).await;
    let began = Instant::now();
    client.get(format!("{few}/events/stream")).send().await.unwrap().text().await.unwrap();
    let part = began.elapsed();

    let many = judged(&url, &client, subject, "many", MANY).await;
    until_answered(&client, &many).await;
    // An evaluation cannot be observed, except that the run does not end: it goes on for as long as the part took.
    tokio::time::sleep(part).await;
    let wanted = Instant::now();
    client.post(format!("{many}/stop")).send().await.unwrap().error_for_status().unwrap();
    client.get(format!("{many}/events/stream")).send().await.unwrap().text().await.unwrap();
    let took = wanted.elapsed();
    println!("judging {FEW} takes {part:?}; {MANY} were stopped after {took:?}");
    assert_eq!(state(&client, &many).await, "STOPPED");
    assert!(took < part * 6 + Duration::from_millis(500), "stopped after {took:?}, {FEW} take {part:?}");
    server.shutdown().await;
}

#[tokio::test]
async fn a_deleted_test_ends_its_run_and_one_that_is_created_again_has_runs_of_its_own() {
    let ((server, url), client) = (server().await, crate::client());
    let (peer, mut told) = silent().await;
    let request = json!({ "method": "GET", "url": format!("http://{peer}/"), "timeout": TIMEOUT });
    let trigger = json!({ "type": "http", "httpRequest": request });
    let test = json!({ "type": "Test", "spec": { "id": "t", "name": "t", "trigger": trigger } });
    let mut next =
        async |what: &str| within(DEADLINE, what, told.recv()).await.expect("a connection is open");
    for number in 1..=2 {
        client.put(&url).json(&test).send().await.unwrap().error_for_status().unwrap();
        let started = client.post(format!("{url}/t/run")).json(&json!({})).send().await.unwrap();
        assert_eq!(started.json::<Value>().await.unwrap()["id"], number);
        assert_eq!(next("the peer is spoken to").await, "speaks");
        if number == 1 {
            client.delete(format!("{url}/t")).send().await.unwrap().error_for_status().unwrap();
            assert_eq!(next("the run of the deleted test ends").await, "hangs up");
        }
    }
    assert_eq!(client.get(format!("{url}/t/run/1")).send().await.unwrap().status(), 404);
    let run = format!("{url}/t/run/2");
    client.post(format!("{run}/stop")).send().await.unwrap().error_for_status().unwrap();
    assert_eq!(next("the run is stopped").await, "hangs up");
    eventually(DEADLINE, "the run is shown as stopped", async || {
        let shown: Value = client.get(&run).send().await.unwrap().json().await.unwrap();
        shown["state"] == "STOPPED"
    })
    .await;
    server.shutdown().await;
}
