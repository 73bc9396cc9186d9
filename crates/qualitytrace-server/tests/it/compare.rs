//! Comparison of runs and traces over HTTP.

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(two_traces_are_compared, runs_are_compared_with_runs_and_traces);

const BEFORE: &str = "0af7651916cd43dd8448eb211c80319c";
const AFTER: &str = "1bf7651916cd43dd8448eb211c80319c";

/// A span: its number, its parent's number, its name, its milliseconds from and to, and a word.
type Sent = (u64, u64, &'static str, u64, u64, &'static str);

const OLD: [Sent; 4] = [
    (1, 0, "GET /orders/17", 0, 50, "a"),
    (2, 1, "query", 10, 20, "select"),
    (3, 1, "render", 20, 30, "html"),
    (4, 1, "mail", 30, 40, "b"),
];
const NEW: [Sent; 4] = [
    (11, 0, "GET /orders/18", 0, 80, "a"),
    (12, 11, "query", 10, 50, "select"),
    (13, 11, "render", 50, 60, "json"),
    (15, 11, "audit", 60, 70, "c"),
];

impl Bench {
    async fn deliver_spans(&self, trace: &str, version: &str, spans: &[Sent]) {
        let nanos = |millis: u64| (1_700_000_000_000 + millis).to_string() + "000000";
        let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        let spans: Vec<Value> = spans
            .iter()
            .map(|(id, parent, name, from, to, word)| {
                let parent = if *parent == 0 { String::new() } else { format!("{parent:016x}") };
                json!({
                    "traceId": trace, "spanId": format!("{id:016x}"), "parentSpanId": parent, "name": name,
                    "kind": 1, "startTimeUnixNano": nanos(*from), "endTimeUnixNano": nanos(*to),
                    "attributes": [text("word", word), text("request.id", trace)],
                })
            })
            .collect();
        let resource =
            json!({ "attributes": [text("service.name", "shop"), text("service.version", version)] });
        let body = json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": spans }] }] });
        let headers = [("content-type", "application/json")];
        let got = self.send(Method::POST, "/v1/traces", &headers, &body.to_string()).await;
        assert_eq!(got.status, StatusCode::OK, "{}", got.text);
    }

    async fn compared(&self, query: &str) -> Value {
        let got = self.get(&format!("/api/compare?{query}")).await;
        assert_eq!(got.status, StatusCode::OK, "{query}: {}", got.text);
        got.json()
    }

    /// Runs a test of the trace, whose spec wants this word.
    async fn run_on(&self, test: &str, trace: &str) {
        let trigger = json!({ "type": "traceid", "traceid": { "id": trace } });
        let specs = json!([
            { "name": "html", "selector": "span[name = \"render\"]", "assertions": ["attr:word = \"html\""] },
            { "name": "query", "selector": "span[name = \"query\"]", "assertions": ["attr:word = \"select\""] },
        ]);
        let test_of = json!({ "type": "Test", "spec": { "id": test, "name": test, "trigger": trigger, "specs": specs } });
        assert!(self.put("/api/tests", &test_of).await.status.is_success());
        let run = self.post(&format!("/api/tests/{test}/run"), &json!({})).await.json();
        let path = format!("/api/tests/{test}/run/{}", run["id"]);
        eventually(DEADLINE, "the run ends", async || {
            let run = self.get(&path).await.json();
            if run["state"] == "FINISHED" { Ok(()) } else { Err(run["state"].to_string()) }
        })
        .await;
    }
}

/// The rows, each as its depth, its change and its name.
fn lines(compared: &Value) -> Vec<String> {
    let rows = compared["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        format!("{} {} {}", row["depth"], row["change"].as_str().unwrap(), row["name"].as_str().unwrap())
    })
    .collect()
}

