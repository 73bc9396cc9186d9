//! What a run owes, told while it waits.

use std::time::{SystemTime, UNIX_EPOCH};

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::Bench;
use crate::databases::Database;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[tokio::test]
async fn a_client_that_asks_is_told_what_a_run_owes_while_it_waits() {
    let bench = Bench::new(&Database::memory()).await;
    let periodic = json!({ "timeout": "30s", "retryDelay": "1s", "settle": "2s" });
    let profile = json!({ "type": "PollingProfile", "spec": {
        "id": "current", "name": "p", "default": true, "strategy": "periodic", "periodic": periodic } });
    assert_eq!(bench.put("/api/pollingprofiles/current", &profile).await.status, StatusCode::OK);
    let span = json!({
        "traceId": TRACE, "spanId": "0000000000000002", "parentSpanId": "0000000000000001", "kind": 2, "name": "orphan",
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000000000100",
    });
    let other = json!({
        "traceId": TRACE, "spanId": "0000000000000003", "parentSpanId": "0000000000000002", "kind": 1, "name": "child",
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000000000100",
    });
    let root = json!({
        "traceId": TRACE, "spanId": "0000000000000004", "kind": 1, "name": "root",
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000000000100",
    });
    let sent = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span, other, root] }] }] });
    let headers = [("content-type", "application/json")];
    let got = bench.send(Method::POST, "/v1/traces", &headers, &sent.to_string()).await;
    assert_eq!(got.status, StatusCode::OK, "{}", got.text);

    let trigger = json!({ "type": "traceid", "traceid": { "id": TRACE } });
    let specs = json!([
        { "name": "decided", "selector": r#"span[name = "child"]"#, "assertions": ["attr:name = \"other\""] },
        { "name": "open", "selector": r#"span[name = "later"]"#, "assertions": ["attr:name = \"later\""] },
    ]);
    let spec = json!({ "id": "t", "name": "t", "trigger": trigger, "specs": specs });
    assert_eq!(
        bench.put("/api/tests", &json!({ "type": "Test", "spec": spec })).await.status,
        StatusCode::CREATED
    );
    assert_eq!(bench.post("/api/tests/t/run", &json!({})).await.status, StatusCode::OK);
    let told = bench.get("/api/tests/t/run/1/events/stream?short=true&owed=true").await.text;
    eventually(DEADLINE, "the run ends", async || {
        bench.get("/api/tests/t/run/1").await.json()["state"] == "FINISHED"
    })
    .await;
    let events: Vec<Value> = told
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| serde_json::from_str(data.trim()).unwrap())
        .collect();
    let owed: Vec<&Value> = events.iter().filter(|event| event["what"] == "owed").collect();
    assert!(!owed.is_empty(), "{told}");
    let debts = owed[0]["debts"].as_array().unwrap();
    let parent = debts.iter().find(|debt| debt["kind"] == "parent").unwrap_or_else(|| panic!("{}", owed[0]));
    assert_eq!(parent["spanId"], "0000000000000001");
    assert!(parent["text"].as_str().unwrap().contains("of span `orphan`"), "{parent}");
    let time = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
    assert!(time(&parent["since"]) < time(&parent["until"]), "{parent}");
    assert!(time(&owed[0]["quietUntil"]) <= time(&owed[0]["settleUntil"]), "{}", owed[0]);
    let outcome = |name: &str| {
        let specs = owed[0]["specs"].as_array().unwrap();
        specs.iter().find(|spec| spec["name"] == name).unwrap()["outcome"].clone()
    };
    assert_eq!((outcome("decided"), outcome("open")), (json!("failed"), json!("failing")));
    // Stored events keep their numbers: what is owed has none.
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    let silent = bench.get("/api/tests/t/run/1/events/stream").await.text;
    assert!(!silent.contains("\"owed\""));
    bench.server.shutdown().await;
}

fn delivery(service: &str, span: &Value) -> String {
    let name = json!([{ "key": "service.name", "value": { "stringValue": service } }]);
    let spans = json!({ "resource": { "attributes": name }, "scopeSpans": [{ "spans": [span] }] });
    json!({ "resourceSpans": [spans] }).to_string()
}

#[tokio::test]
async fn a_link_from_another_trace_answers_a_message() {
    let bench = Bench::new(&Database::memory()).await;
    let headers = [("content-type", "application/json")];
    let end = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap();
    let times =
        json!({ "startTimeUnixNano": (end - 1_000_000).to_string(), "endTimeUnixNano": end.to_string() });
    let span = |own: Value| {
        let mut span = own;
        span.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
        span
    };
    let attribute = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let published = span(json!({
        "traceId": TRACE, "spanId": "0000000000000002", "kind": 4, "name": "orders publish",
        "attributes": [attribute("messaging.system", "kafka"), attribute("messaging.destination.name", "orders")],
    }));
    let processed = span(json!({
        "traceId": "0af7651916cd43dd8448eb211c803190", "spanId": "0000000000000003", "kind": 5, "name": "orders process",
        "links": [{ "traceId": TRACE, "spanId": "0000000000000002" }],
    }));
    let sent = bench.send(Method::POST, "/v1/traces", &headers, &delivery("shop", &published)).await;
    assert_eq!(sent.status, StatusCode::OK, "{}", sent.text);
    let spec =
        json!({ "id": "t", "name": "t", "trigger": { "type": "traceid", "traceid": { "id": TRACE } } });
    let made = bench.put("/api/tests", &json!({ "type": "Test", "spec": spec })).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    assert_eq!(bench.post("/api/tests/t/run", &json!({})).await.status, StatusCode::OK);
    eventually(DEADLINE, "the run waits for its trace", async || {
        bench.get("/api/tests/t/run/1").await.json()["state"] == "AWAITING_TRACE"
    })
    .await;
    let sent = bench.send(Method::POST, "/v1/traces", &headers, &delivery("worker", &processed)).await;
    assert_eq!(sent.status, StatusCode::OK, "{}", sent.text);
    let told = bench.get("/api/tests/t/run/1/events/stream?short=true&owed=true").await.text;
    let debts = told.lines().rfind(|line| line.contains("\"owed\"")).unwrap();
    assert!(!debts.contains("has no answering span"), "{told}");
    let services = bench.get("/api/services").await.json();
    let worker = services["items"].as_array().unwrap().iter().find(|item| item["name"] == "worker").unwrap();
    assert_eq!(worker["answers"], json!(["orders"]), "{services}");
    bench.server.shutdown().await;
}
