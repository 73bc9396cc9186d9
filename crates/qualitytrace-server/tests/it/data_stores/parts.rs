//! Traces of which a store has a part, or a part that cannot be read: what is missing is not judged as absent.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Bench;
use super::stand_in::{Answer, StandIn, StoreRequest};

/// How long a part is missing: longer than the first run waits for more spans.
const MISSING: Duration = Duration::from_secs(2);
const HANDLE: &str = "00000000000000aa";
const QUERY: &str = "00000000000000bb";

/// Whether the part is still missing, after the first request for it.
fn is_missing(began: &OnceLock<Instant>) -> bool {
    began.get_or_init(Instant::now).elapsed() < MISSING
}

fn now_text() -> String {
    jiff::Timestamp::now().to_string()
}

#[tokio::test]
async fn a_segment_that_signalfx_lists_is_waited_for() {
    let bench = Bench::start().await;
    let began = Arc::new(OnceLock::new());
    let signalfx = StandIn::start(&bench.caused, move |asked: &StoreRequest, caused| {
        let Some((trace, parent)) = caused else { return Answer::status(404) };
        let span = |id: &str, parent: &str, name: &str| {
            json!([{ "traceId": trace, "spanId": id, "parentId": parent, "operationName": name,
                "startTime": now_text(), "durationMicros": 5, "tags": { "shop.id": "7" } }])
        };
        match asked.path.strip_prefix(&format!("/v2/apm/trace/{trace}/")) {
            Some("segments") => Answer::json(json!([1, 2])),
            Some("1") => Answer::json(span(HANDLE, parent, "handle")),
            Some("2") if !is_missing(&began) => Answer::json(span(QUERY, HANDLE, "query")),
            _ => Answer::status(404),
        }
    })
    .await;
    let details = json!({ "realm": "us1", "token": "word", "url": signalfx.url });
    bench.passes_with(&json!({ "name": "S", "type": "signalfx", "signalfx": details })).await;
    bench.server.shutdown().await;
}

#[tokio::test]
async fn details_that_sumo_logic_does_not_have_yet_are_waited_for() {
    let bench = Bench::start().await;
    let began = Arc::new(OnceLock::new());
    let sumo = StandIn::start(&bench.caused, move |asked: &StoreRequest, caused| {
        let Some((trace, parent)) = caused else { return Answer::status(404) };
        let span = |id: &str, parent: &str, name: &str| {
            json!({ "id": id, "parentId": parent, "operationName": name, "service": "shop",
                "startedAt": now_text(), "duration": 5_000, "status": { "code": "OK" } })
        };
        let details = json!({ "fields": { "shop.id": { "type": "LongValue", "value": 7 } } });
        match asked.path.strip_prefix(&format!("/v1/tracing/traces/{trace}/spans")) {
            Some("") => Answer::json(
                json!({ "spanPage": [span(HANDLE, parent, "handle"), span(QUERY, HANDLE, "query")] }),
            ),
            Some("/00000000000000aa") => Answer::json(details),
            Some("/00000000000000bb") if !is_missing(&began) => Answer::json(details),
            _ => Answer::status(404),
        }
    })
    .await;
    let details = json!({ "url": sumo.url, "accessID": "id", "accessKey": "key" });
    bench.passes_with(&json!({ "name": "S", "type": "sumologic", "sumologic": details })).await;
    let (trace, _) = bench.caused.lock().unwrap().clone().unwrap();
    let query = bench.get(&format!("/api/traces/{trace}/spans/{QUERY}")).await;
    assert_eq!(query["attributes"][0]["value"], 7, "{query}");
    // What was there is not fetched again.
    let first = sumo.asked().iter().filter(|asked| asked.path.ends_with(HANDLE)).count();
    assert_eq!(first, 1);
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_span_of_zipkin_that_cannot_be_read_is_not_left_out() {
    let bench = Bench::start().await;
    let zipkin = StandIn::start(&bench.caused, |asked: &StoreRequest, caused| {
        let Some((trace, parent)) = caused.filter(|_| asked.path.contains("/trace/")) else {
            return Answer::json(json!([]));
        };
        Answer::json(json!([
            { "traceId": trace, "id": "a", "parentId": parent, "name": "handle", "timestamp": 1 },
            { "traceId": trace, "id": "xyz", "parentId": "a", "name": "query", "timestamp": 1 },
        ]))
    })
    .await;
    bench.store(&json!({ "name": "Z", "type": "zipkin", "zipkin": { "url": zipkin.url } })).await;
    let run = bench.run(&json!([])).await;
    assert_eq!(run["state"], "TRACE_FAILED", "{run}");
    let error = run["lastErrorState"].as_str().unwrap_or_default();
    assert!(error.contains("[1]") && error.contains("`id` is `xyz`"), "{error}");
    bench.server.shutdown().await;
}