async fn two_traces_are_compared(database: &Database) {
    let bench = Bench::new(database).await;
    bench.deliver_spans(BEFORE, "1", &OLD).await;
    bench.deliver_spans(AFTER, "2", &NEW).await;
    let both = format!("a=trace/{BEFORE}&b=trace/{AFTER}");
    let found = bench.compared(&both).await;
    let expected =
        ["0 same GET /orders/18", "1 slower query", "1 changed render", "1 removed mail", "1 added audit"];
    assert_eq!(lines(&found), expected);
    let summary = json!({
        "added": 1, "removed": 1, "moved": 0, "slower": 1, "faster": 0, "changed": 1, "same": 1, "volatile": 3,
    });
    assert_eq!(found["summary"], summary);
    assert_eq!(found["thresholds"], json!({ "percent": 20, "least": "1000000" }));
    assert_eq!(
        (&found["verdicts"], &found["total"], &found["next"]),
        (&Value::Null, &json!(5), &Value::Null)
    );
    assert_eq!(found["a"], json!({ "traceId": BEFORE, "test": null, "run": null, "spans": 4 }));
    let version = json!({ "name": "service.version", "before": "1", "after": "2", "volatile": false });
    assert_eq!(found["services"], json!([{ "service": "shop", "attributes": [version] }]));
    let slower = &found["rows"][1];
    assert_eq!((&slower["a"], &slower["b"]), (&json!("0000000000000002"), &json!("000000000000000c")));
    assert_eq!(slower["duration"], json!({ "a": "10000000", "b": "40000000" }));
    assert_eq!(found["rows"][0]["ownTime"], json!({ "a": "20000000", "b": "20000000" }));
    let word = json!({ "name": "word", "before": "html", "after": "json", "volatile": false });
    let id = json!({ "name": "request.id", "before": BEFORE, "after": AFTER, "volatile": true });
    assert_eq!(found["rows"][2]["attributes"], json!([id, word]));
    assert_eq!((&found["rows"][3]["b"], &found["rows"][4]["a"]), (&Value::Null, &Value::Null));

    let only = bench.compared(&format!("{both}&only=differences&take=2&skip=1")).await;
    assert_eq!(lines(&only), ["1 changed render", "1 removed mail"]);
    assert_eq!((&only["total"], &only["next"]), (&json!(4), &json!(3)));
    let far = bench.compared(&format!("{both}&skip=9000&take=5")).await;
    assert_eq!((lines(&far).len(), &far["next"]), (0, &Value::Null));
    let lenient = bench.compared(&format!("{both}&percent=400&least=1ms&only=differences")).await;
    assert_eq!(lenient["summary"]["slower"], 0);
    let same = bench.compared(&format!("a=trace/{BEFORE}&b=trace/{BEFORE}&only=differences")).await;
    assert_eq!((&same["total"], &same["summary"]["volatile"]), (&json!(0), &json!(0)));

    let unknown = AFTER.replace('1', "2");
    for (query, status, told) in [
        (
            format!("a=trace/{BEFORE}"),
            StatusCode::BAD_REQUEST,
            "`` is no value of `b`; write test/ID/run/N or",
        ),
        (format!("{both}x"), StatusCode::BAD_REQUEST, "is no value of `b`"),
        (format!("{both}&only=same"), StatusCode::BAD_REQUEST, "`same` is no value of `only`"),
        (format!("{both}&percent=-1"), StatusCode::BAD_REQUEST, "`-1` is no value of `percent`"),
        (format!("{both}&least=soon"), StatusCode::BAD_REQUEST, "`soon` is no value of `least`"),
        (format!("{both}&take=x"), StatusCode::BAD_REQUEST, "`x` is no value of `take`; write a number"),
        (format!("a=trace/{BEFORE}&b=trace/{unknown}"), StatusCode::NOT_FOUND, "no span of trace"),
        (
            format!("a=trace/{BEFORE}&b=test/none/run/1"),
            StatusCode::NOT_FOUND,
            "there is no run 1 of a test `none`",
        ),
    ] {
        let got = bench.get(&format!("/api/compare?{query}")).await;
        assert_eq!(got.status, status, "{query}: {}", got.text);
        assert!(got.json()["error"].as_str().unwrap().contains(told), "{query}: {}", got.text);
    }
    bench.server.shutdown().await;
}

async fn runs_are_compared_with_runs_and_traces(database: &Database) {
    let bench = Bench::new(database).await;
    bench.deliver_spans(BEFORE, "1", &OLD).await;
    bench.deliver_spans(AFTER, "1", &NEW).await;
    bench.run_on("t", BEFORE).await;
    bench.run_on("t", AFTER).await;
    let runs = bench.compared("a=test/t/run/1&b=test/t/run/2").await;
    let shown = lines(&runs);
    assert_eq!((shown.len(), shown[1].as_str()), (6, "1 same GET /orders/18"), "{shown:?}");
    let html = json!({ "name": "html", "selector": "span[name = \"render\"]", "a": "passed", "b": "failed" });
    let query =
        json!({ "name": "query", "selector": "span[name = \"query\"]", "a": "passed", "b": "passed" });
    let outcome = json!({ "a": "passed", "b": "failed" });
    assert_eq!(runs["verdicts"], json!({ "outcome": outcome, "specs": [html, query] }));
    assert_eq!((&runs["a"]["test"], &runs["b"]["run"]), (&json!("t"), &json!(2)));
    // The span of the trigger has no counterpart in a trace, and is left out.
    let mixed = bench.compared(&format!("a=test/t/run/1&b=trace/{AFTER}")).await;
    let plain = bench.compared(&format!("a=trace/{BEFORE}&b=trace/{AFTER}")).await;
    assert_eq!((lines(&mixed), &mixed["verdicts"]), (lines(&plain), &Value::Null));
    let broken = json!({ "type": "Test", "spec": { "id": "none", "name": "none", "trigger":
        { "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/x" } } } });
    bench.put("/api/tests", &broken).await;
    bench.post("/api/tests/none/run", &json!({})).await;
    let got = bench.get("/api/compare?a=test/t/run/1&b=test/none/run/1").await;
    assert_eq!(got.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", got.text);
    assert!(got.text.contains("run 1 of test `none` has no trace"), "{}", got.text);
    bench.server.shutdown().await;
}
