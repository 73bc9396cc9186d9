//! Triggers that are sent once, without a run.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::routing::any;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::base::limits::deny::Deny;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use serde_json::{Value, json};

const SECRET: &str = "hunter2-s3cr3t-long";

/// A server, and a client of its API.
pub(super) struct Bench {
    pub(super) server: Server,
    client: reqwest::Client,
    url: String,
}

impl Bench {
    pub(super) async fn start(limits: Limits) -> Self {
        let http = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = Config { http, otlp_grpc: None, otlp_http: None, limits, ..Config::default() };
        let server = Server::start(config).await.unwrap();
        let url = format!("http://{}", server.addresses().http);
        Self { server, client: crate::client(), url }
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let sent = self.client.post(format!("{}{path}", self.url)).json(body).send().await.unwrap();
        (sent.status().as_u16(), sent.json().await.unwrap())
    }

    async fn get(&self, path: &str) -> Value {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap().json().await.unwrap()
    }
}

/// A system under test that answers with the headers of the request.
async fn echo() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(any(async |request: Request| {
        let header = |name: &str| {
            let value = request.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        format!("{} {} {}", request.uri(), header("traceparent"), header("x-key"))
    }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn http(url: &str) -> Value {
    json!({ "type": "http", "httpRequest": { "url": url, "method": "GET",
        "headers": [{ "key": "X-Key", "value": "${var:KEY}" }] } })
}

#[tokio::test]
async fn a_trigger_is_sent_once_and_nothing_is_stored() {
    let (bench, system) = (Bench::start(Limits::default()).await, echo().await);
    let set = json!({ "type": "VariableSet", "spec": { "id": "v", "name": "V",
        "values": [{ "key": "KEY", "value": SECRET, "type": "secret" }, { "key": "PATH", "value": "a" }] } });
    let put = bench.client.put(format!("{}/api/variablesets", bench.url)).json(&set).send().await.unwrap();
    assert!(put.status().is_success());

    let text = format!(
        "type: http\nhttpRequest:\n  url: http://{system}/${{var:PATH}}\n  headers:\n    - {{key: X-Key, value: '${{var:KEY}}'}}\n"
    );
    let body =
        json!({ "trigger": text, "variableSetId": "v", "variables": [{ "key": "PATH", "value": "b" }] });
    let (status, sent) = bench.post("/api/trigger/try", &body).await;
    assert_eq!(status, 200, "{sent}");
    let (trace, span) = (sent["traceId"].as_str().unwrap(), sent["spanId"].as_str().unwrap());
    let result = &sent["triggerResult"];
    assert_eq!(
        (&result["type"], &result["triggerResult"]["http"]["statusCode"]),
        (&json!("http"), &json!(200))
    );
    let answer = result["triggerResult"]["http"]["body"].as_str().unwrap();
    assert_eq!(answer, format!("/b 00-{trace}-{span}-01 ********"));
    assert_eq!(sent["resolvedTrigger"]["httpRequest"]["url"], format!("http://{system}/b"));
    assert!(sent["duration"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    assert!(sent["failure"].is_null() && !sent.to_string().contains(SECRET), "{sent}");

    // The trace arrives as usual, and what the system wrote of the secret is redacted there, too.
    let otlp = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [{ "traceId": trace, "spanId": "00000000000000aa",
        "parentSpanId": span, "name": "GET /b", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "attributes": [{ "key": "key", "value": { "stringValue": SECRET } }] }] }] }] });
    assert_eq!(bench.post("/v1/traces", &otlp).await.0, 200);
    let shown = bench.get(&format!("/api/traces/{trace}")).await;
    assert_eq!(shown["spans"][0]["name"], "GET /b", "{shown}");
    assert_eq!(shown["spans"][0]["attributes"]["key"], "********", "{shown}");
    assert_eq!(bench.get("/api/runs").await["items"], json!([]));
    assert_eq!(bench.get("/api/tests").await["count"], 0);
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_trigger_that_cannot_be_sent_says_why() {
    let deny = Deny::new(["10.0.0.0/8".parse().unwrap()]);
    let bench = Bench::start(Limits { deny, ..Limits::default() }).await;
    let given = |trigger: Value| json!({ "trigger": trigger, "variables": [{ "key": "KEY", "value": SECRET, "type": "secret" }] });
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    // What the system under test does is a result, not an error of the request.
    for (trigger, reason, is_connection) in [
        (http(&format!("http://{closed}/{SECRET}")), "refused", true),
        (http("http://10.1.2.3/"), "denied", false),
        (json!({ "type": "exec", "exec": { "command": "true" } }), "unsupported", false),
        (http("http://["), "invalid", false),
    ] {
        let (status, sent) = bench.post("/api/trigger/try", &given(trigger)).await;
        assert_eq!((status, &sent["failure"]["reason"]), (200, &json!(reason)), "{sent}");
        assert_eq!(sent["failure"]["connection"], is_connection);
        assert_eq!(sent["triggerResult"]["triggerResult"]["error"]["message"], sent["failure"]["message"]);
        assert!(!sent.to_string().contains(SECRET), "{sent}");
    }
    for (body, expected, said) in [
        (json!({ "trigger": http("http://x/") }), 422, "missingVariables"),
        (json!({ "trigger": http("http://x/"), "variableSetId": "none" }), 404, "there is no variable set"),
        (given(json!("type: http\nhttpRequest: [")), 400, "cannot be used: line "),
        (given(json!({ "type": "htp" })), 400, "did you mean `http`?"),
        (given(json!({})), 400, "is no trigger"),
        (given(json!({ "type": "traceid", "traceid": { "id": "xyz" } })), 422, "the trigger names no trace"),
        (json!({}), 400, "trigger"),
        (json!({ "trigger": 5 }), 400, "`trigger` must be an object or a text"),
    ] {
        let (status, answer) = bench.post("/api/trigger/try", &body).await;
        assert_eq!(status, expected, "{answer}");
        assert!(answer.to_string().contains(said), "{answer}");
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_trigger_without_run_counts_among_the_triggers_in_progress() {
    let bench = Bench::start(Limits { concurrent_runs: 0, ..Limits::default() }).await;
    let body =
        json!({ "trigger": { "type": "traceid", "traceid": { "id": "0123456789abcdef0123456789abcdef" } } });
    let (status, answer) = bench.post("/api/trigger/try", &body).await;
    assert_eq!(status, 503);
    assert!(answer["error"].as_str().unwrap().contains("runs.concurrency"), "{answer}");
    bench.server.shutdown().await;
}
