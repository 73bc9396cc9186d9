//! What `qualitytrace run` prints and writes about tests that did not pass.

use serde_json::json;

use crate::program;
use crate::rough::client::Client;
use crate::rough::program::Served;
use crate::suites::{holds, run, test};

#[tokio::test]
async fn a_huge_value_is_cut_and_its_length_told() {
    let huge = test("huge", "/huge", "")
        .replace("attr:tracetest.response.status = 200", "attr:tracetest.response.body = \"small\"");
    let output = "  outputs:
  - name: BODY
    selector: span[name = \"Tracetest trigger\"]
    value: attr:tracetest.response.body
";
    let (code, text, junit) = run(&[("t.yaml", &(huge + output))], &["t.yaml"]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["x… (the first 500 of 100013 characters)", "expected small"]);
    holds(&junit, &["x… (the first 500 of 100013 characters)"]);
    assert!(text.len() < 5_000 && junit.len() < 5_000, "{} {}", text.len(), junit.len());
}

#[tokio::test]
async fn a_step_is_shown_by_its_name_and_its_test() {
    let suite = "type: TestSuite
spec:
  id: s
  name: S
  steps:
  - {name: Look, test: ./t.yaml}
  - ./t.yaml
";
    let (code, text, junit) = run(&[("s.yaml", suite), ("t.yaml", &test("t", "/ok", ""))], &["s.yaml"]).await;
    assert_eq!(code, Some(0), "{text}");
    holds(&text, &["✔ S › Look (Test t) ", "✔ S › Test t "]);
    holds(&junit, &["<testsuite name=\"S › Look (Test t)\"", "<testsuite name=\"S › Test t\""]);
}

#[tokio::test]
async fn tries_that_end_alike_are_printed_once() {
    let third = test("third", "/third", "");
    let (_, text, _) = run(&[("t.yaml", &third)], &["t.yaml", "--retries", "2"]).await;
    holds(&text, &["1 of 3 runs passed", "runs 1, 2 of test third, trace "]);
    assert_eq!(text.matches("got 500").count(), 1, "{text}");

    let bad = test("bad", "/bad", "");
    let (_, text, junit) = run(&[("t.yaml", &bad)], &["t.yaml", "--retries", "6"]).await;
    holds(&text, &["0 of 7 runs passed", "runs 1, 2, 3, 4, 5 and 1 more of test bad ended like this too"]);
    assert_eq!(text.matches("got 500").count(), 1, "{text}");
    assert_eq!(junit.matches("<rerunFailure").count(), 6, "{junit}");
}

#[tokio::test]
async fn a_trigger_that_failed_took_its_time() {
    let refused = test("t", "/", "").replace("${var:URL}", "http://127.0.0.1:9");
    let (code, text, _) = run(&[("t.yaml", &refused)], &["t.yaml"]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["the trigger failed:", "1 test: 0 passed, 1 broken in"]);
    assert!(!text.contains("trigger 0 µs"), "{text}");
}

#[tokio::test]
async fn an_inconclusive_test_is_an_error_and_counted_once() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let client = Client::new(server.url(""));
    client.put_settle("200ms").await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let span = |id: &str, parent: &str, name: &str| {
        json!({
            "traceId": trace, "spanId": id, "parentSpanId": parent, "name": name, "kind": 2,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        })
    };
    // The parent of the second one never comes.
    let spans =
        [span("00000000000000aa", "", "root"), span("00000000000000bb", "00000000000000cc", "worker")];
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
    let sent = reqwest::Client::new().post(server.url("/v1/traces")).json(&body).send().await.unwrap();
    assert!(sent.status().is_success());
    let inconclusive = format!(
        "type: Test
spec:
  id: t
  name: T
  trigger: {{ type: traceid, traceid: {{ id: {trace} }} }}
  specs:
  - selector: span[name = \"worker\"]
    assertions: [attr:tracetest.selected_spans.count = 1]
"
    );
    let (code, text, junit) =
        run(&[("t.yaml", &inconclusive)], &["t.yaml", "--server", &server.url("")]).await;
    assert_eq!(code, Some(2), "{text}");
    holds(&text, &["? T ", "1 test: 0 passed, 1 inconclusive in"]);
    holds(&junit, &["tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\""]);
    holds(&junit, &["<error type=\"inconclusive\" message=\"inconclusive: the parent 00000000000000cc"]);
}
