//! The server's own telemetry of runs: a span for each of them, its phases below it, and a log line.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::watch::{CALLER, Pair, spans, traceparent};

const ANOTHER: &str = "0123456789abcdef0123456789abcde1";

/// The value of an attribute, as text.
fn attribute(span: &Value, key: &str) -> Option<String> {
    let found = span["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    let (_, value) = found["value"].as_object()?.iter().next()?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn named<'s>(spans: &'s [Value], name: &str) -> &'s Value {
    spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name} is missing: {spans:#?}"))
}

/// Checks that the run has exactly these child phases, in this order and inside its time.
fn has_phases(spans: &[Value], run: &Value, phases: &[&str]) {
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    let mut below: Vec<&Value> = spans.iter().filter(|span| span["parentSpanId"] == run["spanId"]).collect();
    below.sort_by_key(|span| time(span, "startTimeUnixNano"));
    let names: Vec<&str> = below.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, phases, "{spans:#?}");
    for span in below {
        assert!(time(span, "startTimeUnixNano") >= time(run, "startTimeUnixNano"), "{run} {span}");
        assert!(time(span, "endTimeUnixNano") <= time(run, "endTimeUnixNano"), "{run} {span}");
    }
}

async fn sent(request: RequestBuilder, trace: &str) -> Value {
    let request = request.header("traceparent", traceparent().replace(CALLER, trace)).json(&json!({}));
    request.send().await.unwrap().error_for_status().unwrap().json().await.unwrap()
}

impl Pair {
    async fn put(&self, kind: &str, path: &str, spec: Value) {
        let body = json!({ "type": kind, "spec": spec });
        let put = self.client.put(self.watched.url(path)).json(&body).send().await.unwrap();
        put.error_for_status().unwrap();
    }

    /// Stores a test whose trigger goes to this address.
    async fn put_test(&self, id: &str, url: &str, skips: bool) {
        let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": url } });
        let wrong = json!({ "type": "traceid", "traceid": { "id": "zz" } });
        let trigger = if id == "wrong" { wrong } else { trigger };
        let specs = json!([{ "selector": "span[name = \"nothing\"]", "assertions": ["attr:name = \"a\""] }]);
        let specs = if id == "failing" { specs } else { json!([]) };
        let spec = json!({ "id": id, "name": "Named", "skipTraceCollection": skips, "trigger": trigger, "specs": specs });
        self.put("Test", "/api/tests", spec).await;
    }

    /// Sends a POST with the trace context of a caller.
    async fn post(&self, path: &str, trace: &str) -> Value {
        sent(self.client.post(self.watched.url(path)), trace).await
    }

    /// Waits until a run is over.
    async fn over(&self, test: &str, run: u64) {
        let path = format!("/api/tests/{test}/run/{run}/events/stream");
        self.client.get(self.watched.url(&path)).send().await.unwrap().text().await.unwrap();
    }
}

