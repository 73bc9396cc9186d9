//! `qualitytrace run` with settings beside the tests: gates, analyzer, polling profile and variable sets apply to the
//! run.

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::get;
use serde_json::json;
use tokio::process::Command;

use crate::late_spans_load::program::Served;
use crate::suites::{holds, run, test};

const TEST: &str = "type: Test
spec:
  id: poor
  name: A poor trace
  trigger:
    type: http
    httpRequest: { method: GET, url: '${var:URL}/' }
  specs:
  - selector: span[name = \"root\"]
    assertions:
    - attr:tracetest.selected_spans.count = 1
";

const GATES: &str = "type: TestRunner
spec:
  name: default
  requiredGates: [analyzer-score, test-specs]
";

const ANALYZER: &str = "type: Analyzer
spec:
  name: Strict
  enabled: true
  minimumScore: 100
  plugins:
  - id: standards
    enabled: true
    rules:
    - { id: span-naming, weight: 25, errorLevel: error }
    - { id: required-attributes, weight: 25, errorLevel: error }
    - { id: attribute-naming, weight: 25, errorLevel: error }
    - { id: no-empty-attributes, weight: 25, errorLevel: error }
";

const PROFILE: &str = "type: PollingProfile
spec:
  name: Short
  strategy: periodic
  periodic: { retryDelay: 1s, timeout: 20s, settle: 300ms, quiet: 50ms }
";

/// Sends one span for each request: an HTTP span with a poor name and without most of its attributes.
async fn poor(State(otlp): State<String>, headers: HeaderMap) -> &'static str {
    let parent = headers["traceparent"].to_str().unwrap();
    let parts: Vec<&str> = parent.split('-').collect();
    let attribute = json!({ "key": "http.request.method", "value": { "stringValue": "GET" } });
    let span = json!({
        "traceId": parts[1], "spanId": "0000000000000001", "parentSpanId": parts[2], "name": "root", "kind": 2,
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000001000000",
        "attributes": [attribute],
    });
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    let sent = crate::client().post(format!("http://{otlp}/v1/traces")).json(&body).send().await;
    sent.unwrap().error_for_status().unwrap();
    "yes"
}

/// Runs files against a system with poor traces, and returns the exit code, the output, and the JUnit report.
async fn judged(
    files: &[(&str, &str)],
    arguments: &[&str],
    server: Option<&Served>,
) -> (Option<i32>, String, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let otlp = match server {
        Some(server) => server.http.to_string(),
        None => format!("127.0.0.1:{}", qualitytrace_testing::port()),
    };
    let router = Router::new().route("/", get(poor)).with_state(otlp.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let mut command = Command::new(crate::program());
    command.current_dir(folder.path()).args(["run", ".", "-j", "report.xml", "--var", &format!("URL={url}")]);
    command.args(arguments);
    match server {
        Some(server) => command.args(["--server", &server.url("")]),
        None => command.args(["--otlp-grpc-addr", "off", "--otlp-http-addr", &otlp]),
    };
    let output = command.output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let junit = std::fs::read_to_string(folder.path().join("report.xml")).unwrap_or_default();
    (output.status.code(), text.into_owned(), junit)
}

const FILES: [(&str, &str); 4] =
    [("test.yaml", TEST), ("gates.yaml", GATES), ("analyzer.yaml", ANALYZER), ("profile.yaml", PROFILE)];

#[tokio::test]
async fn a_gate_in_the_folder_that_does_not_pass_turns_the_run_red() {
    let (code, text, junit) = judged(&FILES, &[], None).await;
    assert_eq!(code, Some(2), "{text}");
    holds(
        &text,
        &["✘ gate analyzer-score: the analyzer gives the trace ", " of 100 points, 100 are required: "],
    );
    holds(&junit, &["<testcase name=\"gate › analyzer-score\" classname=\"", "100 are required"]);
}

#[tokio::test]
async fn settings_of_the_folder_count_on_a_server_too_and_change_nothing_there() {
    let server = Served::start(crate::program(), "sqlite::memory:", &[]).await;
    let (code, text, _) = judged(&FILES, &[], Some(&server)).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["✘ gate analyzer-score: "]);
    let kept = reqwest::get(server.url("/api/testrunners/current")).await.unwrap();
    let kept: serde_json::Value = kept.json().await.unwrap();
    assert_eq!(kept["spec"]["requiredGates"], json!(["test-specs"]), "{kept}");
}

#[tokio::test]
async fn a_gate_that_has_nothing_to_look_at_is_told() {
    let blind = "type: Analyzer\nspec: { name: Blind, enabled: true, minimumScore: 100 }\n";
    let files = [FILES[0], FILES[1], ("analyzer.yaml", blind), FILES[3]];
    let (code, text, _) = judged(&files, &[], None).await;
    assert_eq!(code, Some(0), "{text}");
    holds(&text, &["the gate analyzer-score was not checked: the analyzer has no rules"]);
}

