//! Request bodies: content codings, numbers out of range, duplicate keys.

use std::io::Write as _;

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(a_coding_is_known_in_any_case_or_refused, numbers_and_keys_that_cannot_be_meant_are_named);

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

async fn a_coding_is_known_in_any_case_or_refused(database: &Database) {
    let bench = Bench::new(database).await;
    for (path, coding, status) in [
        ("/v1/traces", "gzip", StatusCode::OK),
        ("/v1/traces", "GZIP", StatusCode::OK),
        ("/v1/logs", "X-Gzip", StatusCode::OK),
        ("/v1/traces", "br", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("/api/tests", "gzip", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("/api/expressions/resolve", "GZip", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        let request = bench.client.request(Method::POST, format!("{}{path}", bench.base));
        let request = request.header("content-type", "application/json").header("content-encoding", coding);
        let got = request.body(gzipped("{}")).send().await.unwrap();
        assert_eq!(got.status(), status, "{path} {coding}");
        if path.starts_with("/api") {
            assert_eq!(got.headers()["accept-encoding"], "identity");
            let told = got.text().await.unwrap();
            assert!(told.contains("Content-Encoding"), "{told}");
        }
    }
    let headers = [("content-encoding", "Identity"), ("content-type", "application/json")];
    let got = bench.send(Method::POST, "/api/expressions/resolve", &headers, r#"{"expression":"1"}"#).await;
    assert_eq!(got.status, StatusCode::OK, "{}", got.text);
    bench.server.shutdown().await;
}

async fn numbers_and_keys_that_cannot_be_meant_are_named(database: &Database) {
    let bench = Bench::new(database).await;
    let test = |retries: &str| {
        let trigger = json!({ "type": "http", "httpRequest": { "url": "http://127.0.0.1:9/" } });
        format!(r#"{{"type":"Test","spec":{{"id":"t","name":"t","retries":{retries},"trigger":{trigger}}}}}"#)
    };
    for (retries, told) in [
        ("1e400", "the number 1e400 is too large"),
        ("99999999999999999999", "and 99999999999999999999 is larger"),
        ("1e", "a value should stand here"),
        ("2001", "`retries` takes a number from 0 to 1000, not 2001"),
    ] {
        let got = bench.send(Method::PUT, "/api/tests", &[], &test(retries)).await;
        assert_eq!(got.status, StatusCode::BAD_REQUEST, "{retries}: {}", got.text);
        assert!(got.text.contains(told), "{retries}: {}", got.text);
    }
    let twice = r#"{"expression":"1","expression":"2"}"#;
    let got = bench.send(Method::POST, "/api/expressions/resolve", &[], twice).await;
    assert_eq!(got.status, StatusCode::BAD_REQUEST, "{}", got.text);
    assert!(got.text.contains("duplicate field `expression`"), "{}", got.text);
    // Clients write null for missing values.
    let nulls = r#"{"expression":"1","context":null}"#;
    let got = bench.send(Method::POST, "/api/expressions/resolve", &[], nulls).await;
    assert_eq!(got.status, StatusCode::OK, "{}", got.text);
    bench.server.shutdown().await;
}
