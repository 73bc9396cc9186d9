//! `qualitytrace run`: spans that come after a verdict while other tests are running are part of the report.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::get;
use serde_json::json;
use tokio::process::Command;
use tokio::sync::watch;

use crate::late_spans_load::program::Served;

const LATE: &str = "type: Test
spec:
  id: late
  name: Comes late
  pollingProfile: ./short.yaml
  trigger:
    type: http
    httpRequest: { method: GET, url: '${var:URL}/late' }
  specs:
  - selector: span[name = \"leaf\"]
    assertions:
    - attr:tracetest.selected_spans.count = 0
";

const SLOW: &str = "type: Test
spec:
  id: slow
  name: Takes its time
  skipTraceCollection: true
  trigger:
    type: http
    httpRequest: { method: GET, url: '${var:URL}/slow/1' }
";

const SHORT: &str = "type: PollingProfile
spec:
  name: Short
  strategy: periodic
  periodic: { retryDelay: 1s, timeout: 20s, settle: 300ms, quiet: 50ms }
";

/// A system whose last spans come after the verdict.
#[derive(Clone)]
struct System {
    otlp: String,
    /// How many of its last spans were delivered.
    leaves: watch::Sender<usize>,
}

impl System {
    /// Serves on a port of its own; returns its URL.
    async fn serve(otlp: String) -> String {
        let router = Router::new().route("/late", get(late)).route("/slow/{leaves}", get(slow));
        let router = router.with_state(Self { otlp, leaves: watch::Sender::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }
}

/// Answers at once; sends one span then and another after the verdict, which comes 300 ms after the first one: the
/// program cannot be asked whether it has judged.
async fn late(State(System { otlp, leaves }): State<System>, headers: HeaderMap) -> &'static str {
    let parent = headers["traceparent"].to_str().unwrap().to_owned();
    tokio::spawn(async move {
        let parts: Vec<&str> = parent.split('-').collect();
        deliver(&otlp, parts[1], "0000000000000001", parts[2], "root").await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        deliver(&otlp, parts[1], "0000000000000002", "0000000000000001", "leaf").await;
        leaves.send_modify(|leaves| *leaves += 1);
    });
    "yes"
}

async fn deliver(otlp: &str, trace: &str, id: &str, parent: &str, name: &str) {
    let span = json!({
        "traceId": trace, "spanId": id, "parentSpanId": parent, "name": name, "kind": 2,
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000001000000",
    });
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    let sent = crate::client().post(format!("http://{otlp}/v1/traces")).json(&body).send().await;
    sent.unwrap().error_for_status().unwrap();
}

/// Keeps the program running until so many late spans have arrived, and for the time in which they are judged.
async fn slow(State(system): State<System>, Path(wanted): Path<usize>) -> &'static str {
    system.leaves.subscribe().wait_for(|leaves| *leaves >= wanted).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    "yes"
}

/// Runs the files against a system whose spans come late; returns the exit code, the output, and the JUnit report.
async fn judged(files: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let otlp = format!("127.0.0.1:{}", qualitytrace_testing::port());
    let url = System::serve(otlp.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("slow.yaml", SLOW), ("short.yaml", SHORT)].iter().chain(files) {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let output = Command::new(crate::program())
        .current_dir(folder.path())
        .arg("run")
        .args(arguments)
        .args(["--var", &format!("URL={url}"), "-j", "report.xml"])
        .args(["--otlp-grpc-addr", "off", "--otlp-http-addr", &otlp])
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let junit = std::fs::read_to_string(folder.path().join("report.xml")).unwrap();
    (output.status.code(), text.into_owned(), junit)
}

#[tokio::test]
async fn a_verdict_that_late_spans_change_is_corrected_in_the_report() {
    let (code, text, junit) = judged(&[("late.yaml", LATE)], &["late.yaml", "slow.yaml"]).await;
    assert_eq!(code, Some(2), "{text}");
    let told = "corrected: 1 more span came after the verdict, which was passed";
    assert!(text.contains(told) && text.contains("1 failed"), "{text}");
    assert!(junit.contains("failures=\"1\"") && junit.contains(told), "{junit}");
}

#[tokio::test]
async fn late_spans_correct_every_run_of_a_series_and_its_outcome() {
    // The runs pass, and fail when the last span is here.
    let repeated = LATE.replace("  name: Comes late\n", "  name: Comes late\n  repeat: 2\n");
    let slower = SLOW.replace("slow/1", "slow/2");
    let files = [("late.yaml", repeated.as_str()), ("slow.yaml", &slower)];
    let (code, text, junit) = judged(&files, &["late.yaml", "slow.yaml"]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("2 tests: 1 passed, 1 failed in"), "{text}");
    assert!(junit.contains("failures=\"1\""), "{junit}");

    // The runs fail by absence, and pass when the last span is here.
    let retried = repeated.replace("repeat: 2", "retries: 1").replace("count = 0", "count = 1");
    let (code, text, junit) = judged(&[("late.yaml", &retried)], &["late.yaml"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("1 test: 1 passed in"), "{text}");
    assert!(!junit.contains("<failure"), "{junit}");
}

#[tokio::test]
async fn a_failure_by_absence_is_checked_again_in_the_form_of_the_original_too() {
    let server = Served::start(crate::program(), "sqlite::memory:", &[]).await;
    let url = format!("URL={}", System::serve(server.http.to_string()).await);
    let folder = tempfile::tempdir().unwrap();
    let suite = "type: TestSuite\nspec:\n  id: s\n  name: S\n  steps: [./other.yaml]\n";
    let waits = LATE.replace("count = 0", "count = 1");
    // What the server learns of a test, it does not know of another.
    let other = waits.replace("id: late", "id: other");
    for (name, text) in
        [("late.yaml", waits.as_str()), ("other.yaml", &other), ("short.yaml", SHORT), ("suite.yaml", suite)]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let run = async |arguments: &[&str]| {
        let output = Command::new(crate::program())
            .current_dir(folder.path())
            .arg("run")
            .args(arguments)
            .args(["--var", &url, "--server", &server.url("")])
            .output()
            .await
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for arguments in [["test", "-f", "late.yaml"], ["testsuite", "-f", "suite.yaml"]] {
        let (code, text) = run(&arguments).await;
        assert_eq!(code, Some(0), "{text}");
    }
    // So is every run of a series.
    let again = waits.replace("id: late", "id: again");
    std::fs::write(folder.path().join("again.yaml"), again).unwrap();
    let (code, text) = run(&["test", "-f", "again.yaml", "--retries", "1", "--fail-on-flaky"]).await;
    assert_eq!(code, Some(0), "{text}");
}
