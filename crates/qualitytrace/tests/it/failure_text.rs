//! The text that explains a test which did not pass, as it is.

use qualitytrace_testing::DEADLINE;
use regex::Regex;
use serde_json::json;

use crate::late_spans_load::client::Client;
use crate::late_spans_load::program::Served;
use crate::program;
use crate::selecting::Desk;
use crate::suites::test;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The text without times, ports and other things that differ from run to run.
fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, mask) in [
        (r" +[0-9.]+ (µs|ms|s)\b", " TIME"),
        (r"127\.0\.0\.1:[0-9]+", "127.0.0.1:PORT"),
        (r"trace [0-9a-f]{32}", "trace ID"),
        // A server whose page is not built has no link to it.
        (r"\n +http://127\.0\.0\.1:PORT/test/\S+", ""),
        (r" +\n", "\n"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, mask).into_owned();
    }
    text
}

/// A server with a trace of three spans, of which one reports an error.
async fn server() -> Served {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    Client::new(server.url("")).put_settle("200ms").await;
    let span = |id: &str, parent: &str, name: &str, (start, end): (u64, u64), code: u32| {
        json!({
            "traceId": TRACE, "spanId": id, "parentSpanId": parent, "name": name, "kind": 2,
            "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end.to_string(), "status": { "code": code },
            "attributes": [{ "key": "amount", "value": { "intValue": "5" } }],
        })
    };
    let spans = |service: &str, spans: Vec<serde_json::Value>| {
        json!({
            "resource": { "attributes": [{ "key": "service.name", "value": { "stringValue": service } }] },
            "scopeSpans": [{ "spans": spans }],
        })
    };
    let shop = [
        span("00000000000000a1", "", "POST /orders", (1_000_000, 9_000_000), 0),
        span("00000000000000a2", "00000000000000a1", "INSERT orders", (2_000_000, 4_000_000), 0),
    ];
    let payment = span("00000000000000b1", "00000000000000a1", "charge card", (4_000_000, 8_000_000), 2);
    let body = json!({ "resourceSpans": [spans("shop", shop.to_vec()), spans("payment", vec![payment])] });
    let sent = crate::client().post(server.url("/v1/traces")).timeout(DEADLINE).json(&body).send().await;
    assert!(sent.unwrap().status().is_success());
    server
}

#[tokio::test]
async fn a_failed_test_is_explained() {
    let of_trace = format!(
        "type: Test
spec:
  id: orders
  name: Orders
  trigger: {{ type: traceid, traceid: {{ id: {TRACE} }} }}
  specs:
  - name: The card is charged
    selector: span[name = \"charge crad\" amount = 5]
    assertions: [attr:tracetest.selected_spans.count = 1]
  - name: All of it
    selector: span[name = \"charge card\"]
    assertions: [attr:amount = 10]
  - name: The order is stored
    selector: span[name = \"INSERT orders\"]
    assertions: [attr:amount = 5]
"
    );
    let server = server().await;
    let bad = test("bad", "/bad", "").replace("      method: GET\n", "      method: POST\n      body: '{\"n\": 1}'\n      headers: [{ key: Authorization, value: Basic abc }]\n");
    let desk = Desk::with(&[("a.yaml", test("a", "/a", "")), ("b.yaml", bad), ("c.yaml", of_trace)]).await;
    for (name, arguments) in [
        ("usual", &["a.yaml", "b.yaml", "--parallel", "1"][..]),
        ("failures", &["a.yaml", "b.yaml", "--parallel", "1", "-q"]),
        ("details", &["b.yaml", "-v"]),
        ("trace", &["c.yaml", "--confirm", "0s", "--server", &server.url("")]),
    ] {
        let (code, out, err) = desk.run(arguments).await;
        assert_eq!(code, Some(2), "{out}{err}");
        assert!(!out.contains('\x1b'), "{out:?}");
        insta::assert_snapshot!(name, masked(&out));
    }
}