#[tokio::test]
async fn flags_count_more_than_what_stands_in_the_folder() {
    let (code, text, _) = judged(&FILES, &["--required-gates", "test-specs"], None).await;
    assert_eq!(code, Some(0), "{text}");
    let (code, text, _) = judged(&FILES, &["--required-gates", "test-specs,elephants"], None).await;
    assert_eq!(code, Some(1), "{text}");
    holds(&text, &["valid options: analyzer-score, analyzer-rules, test-specs"]);
}

#[tokio::test]
async fn specs_that_no_gate_requires_are_shown_and_do_not_count() {
    let wrong = TEST.replace("count = 1", "count = 0");
    let files = [("test.yaml", &*wrong), ("profile.yaml", PROFILE)];
    let (code, text, junit) = judged(&files, &["--required-gates", "analyzer-score"], None).await;
    holds(
        &text,
        &["got 1, expected 0", "failed specs do not count: the required gates leave out test-specs"],
    );
    assert_eq!(code, Some(0), "{text}");
    // A CI system that reads the file agrees with one that reads the exit code.
    holds(
        &junit,
        &[
            "tests=\"2\" skipped=\"1\" failures=\"0\" errors=\"0\"",
            "<skipped message=\"not required: root: got 1, expected 0\" type=\"skipped\"/>",
            "<testcase name=\"gate › analyzer-score\" classname=\"",
        ],
    );
    let strict = [("test.yaml", &*wrong), ("profile.yaml", PROFILE), FILES[2]];
    let (code, text, junit) = judged(&strict, &["--required-gates", "analyzer-score"], None).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&junit, &["tests=\"2\" skipped=\"1\" failures=\"1\" errors=\"0\""]);
}

#[tokio::test]
async fn windows_of_the_command_line_count_on_a_server_too() {
    let server = Served::start(crate::program(), "sqlite::memory:", &[]).await;
    let silent = TEST.replace("\"root\"", "\"never comes\"");
    let flags = ["--settle", "300ms", "--quiet", "50ms", "--timeout", "2s", "--confirm", "0s"];
    let (code, text, _) = judged(&[("test.yaml", &*silent)], &flags, Some(&server)).await;
    assert_eq!(code, Some(4), "{text}");
    let runs = reqwest::get(server.url("/api/tests/poor/run/1/events")).await.unwrap().text().await.unwrap();
    holds(&runs, &["Spans are awaited for at most 2000 ms", "quiet window 50 ms"]);
    let kept = reqwest::get(server.url("/api/pollingprofiles/current")).await.unwrap();
    let kept: serde_json::Value = kept.json().await.unwrap();
    assert_eq!(kept["spec"]["periodic"]["timeout"], "1m", "nothing changes there: {kept}");
}

const SET: &str = "type: VariableSet
spec:
  id: local
  name: Local
  values:
  - { key: WAY, value: ok }
";

#[tokio::test]
async fn the_only_variable_set_of_the_folder_is_used() {
    let files = [("t.yaml", &*test("t", "/${var:WAY}", "")), ("set.yaml", SET)];
    let (code, text, _) = run(&files, &["."]).await;
    assert_eq!(code, Some(0), "{text}");
    let (code, text, _) = run(&files, &[".", "--var", "WAY=bad"]).await;
    assert_eq!(code, Some(2), "{text}");
}

#[tokio::test]
async fn one_of_several_variable_sets_is_chosen_by_file_id_or_name() {
    let bad = SET.replace("local", "other").replace("Local", "Other").replace("value: ok", "value: bad");
    let files = [("t.yaml", &*test("t", "/${var:WAY}", "")), ("set.yaml", SET), ("bad.yaml", &*bad)];
    let (code, text, _) = run(&files, &["."]).await;
    assert_eq!(code, Some(1), "{text}");
    holds(
        &text,
        &["the files hold 2 variable sets, and none of them is used: choose one of other, local with --vars"],
    );
    for (chosen, expected) in
        [("local", 0), ("Local", 0), ("set.yaml", 0), ("other", 2), ("bad.yaml", 2), ("x", 1)]
    {
        let (code, text, _) = run(&files, &[".", "--vars", chosen]).await;
        assert_eq!(code, Some(expected), "{chosen}: {text}");
    }
}

#[tokio::test]
async fn two_settings_of_a_kind_and_kinds_without_a_meaning_are_told() {
    let good = test("t", "/ok", "");
    let (code, text, _) = run(&[("t.yaml", &good), ("a.yaml", GATES), ("b.yaml", GATES)], &["."]).await;
    assert_eq!(code, Some(1), "{text}");
    holds(
        &text,
        &["b.yaml: there is another TestRunner in these files, and a run uses one; leave one of them out"],
    );
    let store = "type: DataStore\nspec: { name: Here, type: otlp }\n";
    let (code, text, _) = run(&[("t.yaml", &good), ("store.yaml", store)], &["."]).await;
    assert_eq!(code, Some(0), "{text}");
    holds(
        &text,
        &["store.yaml: a DataStore has no meaning for a run; store it on a server with `qualitytrace apply`"],
    );
}
