//! The server's own telemetry, as a receiver gets it.

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::late_spans_load::program::Served;
use crate::program;

pub(crate) const CALLER: &str = "0123456789abcdef0123456789abcdef";

/// A server, and the server that receives its telemetry.
pub(crate) struct Pair {
    pub(crate) folder: tempfile::TempDir,
    receiver: Served,
    pub(crate) watched: Served,
    pub(crate) client: Client,
}

impl Pair {
    pub(crate) async fn start(variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::start_with(tracer, variables, arguments).await
    }

    pub(crate) async fn start_with(
        config: impl Fn(&str) -> String,
        variables: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let receiver = Served::start(program(), "sqlite::memory:", &[]).await;
        let file = folder.path().join("server.yaml");
        std::fs::write(&file, config(&receiver.http.to_string())).unwrap();
        let data = folder.path().join("data");
        let own = [
            ["--config", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()],
            ["--server.httpPort", "0", "--database-url", "sqlite::memory:"],
            ["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"],
        ]
        .concat();
        let watched = Served::start_in(program(), variables, &[&own[..], arguments].concat()).await;
        Self { folder, receiver, watched, client: crate::client() }
    }

    async fn get(&self, path: &str, header: &str, value: &str) -> StatusCode {
        self.client.get(self.watched.url(path)).header(header, value).send().await.unwrap().status()
    }

    /// Stops the server, which flushes its telemetry, and reads a trace from the receiver.
    pub(crate) async fn heard(&mut self, trace: &str) -> Option<Value> {
        if let Some(pid) = self.watched.child.id() {
            let stopped = Command::new("kill").args(["-TERM", &pid.to_string()]).status().await.unwrap();
            assert!(stopped.success());
            self.watched.child.wait().await.unwrap();
        }
        let got = self.client.get(self.receiver.url(&format!("/api/traces/{trace}")));
        let got = got.header("accept", "application/vnd.otlp+json").send().await.unwrap();
        if got.status() == StatusCode::NOT_FOUND { None } else { Some(got.json().await.unwrap()) }
    }

    /// Creates a test whose trigger goes to this address, and starts it. Returns the run.
    async fn run(&self, url: &str) -> Value {
        let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": url } });
        let spec = json!({ "id": "t", "name": "T", "skipTraceCollection": true, "trigger": trigger });
        let test = json!({ "type": "Test", "spec": spec });
        let created = self.client.put(self.watched.url("/api/tests")).json(&test).send().await.unwrap();
        created.error_for_status().unwrap();
        let run = self.client.post(self.watched.url("/api/tests/t/run")).json(&json!({})).send().await;
        run.unwrap().json().await.unwrap()
    }

