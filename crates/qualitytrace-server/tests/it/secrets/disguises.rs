//! A system under test that returns a secret in another encoding: it is redacted, too.

use axum::Router;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;

use super::{Bench, MASK};
use crate::databases::{Database, on_every_database};

on_every_database!(a_reply_hides_a_secret_in_every_disguise);

const PLAIN: &str = "topsecretvalue123";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Returns each encoding of the secret, by name.
fn disguises() -> Vec<(&'static str, String)> {
    let each =
        |format: fn(u8) -> String, between: &str| PLAIN.bytes().map(format).collect::<Vec<_>>().join(between);
    let wide: Vec<u8> = PLAIN.encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        ("prefixed hex", each(|byte| format!("0x{byte:02x}"), " ")),
        ("hex escapes", each(|byte| format!("\\x{byte:02x}"), "")),
        ("mail", each(|byte| format!("={byte:02X}"), "")),
        ("octal", each(|byte| format!("\\{byte:03o}"), "")),
        ("long escapes", each(|byte| format!("\\U{byte:08x}"), "")),
        ("braced escapes", each(|byte| format!("\\u{{{byte:x}}}"), "")),
        ("bytes", format!("[{}]", each(|byte| byte.to_string(), ", "))),
        ("wide hex", hex(&wide)),
        ("wide base64", STANDARD.encode(&wide)),
        ("thrice", STANDARD.encode(STANDARD.encode(STANDARD.encode(PLAIN)))),
        ("percent in base64", STANDARD.encode(each(|byte| format!("%{byte:02X}"), ""))),
        ("escapes in base64", STANDARD.encode(each(|byte| format!("\\u{byte:04x}"), ""))),
        ("capitals in base64", STANDARD.encode(PLAIN.to_uppercase())),
        ("capitals in hex", hex(PLAIN.to_uppercase().as_bytes())),
        ("base32", "ORXXA43FMNZGK5DWMFWHKZJRGIZQ====".to_owned()),
        ("hex of base64", hex(STANDARD.encode(PLAIN).as_bytes())),
    ]
}

async fn a_reply_hides_a_secret_in_every_disguise(database: &Database) {
    let bench = Bench::new(database).await;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let lines: Vec<String> =
        disguises().into_iter().map(|(name, said)| format!("({name}) {said} (over)")).collect();
    let said = lines.join("\n");
    let router = Router::new().fallback(move || std::future::ready(said.clone()));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let request = json!({ "method": "GET", "url": format!("http://{address}/?q=${{var:SAID}}") });
    let test = json!({ "type": "Test", "spec": {
        "id": "echo", "name": "echo", "skipTraceCollection": true,
        "trigger": { "type": "http", "httpRequest": request },
        "outputs": [{ "name": "BODY", "selector": "span[]", "value": "attr:tracetest.response.body" }],
    } });
    bench.put("/api/tests", &test).await;
    let body = json!({ "variables": [{ "key": "SAID", "value": PLAIN, "type": "secret" }] });
    let (status, text) =
        bench.send(Method::POST, "/api/tests/echo/run", "application/json", &body.to_string()).await;
    assert!(status.is_success(), "{text}");
    let shown = bench.until_over(1).await;
    let reply = shown["variableSet"]["values"][1]["value"].as_str().unwrap_or_default();
    let export = bench.send(Method::GET, "/api/tests/echo/run/1/export", "application/json", "").await.1;
    for (name, said) in disguises() {
        let line = reply.lines().find(|line| line.starts_with(&format!("({name})"))).unwrap_or_default();
        assert!(line.contains(MASK), "{name}: `{line}` in {shown}");
        // The rest reveals nothing: a character at its end, a prefix, brackets.
        let left = line.replace(MASK, "");
        assert!(left.len() <= format!("({name})  (over)").len() + 6, "{name}: {line}");
        let middle = &said[said.len() / 2 - 4..said.len() / 2 + 4];
        for shown in [shown.to_string(), export.clone()] {
            assert!(!shown.contains(&json!(middle).to_string()[1..9]), "{name}: {middle} in {shown}");
        }
    }
    bench.server.shutdown().await;
}
