//! `eval`, `select` and `trace`, on a file and on a server.

use std::path::Path;
use std::process::Stdio;

use qualitytrace_testing::{DEADLINE, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use super::{apart, run, stderr, stdout};
use crate::late_spans_load::program::Served;
use crate::program;

pub(crate) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A trace of three spans in two services.
pub(crate) fn otlp(trace: &str) -> Value {
    let attribute = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let number = |key: &str, value: u64| json!({ "key": key, "value": { "intValue": value.to_string() } });
    let span = |id: &str, parent: &str, name: &str, kind: u8, times: [u64; 2], attributes: Value| {
        json!({
            "traceId": trace, "spanId": id, "parentSpanId": parent, "name": name, "kind": kind,
            "startTimeUnixNano": (1_700_000_000_000_000_000 + times[0] * 1_000_000).to_string(),
            "endTimeUnixNano": (1_700_000_000_000_000_000 + times[1] * 1_000_000).to_string(),
            "attributes": attributes,
        })
    };
    let service = |name: &str, spans: Value| json!({ "resource": { "attributes": [attribute("service.name", name)] }, "scopeSpans": [{ "spans": spans }] });
    let route = json!([attribute("http.route", "/orders"), number("http.response.status_code", 201)]);
    let pay = json!([number("payment.amount", 42)]);
    json!({ "resourceSpans": [
        service("shop", json!([
            span("00f067aa0ba902b7", "", "POST /orders", 2, [0, 100], route),
            span("00f067aa0ba902b8", "00f067aa0ba902b7", "pay", 3, [10, 60], json!([])),
        ])),
        service("payment", json!([span("00f067aa0ba902b9", "00f067aa0ba902b8", "charge", 2, [20, 50], pay)])),
    ] })
}

fn folder_with_trace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trace.json"), otlp(TRACE).to_string()).unwrap();
    folder
}

