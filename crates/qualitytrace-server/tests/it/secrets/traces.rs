//! Secrets that the system under test writes into its spans: redacted wherever a trace is shown, listed or searched.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use futures_util::{SinkExt, StreamExt};
use http::HeaderMap;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Connection as _;
use tokio_tungstenite::tungstenite::Message;

use super::{Bench, MASK, SECRET, assert_hidden, set};
use crate::databases::{Database, on_every_database};

on_every_database!(
    a_trace_with_a_secret_in_all_its_parts_shows_it_nowhere,
    a_trace_is_found_by_what_is_shown_of_it_and_not_by_the_secret,
);

const TEST: &str = "/api/tests/leak/run/1";

/// Creates a bench with one finished run, whose system under test wrote the secret into every part of its trace.
async fn leaked(database: &Database) -> (Bench, String) {
    let bench = Bench::new(database).await;
    let address = leaky(&bench.url).await;
    bench.put("/api/variablesets", &set()).await;
    let request = json!({
        "method": "GET", "url": address, "headers": [{ "key": "X-Secret", "value": "${var:PASSWORD}" }],
    });
    let trigger = json!({ "type": "http", "httpRequest": request });
    bench.put("/api/tests", &test("leak", &trigger)).await;
    bench.finish("leak", &json!({ "variableSetId": "set" })).await;
    let trace = bench.get(TEST).await["traceId"].as_str().unwrap().to_owned();
    (bench, trace)
}

fn test(id: &str, trigger: &Value) -> Value {
    let outputs =
        json!([{ "name": "LEAK", "selector": "span[kind = \"server\"]", "value": "attr:res.leak" }]);
    let specs = json!([{ "selector": "span[kind = \"server\"]", "assertions": ["attr:res.leak != \"\""] }]);
    let spec = json!({ "id": id, "name": id, "trigger": trigger, "specs": specs, "outputs": outputs });
    json!({ "type": "Test", "spec": spec })
}

impl Bench {
    async fn finish(&self, test: &str, body: &Value) {
        let run = format!("/api/tests/{test}/run");
        let (status, text) = self.send(Method::POST, &run, "application/json", &body.to_string()).await;
        assert!(status.is_success(), "{text}");
        self.send(Method::GET, &format!("{run}/1/events/stream"), "*/*", "").await;
        let over = self.get(&format!("{run}/1")).await;
        assert_eq!(
            (&over["state"], &over["result"]["allPassed"]),
            (&json!("FINISHED"), &json!(true)),
            "{over}"
        );
    }

    /// Returns how many traces or spans are found.
    async fn found(&self, method: Method, path: &str, body: &str) -> usize {
        let (status, text) = self.send(method, path, "application/json", body).await;
        assert!(status.is_success(), "{path}: {text}");
        assert_hidden(path, &text);
        let found: Value = serde_json::from_str(&text).unwrap();
        found["items"].as_array().or(found["spansIds"].as_array()).map_or(0, Vec::len)
    }
}

#[tokio::test]
async fn a_run_with_secrets_that_no_key_opens_breaks_no_list_and_shows_none() {
    let database = Database::file();
    let (bench, trace) = leaked(&database).await;
    let other = "0af7651916cd43dd8448eb211c80319c";
    let span = json!({
        "traceId": other, "spanId": "00f067aa0ba902b7", "name": "work", "kind": 2,
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
    });
    let resource = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "worker" } }] });
    let spans = json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": [span] }] }] });
    let (status, text) = bench.send(Method::POST, "/v1/traces", "*/*", &spans.to_string()).await;
    assert!(status.is_success(), "{text}");

    let mut connection = sqlx::AnyConnection::connect(&database.url).await.unwrap();
    let damage = r#"UPDATE runs SET variables = '{"PASSWORD":{"secret":"sealed:1:AAAA"}}'"#;
    sqlx::query(damage).execute(&mut connection).await.unwrap();
    for (path, part) in [("/api/traces", other), ("/api/services", "worker")] {
        let listed = bench.get(path).await.to_string();
        assert!(listed.contains(part) && !listed.contains(&trace), "{listed}");
        assert_hidden(path, &listed);
    }
    bench.server.shutdown().await;
}

