//! Traces in every output format.

use std::io;
use std::sync::Arc;

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Dropped, Resource, Scope, Span, SpanKind, Trace};
use qualitytrace_server::wire;
use qualitytrace_server::wire::run::RunTrace;
use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{Bench, Got};
use crate::databases::Database;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
fn sent(id: u8, parent: u8, kind: u8, service: &str, name: &str) -> Value {
    let hex = |id: u8| if id == 0 { String::new() } else { format!("{id:016x}") };
    let span = json!({
        "traceId": TRACE, "spanId": hex(id), "parentSpanId": hex(parent), "kind": kind, "name": name,
        "startTimeUnixNano": format!("{}", 1_700_000_000_000_000_000_u64 + u64::from(kind)),
        "endTimeUnixNano": "1700000000000000100",
    });
    let service = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": service } }] });
    json!({ "resource": service, "scopeSpans": [{ "spans": [span] }] })
}

/// Returns a trace in this format.
async fn form(bench: &Bench, accept: &str) -> Value {
    let path = format!("/api/traces/{TRACE}");
    let got: Got = bench.send(Method::GET, &path, &[("accept", accept)], "").await;
    assert_eq!(got.status, StatusCode::OK, "{}", got.text);
    got.json()
}

/// Runs a test that judges the trace.
async fn run(bench: &Bench) -> Value {
    let trigger = json!({ "type": "traceid", "traceid": { "id": TRACE } });
    let test = json!({ "type": "Test", "spec": { "id": "t", "name": "t", "trigger": trigger } });
    assert_eq!(bench.put("/api/tests", &test).await.status, StatusCode::CREATED);
    assert_eq!(bench.post("/api/tests/t/run", &json!({})).await.status, StatusCode::OK);
    eventually(DEADLINE, "the run ends", async || {
        let run = bench.get("/api/tests/t/run/1").await.json();
        if run["state"] == "FINISHED" { Ok(run) } else { Err(run["state"].to_string()) }
    })
    .await
}

#[tokio::test]
async fn two_spans_with_one_id_are_both_shown_where_they_belong() {
    let bench = Bench::new(&Database::memory()).await;
    // As in Zipkin: the two sides of a call share an id and a parent.
    let spans = [
        sent(1, 0, 1, "web", "page"),
        sent(2, 1, 3, "web", "call"),
        sent(2, 1, 2, "shop", "answer"),
        sent(3, 2, 4, "shop", "inner"),
    ];
    let headers = [("content-type", "application/json")];
    let got = bench
        .send(Method::POST, "/v1/traces", &headers, &json!({ "resourceSpans": spans }).to_string())
        .await;
    assert_eq!(got.status, StatusCode::OK, "{}", got.text);

    let plain = form(&bench, "application/json").await;
    let plain = plain["spans"].as_array().unwrap();
    let names: Vec<_> = plain.iter().map(|span| (span["name"].as_str().unwrap(), &span["depth"])).collect();
    assert_eq!(
        names,
        [("page", &json!(0)), ("call", &json!(1)), ("answer", &json!(2)), ("inner", &json!(3))]
    );
    for pair in plain.windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"]);
    }

    let jaeger = form(&bench, "application/vnd.jaeger+json").await;
    let jaeger = jaeger["data"][0]["spans"].as_array().unwrap();
    assert_eq!(jaeger.len(), 4);
    for pair in jaeger.windows(2) {
        assert_eq!(pair[1]["references"][0]["spanID"], pair[0]["spanID"]);
    }

    // OTLP is returned as received.
    let otlp = form(&bench, "application/vnd.otlp+json").await;
    let otlp: Vec<&Value> = otlp["resourceSpans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of_resource| &of_resource["scopeSpans"][0]["spans"][0])
        .collect();
    assert_eq!(otlp.len(), 4);
    assert_eq!(otlp.iter().filter(|span| span["spanId"] == "0000000000000002").count(), 2);

    let run = run(&bench).await;
    let mut at = &run["trace"]["tree"];
    let mut path = Vec::new();
    while let Some(name) = at["name"].as_str() {
        path.push(name.to_owned());
        at = &at["children"][0];
    }
    assert!(path.ends_with(&["page", "call", "answer", "inner"].map(str::to_owned)), "{path:?}");
    let flat = run["trace"]["flat"].as_object().unwrap();
    let mut names: Vec<&str> = flat.values().filter_map(|span| span["name"].as_str()).collect();
    names.sort_unstable();
    assert!(["answer", "call", "inner", "page"].iter().all(|name| names.contains(name)), "{names:?}");
    bench.server.shutdown().await;
}

/// Builds a chain of so many spans.
fn chain(length: u64) -> Trace {
    let (resource, scope) = (Arc::new(Resource::default()), Arc::new(Scope::default()));
    let span = |at: u64| Span {
        id: SpanId::from_slice(&at.to_be_bytes()),
        parent: SpanId::from_slice(&(at - 1).to_be_bytes()),
        name: "s".into(),
        kind: SpanKind::Internal,
        start: Timestamp::from_nanos(at),
        end: None,
        status: None,
        attributes: Attributes::default(),
        events: Vec::new(),
        links: Vec::new(),
        resource: Arc::clone(&resource),
        scope: Arc::clone(&scope),
        trace_state: "".into(),
        flags: 0,
        dropped: Dropped::default(),
    };
    Trace::assemble(TraceId::from_bytes([1; 16]).unwrap(), (1..=length).map(span))
}

#[test]
fn a_chain_of_200_000_spans_is_written_in_every_form() {
    // An algorithm that walks to the root for each span would take twenty thousand million steps.
    let trace = chain(200_000);
    serde_json::to_writer(io::sink(), &wire::trace::Document(trace.clone())).unwrap();
    serde_json::to_writer(io::sink(), &wire::jaeger::Document(trace.clone())).unwrap();
    serde_json::to_writer(io::sink(), &RunTrace::Assembled(Arc::new(trace))).unwrap();
}
