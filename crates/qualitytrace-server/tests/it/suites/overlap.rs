//! The windows of first runs overlap: a step starts when the one before only waits for spans that nothing announces.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Subject, output, test};
use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(
    a_step_starts_during_the_window_of_the_one_before,
    a_step_waits_for_the_outputs_and_retries_of_the_one_before,
);

/// A window that does not end during a test.
fn patient() -> Value {
    json!({ "strategy": "periodic", "periodic": { "retryDelay": "1s", "timeout": "1h", "settle": "1h" } })
}

/// A test whose trace is waited for.
fn traced(subject: &Subject, id: &str, path: &str, more: &Value) -> Value {
    let mut definition = test(subject, id, path, more);
    definition["spec"]["skipTraceCollection"] = json!(false);
    definition["spec"]["pollingProfile"] = patient();
    definition["spec"]["specs"] = json!([{ "selector": "span[name=\"work\"]", "assertions": ["attr:tracetest.selected_spans.count = 1"] }]);
    definition
}

impl Bench {
    /// Sends the span that the first run of a test waits for.
    async fn work(&self, id: &str) -> Value {
        let path = format!("/api/tests/{id}/run/1");
        let run = self.eventually(&path, |run| run["state"] == "AWAITING_TRACE").await;
        let span = json!({
            "traceId": run["traceId"], "spanId": "00000000000000aa", "parentSpanId": run["spanId"], "name": "work",
            "kind": 1, "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        });
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
        let headers = [("content-type", "application/json")];
        let sent = self.send(Method::POST, "/v1/traces", &headers, &body.to_string()).await;
        assert_eq!(sent.status, StatusCode::OK, "{}", sent.text);
        run
    }

    /// Waits until only the window of the first run of a test is left.
    async fn settling(&self, id: &str) {
        let path = format!("{}/api/tests/{id}/run/1/events/stream", self.base);
        let mut stream = self.client.get(path).send().await.unwrap();
        let mut told = String::new();
        while !told.contains(r#""what":"settling""#) {
            let chunk = stream.chunk().await.unwrap();
            told.push_str(&String::from_utf8_lossy(&chunk.unwrap_or_else(|| panic!("{told}"))));
        }
    }

    async fn state(&self, id: &str) -> Value {
        self.get(&format!("/api/tests/{id}/run/1")).await.json()["state"].clone()
    }

    async fn skip(&self, id: &str) {
        self.post(&format!("/api/tests/{id}/run/1/skipPolling"), &json!({})).await;
    }
}

async fn a_step_starts_during_the_window_of_the_one_before(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    for id in ["a", "b", "c"] {
        bench.stored("tests", &traced(&subject, id, &format!("/value/{id}"), &json!({}))).await;
    }
    bench.stored("tests", &test(&subject, "bye", "/value/bye", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["a", "b", "c"], "teardown": ["bye"] })).await;
    bench.post("/api/testsuites/s/run", &json!({})).await;
    for id in ["a", "b", "c"] {
        bench.work(id).await;
    }
    for id in ["a", "b", "c"] {
        assert_eq!(bench.state(id).await, "AWAITING_TRACE", "{id}");
    }
    assert_eq!(subject.calls(), ["a", "b", "c"], "teardown waits for the ends of the steps");
    for id in ["c", "a", "b"] {
        bench.skip(id).await;
    }
    bench.events("/api/testsuites/s/run/1").await;
    let run = bench.get("/api/testsuites/s/run/1").await.json();
    assert_eq!((&run["state"], &run["pass"]), (&json!("FINISHED"), &json!(4)), "{run}");
    assert_eq!(subject.calls(), ["bye"]);
    bench.server.shutdown().await;
}

async fn a_step_waits_for_the_outputs_and_retries_of_the_one_before(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench
        .stored("tests", &traced(&subject, "make", "/value/made", &json!({ "outputs": output("ID") })))
        .await;
    bench.stored("tests", &traced(&subject, "try", "/value/${var:ID}-tried", &json!({ "retries": 1 }))).await;
    bench.stored("tests", &test(&subject, "use", "/value/${var:ID}-used", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["make", "try", "use"] })).await;
    bench.post("/api/testsuites/s/run", &json!({})).await;
    for id in ["make", "try"] {
        bench.work(id).await;
        // Its end follows the point at which another step would have let the next one start.
        bench.settling(id).await;
        bench.skip(id).await;
    }
    bench.events("/api/testsuites/s/run/1").await;
    let run = bench.get("/api/testsuites/s/run/1").await.json();
    assert_eq!((&run["state"], run.get("fail")), (&json!("FINISHED"), None), "{run}");
    assert_eq!(subject.calls(), ["made", "made-tried", "made-used"]);
    bench.server.shutdown().await;
}