async fn a_trace_with_a_secret_in_all_its_parts_shows_it_nowhere(database: &Database) {
    let (bench, trace) = leaked(database).await;
    // A run without secrets refers to the same trace.
    let trigger = json!({ "type": "traceid", "traceid": { "id": trace } });
    bench.put("/api/tests", &test("other", &trigger)).await;
    bench.finish("other", &json!({})).await;

    let shown = bench.get(TEST).await["trace"].to_string();
    for part in
        [r#""res.leak":"********""#, r#""res.********":"1""#, r#""lib.leak":"********""#, "GET ********"]
    {
        assert!(shown.contains(part), "{part} is missing: {shown}");
    }
    let of_run = ["", "/export", "/events", "/events/stream", "/junit.xml", "/select?query="];
    let other = TEST.replace("leak", "other");
    let of_runs = [TEST, &other].into_iter().flat_map(|run| of_run.map(|part| format!("{run}{part}")));
    let lists = ["/api/traces", "/api/services", "/api/tests/leak/run", "/api/runs"].map(str::to_owned);
    let compared = [
        format!("/api/compare?a=test/leak/run/1&b=trace/{trace}"),
        format!("/api/compare?a=trace/{trace}&b=test/other/run/1"),
    ];
    for path in of_runs.chain(lists).chain(compared) {
        let (status, text) = bench.send(Method::GET, &path, "*/*", "").await;
        assert!(status.is_success(), "{path}: {text}");
        assert_hidden(&path, &text);
    }
    for accept in ["application/json", "application/vnd.otlp+json", "application/vnd.jaeger+json"] {
        let (_, text) = bench.send(Method::GET, &format!("/api/traces/{trace}"), accept, "").await;
        assert_hidden(accept, &text);
        assert!(text.contains(MASK), "{accept}: {text}");
    }
    let describe = json!({ "spanId": "00000000000000a1", "attribute": "res.leak" });
    let values = |of: Value| {
        let mut body = json!({ "text": "span[res.leak = ", "at": 16, "in": "selector" });
        body.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
        body
    };
    for (path, body) in [
        (format!("/api/traces/{trace}/describe"), &describe),
        (format!("{TEST}/describe"), &describe),
        ("/api/language/complete".to_owned(), &values(json!({ "traceId": trace }))),
        ("/api/language/complete".to_owned(), &values(json!({ "testId": "leak", "run": 1 }))),
    ] {
        let (status, text) = bench.send(Method::POST, &path, "*/*", &body.to_string()).await;
        assert!(status.is_success(), "{path}: {text}");
        assert_hidden(&path, &text);
        // What is masked matches nothing in the next run.
        assert!(!text.contains(MASK), "{path}: {text}");
    }
    let told = on_the_socket(&bench.url).await;
    assert!(told.contains("res.leak"), "{told}");
    assert_hidden("the socket", &told);
    bench.server.shutdown().await;
}

async fn a_trace_is_found_by_what_is_shown_of_it_and_not_by_the_secret(database: &Database) {
    let (bench, _) = leaked(database).await;
    let search = format!("{TEST}/search-spans");
    for (query, expected) in [
        ("hunter2", 0),
        ("span[res.leak contains \"hunt\"]", 0),
        ("res.leak", 1),
        ("span[res.leak = \"********\"]", 1),
    ] {
        let body = json!({ "query": query }).to_string();
        assert_eq!(bench.found(Method::POST, &search, &body).await, expected, "{query}");
    }
    // Twice: first computed, then from the cache.
    for _ in 0..2 {
        for (filter, expected) in [
            ("name=GET%20hun", 0),
            ("name=get%20*", 1),
            ("service=shop%20hunter2-%22s3cr3t%22%2F%C3%A9", 0),
            ("service=shop%20********", 1),
            ("attribute=res.leak%3Dhunter2-%22s3cr3t%22%2F%C3%A9", 0),
            ("attribute=res.leak%3D********", 1),
            ("attribute=res.hunter2-%22s3cr3t%22%2F%C3%A9", 0),
            ("attribute=res.********", 1),
        ] {
            let path = format!("/api/traces?{filter}");
            assert_eq!(bench.found(Method::GET, &path, "").await, expected, "{filter}");
        }
    }
    bench.server.shutdown().await;
}

async fn on_the_socket(url: &str) -> String {
    let address = format!("{}/ws", url.replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(address).await.unwrap();
    let subscribe = json!({ "type": "subscribe", "resource": "test/leak/run/1" }).to_string();
    socket.send(Message::Text(subscribe.into())).await.unwrap();
    let mut told = String::new();
    while !told.contains("res.leak") {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            told.push_str(&text);
        }
    }
    told
}

/// Starts a system under test that exports all headers to the server at this address.
async fn leaky(server: &str) -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(leak).with_state(Arc::<str>::from(server));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

async fn leak(State(server): State<Arc<str>>, headers: HeaderMap) -> &'static str {
    let parent: Vec<&str> = headers["traceparent"].to_str().unwrap().split('-').collect();
    let heard = String::from_utf8_lossy(headers["x-secret"].as_bytes()).into_owned();
    assert_eq!(heard, SECRET);
    let text = |text: &str| json!({ "stringValue": text });
    let attributes = |part: &str| {
        let named = json!({ "key": heard, "value": text("1") });
        json!([
            { "key": format!("{part}.leak"), "value": text(&heard) },
            { "key": format!("{part}.{heard}"), "value": text("1") },
            { "key": format!("{part}.list"), "value": { "arrayValue": { "values": [text(&heard)] } } },
            { "key": format!("{part}.map"), "value": { "kvlistValue": { "values": [named] } } },
            { "key": "service.name", "value": text(&format!("shop {heard}")) },
        ])
    };
    let state = format!("state={heard}");
    let now = qualitytrace_server::base::clock::now().as_nanos().to_string();
    let span = json!({
        "traceId": parent[1], "parentSpanId": parent[2], "spanId": "00000000000000a1", "kind": 2,
        "name": format!("GET {heard}"), "traceState": state, "attributes": attributes("own"),
        "startTimeUnixNano": now, "endTimeUnixNano": now,
        "events": [{ "name": heard, "timeUnixNano": now, "attributes": attributes("event") }],
        "links": [{ "traceId": parent[1], "spanId": parent[2], "traceState": state, "attributes": attributes("link") }],
        "status": { "code": 2, "message": heard },
    });
    let scope = json!({ "name": heard, "version": heard, "attributes": attributes("lib") });
    let spans = json!({ "resourceSpans": [{
        "resource": { "attributes": attributes("res") }, "schemaUrl": heard,
        "scopeSpans": [{ "scope": scope, "schemaUrl": heard, "spans": [span] }],
    }] });
    let request = crate::client().post(format!("{server}/v1/traces"));
    let request = request.header("content-type", "application/json").body(spans.to_string());
    assert!(request.send().await.unwrap().status().is_success());
    "heard"
}