    /// Waits until the only run is over.
    async fn ended(&self) {
        let events = self.client.get(self.watched.url("/api/tests/t/run/1/events/stream")).send().await;
        events.unwrap().text().await.unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = std::process::Command::new(program())
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

pub(crate) fn tracer(receiver: &str) -> String {
    format!(
        "tracer: {{a: {{type: open-telemetry, transport: http, endpoint: 'http://{receiver}', throttle: 1ms}}}}\n"
    )
}

pub(crate) fn traceparent() -> String {
    format!("00-{CALLER}-00000000000000aa-01")
}

/// The spans of a trace as OTLP JSON.
pub(crate) fn spans(trace: &Value) -> Vec<Value> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let scopes =
        list(trace, "resourceSpans").into_iter().flat_map(move |resource| list(&resource, "scopeSpans"));
    scopes.flat_map(move |scope| list(&scope, "spans")).collect()
}

#[tokio::test]
async fn a_prefix_stands_before_every_path_and_in_every_route() {
    let mut pair = Pair::start(&[], &["--server.pathPrefix", "quality/trace/"]).await;
    let status = pair.get("/quality/trace/api/tests", "traceparent", &traceparent()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(pair.get("/api/tests", "x", "y").await, StatusCode::OK, "without it, too");
    assert_eq!(pair.get("/quality/api/tests", "x", "y").await, StatusCode::NOT_FOUND);
    assert_eq!(pair.get("/quality/trace/metrics", "x", "y").await, StatusCode::OK);
    let trace = pair.heard(CALLER).await.unwrap().to_string();
    assert!(trace.contains("\"GET /quality/trace/api/tests\""), "{trace}");
}

#[tokio::test]
async fn a_server_without_otlp_takes_no_spans_and_answers_all_else() {
    let served = Served::start_with(
        program(),
        &["--otlpServer.enabled", "false", "--server.httpPort", "0", "--database-url", "sqlite::memory:"],
    )
    .await;
    let client = crate::client();
    for path in ["/v1/traces", "/v1/logs", "/v1/metrics"] {
        let sent = client.post(served.url(path)).header("content-type", "application/json").body("{}");
        assert_eq!(sent.send().await.unwrap().status(), StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(client.get(served.url("/api/tests")).send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn the_stop_of_a_run_belongs_to_the_trace_of_its_caller() {
    let mut pair = Pair::start(&[], &[]).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    pair.run(&format!("http://{}/", silent.local_addr().unwrap())).await;
    let _held = silent.accept().await.unwrap();
    let stop = pair.client.post(pair.watched.url("/api/tests/t/run/1/stop"));
    let stopped = stop.header("traceparent", traceparent()).send().await.unwrap();
    assert!(stopped.status().is_success(), "{}", stopped.status());
    pair.ended().await;
    let trace = pair.heard(CALLER).await.unwrap();
    let spans = spans(&trace);
    let named = |name: &str| {
        let found = spans.iter().find(|span| span["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is missing: {trace}")).clone()
    };
    let request = named("POST /api/tests/{testId}/run/{runId}/stop");
    let wish = named("User Requested Stop Run");
    assert_eq!(request["parentSpanId"], "00000000000000aa");
    assert_eq!(wish["parentSpanId"], request["spanId"]);
    let text = request.to_string();
    assert!(text.contains(r#"{\"id\":\"t\",\"number\":\"1\"}"#), "the parameters: {text}");
}

#[tokio::test]
async fn the_trigger_of_a_test_goes_to_the_application_exporter_and_nowhere_else() {
    let exporter = |receiver: &str| {
        format!(
            "telemetry:\n  exporters:\n    app:\n      serviceName: shop-tests\n      exporter: {{type: collector, \
             collector: {{endpoint: 'http://{receiver}'}}}}\nserver:\n  telemetry: {{applicationExporter: app}}\n"
        )
    };
    for (url, kind, expected) in
        [("/api/tests", "tracetest.response.status", "200"), ("", "\"code\":2", "nothing listens")]
    {
        let mut pair = Pair::start_with(exporter, &[], &[]).await;
        let url = if url.is_empty() { "http://127.0.0.1:1/".to_owned() } else { pair.watched.url(url) };
        let run = pair.run(&url).await;
        pair.ended().await;
        let trace = pair.heard(run["traceId"].as_str().unwrap()).await.unwrap();
        let spans = spans(&trace);
        assert_eq!(spans.len(), 1, "{trace}");
        assert_eq!(spans[0]["name"], "Qualitytrace trigger");
        let text = trace.to_string();
        assert!(text.contains("shop-tests") && text.contains("tracetest.run.trigger.type"), "{text}");
        assert!(text.contains(kind) && text.contains(expected), "{kind} {expected}: {text}");
    }
}

#[tokio::test]
async fn a_caller_is_heard_in_the_dialect_that_is_set_and_in_no_other() {
    let mut pair = Pair::start(&[("OTEL_PROPAGATORS", "b3")], &[]).await;
    let b3 = format!("{CALLER}-00000000000000aa-1");
    assert_eq!(pair.get("/api/tests?take=3", "b3", &b3).await, StatusCode::OK);
    let deaf = "0123456789abcdef0123456789abcde0";
    let w3c = format!("00-{deaf}-00000000000000aa-01");
    assert_eq!(pair.get("/api/tests", "traceparent", &w3c).await, StatusCode::OK);
    let trace = pair.heard(CALLER).await.unwrap();
    let heard = &spans(&trace)[0];
    assert_eq!(
        (&heard["name"], &heard["parentSpanId"]),
        (&json!("GET /api/tests"), &json!("00000000000000aa"))
    );
    assert!(heard.to_string().contains(r#"{\"take\":\"3\"}"#), "the query: {heard}");
    assert_eq!(pair.heard(deaf).await, None);
}

#[tokio::test]
async fn statements_are_children_of_what_needs_them() {
    let debug = |receiver: &str| tracer(receiver).replace("throttle: 1ms", "throttle: 1ms, level: debug");
    let mut pair = Pair::start_with(debug, &[], &[]).await;
    assert_eq!(pair.get("/api/tests", "traceparent", &traceparent()).await, StatusCode::OK);
    let trace = pair.heard(CALLER).await.unwrap();
    let spans = spans(&trace);
    let request = spans.iter().find(|span| span["name"] == "GET /api/tests").unwrap();
    let statement = spans.iter().find(|span| span["name"].as_str().unwrap().starts_with("SELECT "));
    let statement = statement.unwrap_or_else(|| panic!("no statement: {trace}"));
    assert_eq!(statement["parentSpanId"], request["spanId"]);
    assert_eq!(statement["kind"], 3);
    let text = statement.to_string();
    for part in ["db.system.name", "sqlite", "db.query.text", "db.operation.name", "db.collection.name"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn an_unknown_propagator_stops_the_start() {
    let output = std::process::Command::new(program())
        .args(["serve", "--server.httpPort", "0", "--database-url", "sqlite::memory:"])
        .env("OTEL_PROPAGATORS", "b3,jeager")
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("did you mean `jaeger`?"), "{said}");
}

#[tokio::test]
async fn metrics_name_the_trace_of_a_request_and_otlp_is_never_recorded() {
    let mut pair = Pair::start(&[], &[]).await;
    assert_eq!(pair.get("/api/tests", "traceparent", &traceparent()).await, StatusCode::OK);
    let delivered = "0123456789abcdef0123456789abcde0";
    let sent = pair.client.post(pair.watched.url("/v1/traces")).header("content-type", "application/json");
    let sent = sent.header("traceparent", format!("00-{delivered}-00000000000000aa-01")).body("{}");
    assert_eq!(sent.send().await.unwrap().status(), StatusCode::OK);
    // Exemplars are part of OpenMetrics only.
    let metrics =
        pair.client.get(pair.watched.url("/metrics")).header("accept", "application/openmetrics-text");
    let text = metrics.send().await.unwrap().text().await.unwrap();
    let of = |line: &&str| {
        line.starts_with("http_server_request_duration_seconds_bucket") && line.contains("/api/tests")
    };
    let exemplar = text.lines().filter(of).find(|line| line.contains(&format!("trace_id=\"{CALLER}\"")));
    assert!(exemplar.is_some(), "{text}");
    for name in ["qualitytrace_runs_unfinished", "tokio_workers", "process_cpu_time", "telemetry_items"] {
        assert!(text.contains(name), "{name} is missing: {text}");
    }
    assert!(!text.contains("/v1/traces"), "{text}");
    assert!(pair.heard(CALLER).await.is_some());
    assert_eq!(pair.heard(delivered).await, None);
}

#[tokio::test]
async fn check_status_and_test_say_what_happens_to_telemetry() {
    let secret = |receiver: &str| {
        format!(
            "{}metrics: {{open-telemetry: {{transport: http, endpoint: 'http://{receiver}', headers: ['Authorization: geheim']}}}}\n",
            tracer(receiver)
        )
    };
    let pair = Pair::start_with(secret, &[], &[]).await;
    let (code, out, _) = pair.command(&["telemetry", "check", "--config", "server.yaml"]);
    assert_eq!(code, Some(0), "{out}");
    for part in
        ["sink tracer.a", "sink metrics.open-telemetry", "authorization: ***", "server.yaml:1:", "default"]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains("geheim"), "{out}");

    let (code, out, _) = pair.command(&["telemetry", "test", "--config", "server.yaml"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("tracer.a traces") && out.contains("accepted"), "{out}");
    std::fs::write(pair.folder.path().join("down.yaml"), tracer("127.0.0.1:1")).unwrap();
    let (code, out, _) = pair.command(&["telemetry", "test", "--config", "down.yaml"]);
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains("not now"), "{out}");

    std::fs::write(
        pair.folder.path().join("wrong.yaml"),
        "tracer: {a: {type: open-telemetry, transport: htp}}\n",
    )
    .unwrap();
    let (code, _, said) = pair.command(&["telemetry", "check", "--config", "wrong.yaml"]);
    assert_ne!(code, Some(0));
    assert!(said.contains("wrong.yaml:1:") && said.contains("did you mean `http`?"), "{said}");

    assert_eq!(pair.get("/api/tests", "traceparent", &traceparent()).await, StatusCode::OK);
    let (code, out, _) = pair.command(&["telemetry", "status", "--server", &pair.watched.url("")]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.starts_with("SINK") && out.contains("tracer.a  ") && out.contains("traces"), "{out}");
    let (code, out, _) = pair.command(&["telemetry", "status", "--json", "--server", &pair.watched.url("")]);
    assert_eq!(code, Some(0), "{out}");
    let status: Value = serde_json::from_str(&out).unwrap();
    let traces = &status["sinks"][0]["ledger"]["traces"];
    assert!(traces["created"].is_u64() && traces["dropped"]["queue_full"].is_u64(), "{out}");
}

#[tokio::test]
async fn secrets_of_a_query_are_in_no_span_and_in_no_status() {
    let keyed = |receiver: &str| {
        format!(
            "tracer: {{a: {{type: open-telemetry, transport: http, endpoint.traces: 'http://{receiver}/v1/traces?k=geheim-1', \
             throttle: 1ms}}}}\n"
        )
    };
    let mut pair = Pair::start_with(keyed, &[], &[]).await;
    let asked = "/api/tests?take=7&token=geheim-2&api_key=geheim-3";
    assert_eq!(pair.get(asked, "traceparent", &traceparent()).await, StatusCode::OK);
    let status = pair.client.get(pair.watched.url("/api/telemetry/status")).send().await.unwrap();
    let status = status.text().await.unwrap();
    assert!(status.contains("/v1/traces?k=***") && !status.contains("geheim"), "{status}");
    let (code, out, _) = pair.command(&["telemetry", "check", "--config", "server.yaml"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(!out.contains("geheim"), "{out}");
    let heard = pair.heard(CALLER).await.unwrap().to_string();
    assert!(heard.contains("take=7&token=***&api_key=***"), "{heard}");
    assert!(!heard.contains("geheim"), "{heard}");
}
