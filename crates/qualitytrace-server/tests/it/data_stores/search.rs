//! Search engines: OpenSearch and Elastic APM.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Bench;
use super::stand_in::{Answer, StandIn, StoreRequest};

/// The time as RFC 3339. It changes with every answer: a span that does is stored again, and is no new one.
fn now_text() -> String {
    jiff::Timestamp::now().to_string()
}

fn page(documents: &[Value], total: usize) -> Value {
    let hits: Vec<Value> = documents.iter().map(|document| json!({ "_source": document })).collect();
    json!({ "hits": { "total": { "value": total, "relation": "eq" }, "hits": hits } })
}

/// The same of a search that `successful` of two shards answered.
fn of_shards(documents: &[Value], successful: usize) -> Value {
    let mut page = page(documents, documents.len());
    page["_shards"] = json!({ "total": 2, "successful": successful, "skipped": 0, "failed": 0 });
    page
}

fn is_login(asked: &StoreRequest) -> bool {
    asked.header("authorization") == format!("Basic {}", STANDARD.encode("user:word"))
}

fn index(kind: &str, url: &str, password: &str) -> Value {
    let details =
        json!({ "addresses": [url], "username": "user", "password": password, "index": "traces-*" });
    json!({ "name": "I", "type": kind, kind: details })
}

/// A document of Data Prepper.
fn prepper(id: &str, parent: &str, name: &str) -> Value {
    json!({ "spanId": id, "parentSpanId": parent, "name": name, "kind": "SPAN_KIND_SERVER",
        "startTime": now_text(), "endTime": now_text(), "span.attributes.shop@id": 7,
        "resource.attributes.service@name": "shop", "status.code": 2,
        // A link without ids is kept for its attributes.
        "links": [{ "traceId": "", "spanId": "", "attributes": { "n": 1 } }] })
}

