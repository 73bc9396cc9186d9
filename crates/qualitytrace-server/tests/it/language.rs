//! Help while writing, over the API: completion, tokens and diagnostics, and descriptions of spans.

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{Bench, Got};
use crate::databases::{Database, on_every_database};

on_every_database!(a_trace_and_a_run_help_while_writing);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const COMPLETE: &str = "/api/language/complete";
const CHECK: &str = "/api/language/check";

fn span(id: u8, parent: u8, kind: u8, name: &str, attributes: &Value) -> Value {
    let hex = |id: u8| if id == 0 { String::new() } else { format!("{id:016x}") };
    let attributes: Vec<Value> = attributes
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| match value {
            Value::Number(number) => json!({ "key": key, "value": { "intValue": number.to_string() } }),
            other => json!({ "key": key, "value": { "stringValue": other } }),
        })
        .collect();
    let start = 1_700_000_000_000_000_000_u64 + u64::from(id) * 1_000_000;
    json!({
        "traceId": TRACE, "spanId": hex(id), "parentSpanId": hex(parent), "kind": kind, "name": name,
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": (start + 45_000_000).to_string(),
        "attributes": attributes,
    })
}

/// A server that has received a trace of four spans, two of them alike.
async fn bench(database: &Database) -> Bench {
    let bench = Bench::new(database).await;
    let spans = [
        span(
            1,
            0,
            2,
            "POST /checkout",
            &json!({ "http.route": "/checkout", "http.response.status_code": 201 }),
        ),
        span(2, 1, 3, "POST", &json!({ "peer.service": "payment", "http.response.status_code": 402 })),
        span(3, 1, 3, "SELECT", &json!({ "db.system": "mysql" })),
        span(4, 1, 3, "SELECT", &json!({ "db.system": "mysql" })),
    ];
    let resource =
        json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "gateway" } }] });
    let body = json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": spans }] }] });
    let headers = [("content-type", "application/json")];
    let sent = bench.send(Method::POST, "/v1/traces", &headers, &body.to_string()).await;
    assert_eq!(sent.status, StatusCode::OK, "{}", sent.text);
    bench
}

/// Runs a test that judges the trace.
async fn run(bench: &Bench) {
    let trigger = json!({ "type": "traceid", "traceid": { "id": TRACE } });
    let output =
        json!({ "name": "SYSTEM", "selector": "span[db.system exists]:first", "value": "attr:db.system" });
    let spec = json!({ "id": "t", "name": "t", "trigger": trigger, "outputs": [output] });
    let test = json!({ "type": "Test", "spec": spec });
    assert_eq!(bench.put("/api/tests", &test).await.status, StatusCode::CREATED);
    assert_eq!(bench.post("/api/tests/t/run", &json!({})).await.status, StatusCode::OK);
    eventually(DEADLINE, "the run ends", async || {
        let run = bench.get("/api/tests/t/run/1").await.json();
        if run["state"] == "FINISHED" { Ok(()) } else { Err(run["state"].to_string()) }
    })
    .await;
}

/// The bodies of a request that must succeed.
async fn ask(bench: &Bench, path: &str, body: &Value) -> Value {
    let got = bench.post(path, body).await;
    assert_eq!(got.status, StatusCode::OK, "{path} {body}: {}", got.text);
    got.json()
}

/// The text after the first completion.
fn applied(text: &str, answer: &Value) -> String {
    let item = &answer["items"][0];
    let units: Vec<u16> = text.encode_utf16().collect();
    let place = |name: &str| usize::try_from(item[name].as_u64().unwrap()).unwrap();
    let (before, after) = (&units[..place("from")], &units[place("to")..]);
    let text = |units: &[u16]| String::from_utf16(units).unwrap();
    format!("{}{}{}", text(before), item["insert"].as_str().unwrap(), text(after))
}

