//! The register of services: fed by everything that arrives, whether it belongs to a run or not.

use std::time::{SystemTime, UNIX_EPOCH};

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(
    every_signal_registers_its_service,
    how_a_service_delivers_is_known_after_a_restart_but_it_is_silent,
    answered_addresses_are_learned_from_traces_of_no_run,
);

const SECOND: u64 = 1_000_000_000;

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

fn attributes(pairs: &[(&str, &str)]) -> Value {
    let pair = |(key, value): &(&str, &str)| json!({ "key": key, "value": { "stringValue": value } });
    pairs.iter().map(pair).collect()
}

/// Builds a request with items of one process.
fn request(signal: &str, process: &[(&str, &str)], items: &Value) -> Value {
    let (scopes, list) = match signal {
        "traces" => ("scopeSpans", "spans"),
        "logs" => ("scopeLogs", "logRecords"),
        _ => ("scopeMetrics", "metrics"),
    };
    let resource = json!({ "attributes": attributes(process) });
    json!({ format!("resource{}", &scopes[5..]): [{ "resource": resource, scopes: [{ list: items }] }] })
}

fn span(id: u64, parent: u64, kind: u8, end: u64, pairs: &[(&str, &str)]) -> Value {
    json!({
        "traceId": format!("{:032x}", 7), "spanId": format!("{id:016x}"), "name": "GET /", "kind": kind,
        "parentSpanId": if parent == 0 { String::new() } else { format!("{parent:016x}") },
        "startTimeUnixNano": (end - SECOND).to_string(), "endTimeUnixNano": end.to_string(),
        "attributes": attributes(pairs),
    })
}

async fn deliver(bench: &Bench, signal: &str, process: &[(&str, &str)], items: Value) {
    let body = request(signal, process, &items).to_string();
    let headers = [("content-type", "application/json")];
    let stored = bench.send(Method::POST, &format!("/v1/{signal}"), &headers, &body).await;
    assert!(stored.status.is_success(), "{}", stored.text);
}

async fn service(bench: &Bench, name: &str) -> Value {
    let list = bench.get("/api/services").await.json();
    let found = list["items"].as_array().unwrap().iter().find(|item| item["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {name}: {list}")).clone()
}

async fn every_signal_registers_its_service(database: &Database) {
    let bench = Bench::new(database).await;
    let began = now();
    let shop = [("service.name", "shop"), ("service.instance.id", "a")];
    let ends = [began - 3 * SECOND, began - SECOND];
    let spans = ends.iter().zip(1..).map(|(end, id)| span(id, 0, 2, *end, &[])).collect();
    deliver(&bench, "traces", &shop, spans).await;
    // A span that ended earlier and arrives later is out of order.
    deliver(&bench, "traces", &shop, json!([span(3, 0, 2, began - 2 * SECOND, &[])])).await;
    let gauge = json!({ "dataPoints": [{ "asInt": "1", "timeUnixNano": began.to_string() }] });
    let metrics = json!([{ "name": "up", "gauge": gauge }]);
    deliver(&bench, "metrics", &[("service.name", "depot"), ("host.name", "h")], metrics).await;
    let line = json!([{ "timeUnixNano": began.to_string(), "body": { "stringValue": "hello" } }]);
    deliver(&bench, "logs", &[("service.name", "till")], line).await;

    let shop = service(&bench, "shop").await;
    assert_eq!((&shop["heard"], &shop["spans"]), (&json!(true), &json!(3)), "{shop}");
    let lag = shop["largestLag"].as_u64().unwrap();
    assert!((3_000..30_000).contains(&lag), "{shop}");
    assert_eq!(shop["overtaking"], 1_000, "{shop}");
    assert_eq!(shop["instances"][0]["id"], "a");
    let watermark = &shop["instances"][0]["watermark"];
    assert!(watermark.is_string() && *watermark == shop["watermark"], "{shop}");
    for (name, instance) in [("depot", "h"), ("till", "127.0.0.1")] {
        let known = service(&bench, name).await;
        assert_eq!((&known["heard"], &known["spans"]), (&json!(false), &json!(0)), "{known}");
        assert_eq!(known["instances"][0]["id"], instance);
        assert!(known["instances"][0]["lastSignal"].is_string(), "{known}");
        assert_eq!(known["instances"][0]["watermark"], Value::Null);
        assert_eq!(known["lastSeen"], known["instances"][0]["lastArrival"]);
    }
    bench.server.shutdown().await;
}

async fn how_a_service_delivers_is_known_after_a_restart_but_it_is_silent(database: &Database) {
    if database.url.contains(":memory:") {
        return;
    }
    let bench = Bench::new(database).await;
    let shop = [("service.name", "shop")];
    deliver(&bench, "traces", &shop, json!([span(1, 0, 2, now() - 4 * SECOND, &[])])).await;
    bench.server.shutdown().await;

    let bench = Bench::new(database).await;
    let shop = service(&bench, "shop").await;
    assert_eq!((&shop["heard"], &shop["deliveries"]), (&json!(false), &json!(1)), "{shop}");
    assert!(shop["largestLag"].as_u64().unwrap() >= 4_000, "{shop}");
    assert_eq!(shop["instances"], json!([]));
    bench.server.shutdown().await;
}

async fn answered_addresses_are_learned_from_traces_of_no_run(database: &Database) {
    let bench = Bench::new(database).await;
    let called = [("server.address", "stock.internal"), ("server.port", "8080")];
    deliver(&bench, "traces", &[("service.name", "shop")], json!([span(1, 0, 3, now(), &called)])).await;
    deliver(&bench, "traces", &[("service.name", "stock")], json!([span(2, 1, 2, now(), &[])])).await;
    eventually(DEADLINE, "stock is known to answer", async || {
        let stock = service(&bench, "stock").await;
        if stock["answers"] == json!(["stock.internal:8080"]) { Ok(()) } else { Err(stock) }
    })
    .await;
    bench.server.shutdown().await;
}