#[tokio::test]
async fn a_run_reads_all_pages_of_its_trace_from_opensearch() {
    let bench = Bench::start().await;
    let opensearch = StandIn::start(&bench.caused, |asked: &StoreRequest, caused| {
        if !is_login(asked) {
            return Answer::status(401);
        }
        let Some((trace, parent)) = caused else { return Answer::json(page(&[], 0)) };
        let handle = prepper("00000000000000aa", parent, "handle");
        let query = prepper("00000000000000bb", "00000000000000aa", "query");
        let scrolled = |documents: &[Value], next: &str| {
            let mut page = page(documents, 2);
            page["_scroll_id"] = json!(next);
            Answer::json(page)
        };
        match (asked.method.as_str(), asked.path.as_str(), asked.query.as_str()) {
            // The index itself, without a trace.
            ("POST", "/traces-*/_search", "size=0") => Answer::json(page(&[], 5)),
            ("POST", "/traces-*/_search", "") if asked.body.contains(trace) => {
                Answer::json(page(&[handle], 2))
            }
            ("POST", "/traces-*/_search", "scroll=30s") if asked.body.contains(trace) => {
                scrolled(&[handle], "first")
            }
            ("POST", "/_search/scroll", "") if asked.body.contains("first") => scrolled(&[query], "second"),
            ("POST", "/_search/scroll", "") if asked.body.contains("second") => scrolled(&[], "second"),
            ("DELETE", "/_search/scroll", "") => Answer::json(json!({ "succeeded": true })),
            _ => Answer::status(404),
        }
    })
    .await;
    let store = index("opensearch", &opensearch.url, "word");
    bench.passes_with(&store).await;
    // The engine does not keep the state of what was read.
    assert!(opensearch.asked().iter().any(|asked| asked.method == "DELETE" && asked.body.contains("second")));
    let connection = bench.connection(&store).await;
    assert_eq!(connection["fetchTraces"]["status"], "passed", "{connection}");
    let connection = bench.connection(&index("opensearch", &opensearch.url, "wrong")).await;
    assert_eq!(connection["authentication"]["status"], "failed", "{connection}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn an_answer_of_some_shards_is_no_trace() {
    // Longer than the first run waits for more spans.
    const STARTING: Duration = Duration::from_secs(2);
    let bench = Bench::start().await;
    let began = Arc::new(OnceLock::new());
    let opensearch = StandIn::start(&bench.caused, move |asked: &StoreRequest, caused| {
        let Some((_, parent)) = caused.filter(|(trace, _)| asked.body.contains(trace.as_str())) else {
            return Answer::json(of_shards(&[], 2));
        };
        let handle = prepper("00000000000000aa", parent, "handle");
        let query = prepper("00000000000000bb", "00000000000000aa", "query");
        if began.get_or_init(Instant::now).elapsed() < STARTING {
            return Answer::json(of_shards(&[handle], 1));
        }
        Answer::json(of_shards(&[handle, query], 2))
    })
    .await;
    bench.passes_with(&index("opensearch", &opensearch.url, "word")).await;

    let broken = StandIn::start(&bench.caused, |_: &StoreRequest, _| Answer::json(of_shards(&[], 1))).await;
    let store = index("opensearch", &broken.url, "word");
    let connection = bench.connection(&store).await;
    assert_eq!(connection["fetchTraces"]["status"], "failed", "{connection}");
    bench.store(&store).await;
    let run = bench.run(&json!([])).await;
    assert_eq!(run["state"], "TRACE_FAILED", "{run}");
    let error = run["lastErrorState"].as_str().unwrap_or_default();
    assert!(error.contains("OpenSearch") && error.contains("1 of 2 shards"), "{error}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_run_reads_its_trace_from_elastic_apm() {
    let bench = Bench::start().await;
    // Since 2023, the id of a transaction is also in `span.id`.
    for added in [
        json!({ "processor": { "event": "transaction" } }),
        json!({ "processor": { "event": "transaction" }, "span": { "id": "00000000000000aa" } }),
        json!({ "span": { "id": "00000000000000aa" } }),
    ] {
        reads_from_elastic_apm(&bench, added).await;
    }
    bench.server.shutdown().await;
}

/// Reads a trace whose transaction has these fields, too.
async fn reads_from_elastic_apm(bench: &Bench, added: Value) {
    let elastic = StandIn::start(&bench.caused, move |asked: &StoreRequest, caused| {
        if !is_login(asked) {
            return Answer::status(401);
        }
        let Some((trace, parent)) = caused.filter(|(trace, _)| asked.body.contains(trace.as_str())) else {
            return Answer::json(page(&[], 0));
        };
        assert!(asked.body.contains("trace.id"), "{}", asked.body);
        let mut transaction = json!({ "@timestamp": now_text(), "trace": { "id": trace }, "parent": { "id": parent },
            "service": { "name": "shop" }, "labels": { "shop.id": 7 },
            "transaction": { "id": "00000000000000aa", "name": "handle", "type": "request", "duration": { "us": 9 } } });
        transaction.as_object_mut().unwrap().extend(added.as_object().unwrap().clone());
        let span = json!({ "@timestamp": now_text(), "trace": { "id": trace },
            "parent": { "id": "00000000000000aa" }, "transaction": { "id": "00000000000000aa" },
            "span": { "id": "00000000000000bb", "name": "query", "type": "app", "duration": { "us": 5 } } });
        let error = json!({ "@timestamp": now_text(), "trace": { "id": trace }, "processor": { "event": "error" } });
        Answer::json(page(&[transaction, span, error], 3))
    })
    .await;
    let run = bench.passes_with(&index("elasticapm", &elastic.url, "word")).await;
    let connection = bench.connection(&index("elasticapm", &elastic.url, "wrong")).await;
    assert_eq!(connection["authentication"]["status"], "failed", "{connection}");
    assert!(run["trace"].is_object(), "{run}");
    let (trace, _) = bench.caused.lock().unwrap().clone().unwrap();
    let handle = bench.get(&format!("/api/traces/{trace}/spans/00000000000000aa")).await;
    assert_eq!((&handle["kind"], &handle["duration"]), (&json!("server"), &json!("9000")), "{handle}");
}