async fn a_trace_and_a_run_help_while_writing(database: &Database) {
    let bench = bench(database).await;
    run(&bench).await;
    let complete = async |text: &str, form: &str, of: Value| {
        let mut body = json!({ "text": text, "at": text.encode_utf16().count(), "in": form });
        body.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
        ask(&bench, COMPLETE, &body).await
    };
    let of_trace = || json!({ "traceId": TRACE });
    let of_run = || json!({ "testId": "t", "run": 1 });
    for (text, form, of, expected) in [
        ("span[http.ro", "selector", of_trace(), "span[http.route"),
        ("span[peer.service = ", "selector", of_run(), "span[peer.service = \"payment\""),
        ("span[name = \"é🦀\" db.sy", "selector", of_trace(), "span[name = \"é🦀\" db.system"),
        (
            "attr:http.response.status_code = 4",
            "assertion",
            of_trace(),
            "attr:http.response.status_code = 402",
        ),
        ("http://x/${var:S", "template", of_run(), "http://x/${var:SYSTEM"),
        ("uu", "expression", json!({}), "uuid()"),
        (
            "type: Test\nspec:\n  specs:\n  - selector: 'span[http.ro",
            "definition",
            of_trace(),
            "type: Test\nspec:\n  specs:\n  - selector: 'span[http.route",
        ),
    ] {
        assert_eq!(applied(text, &complete(text, form, of).await), expected);
    }

    let checked = ask(&bench, CHECK, &json!({ "text": "span[🦀=1]", "in": "selector" })).await;
    let diagnostic = &checked["diagnostics"][0];
    assert_eq!(
        (&diagnostic["code"], &diagnostic["severity"]),
        (&json!("expected-attribute"), &json!("error"))
    );
    assert_eq!((&diagnostic["from"], &diagnostic["to"]), (&json!(5), &json!(7)));
    let last = checked["tokens"].as_array().unwrap().last().unwrap();
    assert_eq!(last, &json!({ "kind": "punctuation", "from": 9, "to": 10 }));

    let text = "type: Test\nspec:\n  name: 🦀\n  specs:\n  - selector: span[=1]\n";
    let checked = ask(&bench, CHECK, &json!({ "text": text, "in": "definition" })).await;
    let found = checked["diagnostics"].as_array().unwrap();
    let found = found.iter().find(|one| one["code"] == "expected-attribute").unwrap();
    let place = text[..text.find("=1").unwrap()].encode_utf16().count();
    assert_eq!(found["from"], place);
    assert_eq!(checked["tokens"], json!([]));

    for path in [format!("/api/traces/{TRACE}/describe"), "/api/tests/t/run/1/describe".to_owned()] {
        let described = ask(&bench, &path, &json!({ "spanId": "0000000000000002" })).await;
        assert_eq!(described["selector"], r#"span[name="POST"]"#);
        let of_service = described["alternatives"].as_array().unwrap().iter();
        let of_service = of_service.filter(|one| one["selector"] == r#"span[service.name="gateway"]"#);
        assert_eq!(of_service.map(|one| &one["count"]).collect::<Vec<_>>(), [&json!(4)]);
        let first = json!({
            "assertion": "attr:http.response.status_code = 402", "left": "attr:http.response.status_code",
            "comparator": "=", "expected": "402", "type": "number",
        });
        assert_eq!(described["assertions"][0], first);
        let twin = json!({ "spanId": "0000000000000004", "attribute": "db.system" });
        let twin = ask(&bench, &path, &twin).await;
        assert_eq!(twin["selector"], r#"span[name="SELECT"]:last"#);
        assert_eq!(twin["assertions"][0]["assertion"], r#"attr:db.system = "mysql""#);
    }

    let drafted = ask(&bench, &format!("/api/traces/{TRACE}/test"), &json!({})).await;
    let drafted = drafted["definition"].as_str().unwrap();
    assert!(drafted.contains("gateway makes 2 database calls"), "{drafted}");
    let headers = [("content-type", "text/yaml")];
    let stored = bench.send(Method::POST, "/api/tests", &headers, drafted).await;
    assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text);
    let from = json!({ "spanId": "0000000000000002" });
    let drafted = ask(&bench, &format!("/api/traces/{TRACE}/test"), &from).await;
    assert!(
        drafted["definition"].as_str().unwrap().starts_with("type: Test\nspec:\n  name: POST\n"),
        "{drafted}"
    );
    bench.server.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_with_the_reason() {
    let bench = bench(&Database::memory()).await;
    let trigger =
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/x" } });
    let spec = json!({ "id": "u", "name": "u", "trigger": trigger });
    assert_eq!(
        bench.put("/api/tests", &json!({ "type": "Test", "spec": spec })).await.status,
        StatusCode::CREATED
    );
    let none = "0123456789abcdef0123456789abcdef";
    let text = |at: u64| json!({ "text": "é🦀", "at": at, "in": "selector" });
    let with = |name: &str, value: Value| {
        let mut body = json!({ "text": "", "at": 0, "in": "selector" });
        body[name] = value;
        body
    };
    let span = |id: &str| json!({ "spanId": id });
    let refused: [(&str, Value, u16, &str); 21] = [
        (COMPLETE, text(4), 400, "behind the end of the text at 3"),
        (COMPLETE, text(2), 400, "in the middle of a character"),
        (COMPLETE, with("traceId", json!(none)), 404, "no span of trace"),
        (COMPLETE, with("traceId", json!("x")), 400, ""),
        (COMPLETE, with("testId", json!("u")), 400, "`testId` and `run`"),
        (COMPLETE, with("in", json!("prose")), 400, "prose"),
        (COMPLETE, with("odd", json!(1)), 400, "odd"),
        (COMPLETE, json!([]), 400, "must be a JSON object"),
        (
            COMPLETE,
            json!({ "text": "", "at": 0, "in": "selector", "testId": "u", "run": 7 }),
            404,
            "no run 7",
        ),
        (COMPLETE, json!({ "text": "", "at": -1, "in": "selector" }), 400, ""),
        (CHECK, json!({ "in": "selector" }), 400, "text"),
        (CHECK, json!({ "text": "x".repeat(1024 * 1024 + 1), "in": "template" }), 413, "1048576"),
        (&format!("/api/traces/{none}/describe"), span("0000000000000001"), 404, "no span of trace"),
        (&format!("/api/traces/{TRACE}/describe"), span("00000000000000ff"), 404, "no span 00000000000000ff"),
        (&format!("/api/traces/{TRACE}/describe"), span("x"), 400, "spanId"),
        ("/api/traces/x/describe", span("0000000000000001"), 400, ""),
        (&format!("/api/traces/{none}/test"), json!({}), 404, "no span of trace"),
        (&format!("/api/traces/{TRACE}/test"), span("00000000000000ff"), 404, "no span 00000000000000ff"),
        (&format!("/api/traces/{TRACE}/test"), json!([]), 400, "must be a JSON object"),
        ("/api/tests/u/run/7/describe", span("0000000000000001"), 404, "no run 7"),
        ("/api/tests/u/run/x/describe", span("0000000000000001"), 400, "no number"),
    ];
    for (path, body, status, reason) in refused {
        let got: Got = bench.post(path, &body).await;
        assert_eq!(
            got.status.as_u16(),
            status,
            "{path} {}: {}",
            got.text,
            &body.to_string()[..60.min(body.to_string().len())]
        );
        let error = got.json();
        assert_eq!(error["code"], status, "{path}");
        assert!(error["error"].as_str().unwrap().contains(reason), "{path}: {error}");
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_mebibyte_of_text_is_answered() {
    let bench = bench(&Database::memory()).await;
    let large = |part: &str| part.repeat(1024 * 1024 / part.len());
    for (part, form) in [
        ("span[name = \"é\"], ", "selector"),
        ("${", "template"),
        ("(", "assertion"),
        ("🦀 ", "expression"),
        ("attr:a + ", "expression"),
        ("- ", "definition"),
        ("type: Test\nspec:\n", "definition"),
        ("- selector: span[\n  ", "definition"),
    ] {
        let text = large(part);
        let checked = ask(&bench, CHECK, &json!({ "text": text, "in": form })).await;
        assert!(checked["tokens"].as_array().unwrap().len() <= 100_000, "{part}");
        assert!(checked["diagnostics"].as_array().unwrap().len() <= 100, "{part}");
        let at = text.encode_utf16().count();
        let body = json!({ "text": text, "at": at, "in": form, "traceId": TRACE });
        assert!(ask(&bench, COMPLETE, &body).await["items"].as_array().unwrap().len() <= 100, "{part}");
    }
    bench.server.shutdown().await;
}