#[test]
fn a_selector_marks_its_spans_and_a_near_miss_is_named() {
    let folder = folder_with_trace();
    let select = |selector: &str| run(folder.path(), &["select", selector, "--trace", "trace.json"]);
    let found = select("span[service.name=\"payment\"]");
    let text = stdout(&found);
    assert_eq!(found.status.code(), Some(0), "{}", stderr(&found));
    assert!(text.starts_with("1 of 3 spans selected"), "{text}");
    let marked: Vec<&str> = text.lines().filter(|line| line.starts_with('▶')).collect();
    assert!(marked.len() == 1 && marked[0].contains("charge"), "{text}");
    assert!(!text.contains('\u{1b}'));

    let missed = select("span[name=\"chrage\"]");
    assert_eq!(missed.status.code(), Some(2));
    let said = stderr(&missed);
    assert!(said.contains("nearest: `charge`") && said.contains("this selects it: "), "{said}");

    let wrong = select("span[name = charge]");
    assert_eq!(wrong.status.code(), Some(3));
    assert!(stderr(&wrong).contains("unquoted-text"), "{}", stderr(&wrong));
    let json = run(folder.path(), &["select", "span[]", "--trace", "trace.json", "-o", "json"]);
    let listed: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(listed["selected"].as_array().unwrap().len(), 3);
    let gone = run(folder.path(), &["select", "span[]", "--trace", "gone.json"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains("failed to read gone.json"), "{}", stderr(&gone));
}

#[test]
fn an_expression_has_a_value_on_each_span() {
    let folder = folder_with_trace();
    let eval = |arguments: &[&str]| {
        let output = run(folder.path(), &[&["eval"], arguments, &["--trace", "trace.json"]].concat());
        (output.status.code(), stdout(&output), stderr(&output))
    };
    assert_eq!(eval(&["attr:http.response.status_code"]), (Some(0), "201\n".to_owned(), String::new()));
    let (code, out, _) = eval(&["attr:name", "--on", "span[kind=\"server\"]"]);
    assert_eq!((code, out.as_str()), (Some(0), "POST /orders: POST /orders\ncharge: charge\n"));
    let (code, out, _) = eval(&["attr:tracetest.span.duration < 60ms", "--on", "span[name=\"pay\"]"]);
    assert_eq!((code, out.as_str()), (Some(0), "✔ 50ms < 60ms\n"));
    let (code, out, _) = eval(&["attr:payment.amount = 41", "--on", "span[name=\"charge\"]"]);
    assert_eq!((code, out.as_str()), (Some(2), "✘ 42 = 41\n"));
    let (code, _, said) = eval(&["attr:no.such"]);
    assert!(code == Some(2) && said.contains("no value"), "{said}");
    let (code, out, _) = eval(&["var:WHO", "--var", "WHO=ada"]);
    assert_eq!((code, out.as_str()), (Some(0), "ada\n"));
    let (code, _, said) = eval(&["attr:x == 1"]);
    assert!(code == Some(3) && said.contains("`==`") && !said.contains("unexpected-text"), "{said}");
    let (code, out, _) = eval(&["attr:http.response.status_code is one of [200, 201]"]);
    assert_eq!((code, out.as_str()), (Some(0), "✔ 201\n"));
    let (code, out, _) = eval(&["attr:name !exists"]);
    assert_eq!((code, out.lines().count()), (Some(2), 1), "{out}");
}

#[tokio::test]
async fn traces_are_imported_listed_shown_and_exported() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let folder = folder_with_trace();
    let url = server.url("");
    let trace =
        |arguments: &[&str]| run(folder.path(), &[&["trace"], arguments, &["--server-url", &url]].concat());
    let imported = trace(&["import", "trace.json"]);
    assert_eq!(imported.status.code(), Some(0), "{}", stderr(&imported));
    assert!(stdout(&imported).contains("3 spans of 1 trace stored (otlp)"), "{}", stdout(&imported));
    let listed = stdout(&trace(&["list"]));
    assert!(listed.contains(TRACE) && listed.contains("POST /orders"), "{listed}");
    assert!(!stdout(&trace(&["list", "--service", "nobody"])).contains(TRACE));
    let shown = stdout(&trace(&["show", TRACE]));
    assert!(shown.contains("3 spans") && shown.contains("charge") && shown.contains('━'), "{shown}");
    assert!(!shown.contains("payment.amount"), "{shown}");
    let verbose = stdout(&trace(&["show", TRACE, "-v"]));
    assert!(
        verbose.contains("payment.amount = 42") && verbose.contains("http.route = \"/orders\""),
        "{verbose}"
    );
    assert!(listed.starts_with('·'), "no span has a status: {listed}");
    assert_eq!(stdout(&trace(&["list", "--status", "unset"])), listed);
    assert_eq!(stdout(&trace(&["list", "--status", "ok"])), "");
    assert_eq!(
        stdout(&trace(&["list", "trace.json", "--status", "unset"])),
        listed,
        "a file is listed alike"
    );
    assert_eq!(stdout(&trace(&["list", "trace.json", "--status", "error"])), "");
    assert_eq!(stdout(&trace(&["list", "trace.json", "--service", "nobody"])), "");
    let of_file = run(folder.path(), &["trace", "show", "trace.json"]);
    assert_eq!(stdout(&of_file), shown, "a file is drawn alike");
    for format in ["otlp", "jaeger"] {
        let exported = trace(&["export", TRACE, "-o", format, "--out", "exported.json"]);
        assert_eq!(exported.status.code(), Some(0), "{}", stderr(&exported));
        let again = run(folder.path(), &["trace", "list", "exported.json"]);
        assert!(stdout(&again).contains("3 spans"), "{format}: {}", stdout(&again));
    }
    let selected = run(folder.path(), &["select", "span[name=\"pay\"]", "--trace", TRACE, "-s", &url]);
    assert!(stdout(&selected).starts_with("1 of 3"), "{}", stderr(&selected));
    let gone = trace(&["show", "ffffffffffffffffffffffffffffffff"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains("has no span of trace"), "{}", stderr(&gone));
    std::fs::write(folder.path().join("bad.json"), "{}").unwrap();
    assert_eq!(trace(&["import", "bad.json"]).status.code(), Some(1));
}

#[tokio::test]
async fn a_run_can_be_asked_too() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let test = "type: Test\nspec:\n  id: a\n  name: A\n  skipTraceCollection: true\n  trigger:\n    type: http\n    httpRequest: { method: GET, url: '${var:URL}/healthz' }\n";
    std::fs::write(folder.path().join("a.yaml"), test).unwrap();
    let url = server.url("");
    let ran = run(folder.path(), &["run", "a.yaml", "-s", &url, "--var", &format!("URL={url}")]);
    assert_eq!(ran.status.code(), Some(0), "{} {}", stdout(&ran), stderr(&ran));
    let on_run = |arguments: &[&str]| {
        run(folder.path(), &[arguments, &["--test", "a", "--run", "1", "-s", &url]].concat())
    };
    let status = on_run(&["eval", "attr:tracetest.response.status"]);
    assert_eq!(stdout(&status), "200\n", "{}", stderr(&status));
    let variable = on_run(&["eval", "var:URL"]);
    assert_eq!(stdout(&variable).trim(), url);
    let none = run(folder.path(), &["eval", "1", "--test", "a", "--run", "9", "-s", &url]);
    assert!(none.status.code() == Some(1) && stderr(&none).contains("has no run 9"), "{}", stderr(&none));
}

/// Sends the trace to an address over OTLP.
async fn send(address: &str, trace: &str) {
    let request = crate::client().post(format!("{address}/v1/traces")).json(&otlp(trace));
    assert!(request.send().await.unwrap().status().is_success());
}

#[tokio::test]
async fn arrivals_are_shown_by_a_server_that_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(program());
    apart(&mut command, folder.path());
    let arguments =
        ["trace", "tail", "--count", "1", "--otlp-grpc-addr", "off", "--otlp-http-addr", "127.0.0.1:0"];
    let mut child = tokio::process::Command::from(command)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let said = within(DEADLINE, "it says where it listens", async {
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).await.unwrap();
        line
    })
    .await;
    let address = said.split_once("over HTTP at ").unwrap().1.split(';').next().unwrap().to_owned();
    send(&address, TRACE).await;
    let mut out = String::new();
    within(DEADLINE, "the trace is shown", child.stdout.take().unwrap().read_to_string(&mut out))
        .await
        .unwrap();
    assert!(out.contains(TRACE) && out.contains("POST /orders") && out.contains("3 spans"), "{out}");
    assert_eq!(within(DEADLINE, "it ends", child.wait()).await.unwrap().code(), Some(0));
}

#[test]
fn zipkin_files_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let file: &Path = &folder.path().join("zipkin.json");
    let span = json!([{ "traceId": TRACE, "id": "00000000000000aa", "name": "get", "timestamp": 1, "duration": 5,
        "localEndpoint": { "serviceName": "old" } }]);
    std::fs::write(file, span.to_string()).unwrap();
    let found = run(folder.path(), &["select", "span[service.name=\"old\"]", "--trace", "zipkin.json"]);
    assert!(stdout(&found).starts_with("1 of 1 span selected"), "{}", stdout(&found));
}