#[tokio::test]
async fn a_span_covers_a_run_and_its_rerun() {
    let mut pair = Pair::start(&[], &[]).await;
    pair.put_test("t", &pair.watched.url("/api/tests"), true).await;
    let run = pair.post("/api/tests/t/run", CALLER).await;
    let line = pair.watched.logged("a run ended").await;
    for part in ["INFO", "test=\"t\"", "run=1", run["traceId"].as_str().unwrap(), "outcome=\"passed\""] {
        assert!(line.contains(part), "{part}: {line}");
    }
    pair.post("/api/tests/t/run/1/rerun", ANOTHER).await;
    pair.over("t", 2).await;
    let line = pair.watched.logged("a run ended").await;
    assert!(line.contains("run=2"), "{line}");

    let trace = pair.heard(CALLER).await.unwrap();
    let all = spans(&trace);
    let covering = named(&all, "Run test");
    assert_eq!(covering["parentSpanId"], named(&all, "POST /api/tests/{testId}/run")["spanId"]);
    let (judged, response) = (["Process outputs", "Execute assertions"], "Start processing trigger response");
    has_phases(&all, covering, &[&["Resolve trigger", "Trigger test", response][..], &judged].concat());
    for (key, value) in [
        ("tracetest.run.id", "1"),
        ("tracetest.run.test_id", "t"),
        ("tracetest.run.trace_id", run["traceId"].as_str().unwrap()),
        ("tracetest.run.state", "FINISHED"),
        ("tracetest.run.outcome", "passed"),
        ("test.case.name", "Named"),
        ("test.case.result.status", "pass"),
    ] {
        assert_eq!(attribute(covering, key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(covering["status"]["code"].as_u64().unwrap_or(0), 0, "{covering}");
    // Bit 9 would say that the parent is in another process.
    assert_eq!(covering["flags"].as_u64().unwrap() & 0x200, 0, "{covering}");

    let trace = pair.heard(ANOTHER).await.unwrap();
    let all = spans(&trace);
    let covering = named(&all, "Run test");
    assert_eq!(covering["parentSpanId"], named(&all, "POST /api/tests/{testId}/run/{runId}/rerun")["spanId"]);
    has_phases(&all, covering, &judged);
    assert_eq!(attribute(covering, "tracetest.run.rerun_of").as_deref(), Some("1"));
    assert_eq!(attribute(covering, "tracetest.run.outcome").as_deref(), Some("passed"));
}

#[tokio::test]
async fn a_run_that_cannot_be_judged_is_an_error_and_one_that_fails_is_not() {
    let mut pair = Pair::start(&[], &[]).await;
    let short = json!({ "retryDelay": "100ms", "timeout": "500ms", "settle": "100ms", "quiet": "50ms" });
    let short =
        json!({ "id": "current", "name": "S", "default": true, "strategy": "periodic", "periodic": short });
    pair.put("PollingProfile", "/api/pollingprofiles/current", short).await;
    let own = pair.watched.url("/api/tests");
    let cases = [
        ("down", "http://127.0.0.1:1/", true, "TRIGGER_FAILED", "nothing listens", "Trigger test"),
        ("wrong", "", true, "TRIGGER_FAILED", "names no trace", "Resolve trigger"),
        ("silent", &own, false, "TRACE_FAILED", "", "Start polling trace"),
        ("failing", &own, true, "FINISHED", "", ""),
    ];
    for (at, (test, url, skips, ..)) in cases.iter().enumerate() {
        pair.put_test(test, url, *skips).await;
        pair.post(&format!("/api/tests/{test}/run"), &CALLER.replace("01234567", &format!("0123456{at}")))
            .await;
        pair.over(test, 1).await;
    }
    for (at, (test, _, _, state, reason, phase)) in cases.into_iter().enumerate() {
        let trace = pair.heard(&CALLER.replace("01234567", &format!("0123456{at}"))).await.unwrap();
        let all = spans(&trace);
        let covering = named(&all, "Run test");
        assert_eq!(attribute(covering, "tracetest.run.state").as_deref(), Some(state), "{test}");
        if phase.is_empty() {
            assert_eq!(covering["status"]["code"].as_u64().unwrap_or(0), 0, "{covering}");
            assert_eq!(attribute(covering, "test.case.result.status").as_deref(), Some("fail"));
            continue;
        }
        for span in [covering, named(&all, phase)] {
            let message = span["status"]["message"].as_str().unwrap_or_default();
            assert!(span["status"]["code"] == 2 && message.contains(reason), "{test}: {span}");
            assert_ne!(message, "", "{test}: {span}");
        }
        assert_eq!(attribute(covering, "error.type").as_deref(), Some(state));
    }
}

#[tokio::test]
async fn the_runs_of_a_suite_and_of_a_series_belong_to_the_trace_of_their_caller() {
    let mut pair = Pair::start(&[], &[]).await;
    pair.put_test("t", &pair.watched.url("/api/tests"), true).await;
    pair.put("TestSuite", "/api/testsuites", json!({ "id": "s", "name": "S", "steps": ["t", "t"] })).await;
    pair.post("/api/testsuites/s/run", CALLER).await;
    let line = pair.watched.logged("the run of a suite ended").await;
    assert!(line.contains("suite=\"s\"") && line.contains("passed=true"), "{line}");
    let repeated = pair.client.post(pair.watched.url("/api/tests/t/run")).json(&json!({ "repeat": 2 }));
    let caller = traceparent().replace(CALLER, ANOTHER);
    repeated.header("traceparent", caller).send().await.unwrap().error_for_status().unwrap();
    for _ in 0..2 {
        pair.watched.logged("a run ended").await;
    }
    let trace = pair.heard(CALLER).await.unwrap();
    let all = spans(&trace);
    let suite = named(&all, "Run suite");
    assert_eq!(suite["parentSpanId"], named(&all, "POST /api/testsuites/{testSuiteId}/run")["spanId"]);
    has_phases(&all, suite, &["Run test", "Run test"]);
    assert_eq!(attribute(suite, "test.suite.run.status").as_deref(), Some("success"));

    let trace = pair.heard(ANOTHER).await.unwrap();
    let all = spans(&trace);
    let request = named(&all, "POST /api/tests/{testId}/run");
    let runs = all.iter().filter(|span| span["name"] == "Run test");
    assert_eq!(runs.clone().count(), 2, "{trace}");
    assert!(runs.clone().all(|run| run["parentSpanId"] == request["spanId"]), "{trace}");
}

#[tokio::test]
async fn invented_methods_are_one_series_and_spans_name_the_server() {
    let mut pair = Pair::start(&[], &["--server.hosts", "tests.example"]).await;
    for number in 0..50 {
        let method = Method::from_bytes(format!("M{number}").as_bytes()).unwrap();
        let request = pair.client.request(method, pair.watched.url("/api/tests?a=b"));
        request.header("traceparent", traceparent()).header("host", "tests.example:81").send().await.unwrap();
    }
    let metrics = pair.client.get(pair.watched.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let counts = |line: &&str| line.starts_with("http_server_request_duration_seconds_count");
    let counts: Vec<&str> = metrics.lines().filter(counts).collect();
    assert_eq!(counts.len(), 1, "{counts:#?}");
    for label in ["http_request_method=\"_OTHER\"", "url_scheme=\"http\"", " 50"] {
        assert!(counts[0].contains(label), "{label}: {}", counts[0]);
    }
    let trace = pair.heard(CALLER).await.unwrap();
    let all = spans(&trace);
    let span = named(&all, "HTTP /api/tests");
    let original = attribute(span, "http.request.method_original").unwrap();
    assert!(original.starts_with('M'), "{original}");
    for (key, value) in [
        ("http.request.method", "_OTHER"),
        ("url.scheme", "http"),
        ("url.path", "/api/tests"),
        ("server.address", "tests.example"),
        ("server.port", "81"),
        ("network.protocol.version", "1.1"),
    ] {
        assert_eq!(attribute(span, key).as_deref(), Some(value), "{key}: {span}");
    }
    assert!(trace.to_string().contains("https://opentelemetry.io/schemas/"), "{trace}");
}

#[tokio::test]
async fn metrics_come_in_the_format_that_is_accepted() {
    let pair = Pair::start(&[], &[]).await;
    let metrics = async |accept: &str| {
        let got =
            pair.client.get(pair.watched.url("/metrics")).header("accept", accept).send().await.unwrap();
        let kind = got.headers()["content-type"].to_str().unwrap().to_owned();
        (kind, got.text().await.unwrap())
    };
    pair.client.get(pair.watched.url("/api/tests")).send().await.unwrap();
    for accept in
        ["*/*", "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0;q=0.1,text/plain"]
    {
        let (kind, text) = metrics(accept).await;
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{accept}: {kind}");
        assert!(!text.contains("# EOF") && !text.contains("# UNIT") && !text.contains(" # {"), "{text}");
        assert!(text.contains("# TYPE process_cpu_time_seconds_total counter\n"), "{text}");
        assert!(text.contains("# TYPE target_info gauge\n"), "{text}");
        is_clean(&text);
    }
    for accept in [
        "application/openmetrics-text",
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
    ] {
        let (kind, text) = metrics(accept).await;
        assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{accept}: {kind}");
        assert!(
            text.ends_with("# EOF\n") && text.contains("# UNIT process_cpu_time_seconds seconds\n"),
            "{text}"
        );
        assert!(text.contains("# TYPE process_cpu_time_seconds counter\n"), "{text}");
        is_clean(&text);
    }
}

/// Checks what `promtool check metrics` asks for: every family is described once, and no series occurs twice.
fn is_clean(text: &str) {
    let mut seen = std::collections::HashSet::new();
    for line in text.lines() {
        let subject = if line.starts_with('#') {
            line.splitn(4, ' ').take(3).collect::<Vec<_>>().join(" ")
        } else {
            line.rsplit_once(' ').unwrap().0.split(" # ").next().unwrap().to_owned()
        };
        assert!(seen.insert(subject.clone()), "{subject} is there twice: {text}");
    }
    let types = seen.iter().filter(|line| line.starts_with("# TYPE")).count();
    let helps = seen.iter().filter(|line| line.starts_with("# HELP")).count();
    assert_eq!(types, helps, "{text}");
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" gauge")) {
        assert!(!family.ends_with("_count") && !family.ends_with("_total"), "{family}");
    }
}
