//! What clients send that nobody here wrote: odd characters, odd bodies, odd encodings.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(
    a_nul_is_neither_stored_nor_found,
    bodies_that_are_no_objects_are_refused,
    text_beyond_ascii_says_how_it_is_encoded,
);

async fn a_nul_is_neither_stored_nor_found(database: &Database) {
    let bench = Bench::new(database).await;
    for (path, status) in [
        ("/api/tests/%00", StatusCode::NOT_FOUND),
        ("/api/tests/%00/source", StatusCode::NOT_FOUND),
        ("/api/tests/%00/run", StatusCode::NOT_FOUND),
        ("/api/tests/%00/run/1", StatusCode::NOT_FOUND),
        ("/api/tests/%00/run/1/events/stream", StatusCode::NOT_FOUND),
        ("/api/testsuites/%00/run/1", StatusCode::NOT_FOUND),
        ("/api/tests/%00/run/1/events", StatusCode::OK),
        ("/api/tests?query=%00", StatusCode::BAD_REQUEST),
        ("/api/resources?query=%00", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(bench.get(path).await.status, status, "{path}");
    }
    assert_eq!(bench.send(Method::DELETE, "/api/tests/%00", &[], "").await.status, StatusCode::NOT_FOUND);
    assert_eq!(bench.send(Method::POST, "/api/tests/%00/run/1/stop", &[], "").await.status, StatusCode::OK);
    for (collection, spec) in [
        (
            "tests",
            json!({ "id": "t", "name": "a\0", "trigger": { "type": "traceid", "traceid": { "id": "x" } } }),
        ),
        ("variablesets", json!({ "id": "v", "name": "a", "description": "\0" })),
        ("demos", json!({ "id": "d", "name": "a", "type": "\0" })),
        ("datastores", json!({ "name": "\0", "type": "otlp" })),
    ] {
        let refused = bench.put(&format!("/api/{collection}"), &json!({ "spec": spec })).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
        assert!(refused.text.contains("U+0000"), "{}", refused.text);
    }
    // A value is not asked for by its text.
    let values = json!([{ "key": "K", "value": "a\0b" }]);
    let stored = bench
        .put("/api/variablesets", &json!({ "spec": { "id": "v", "name": "V", "values": values } }))
        .await;
    assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text);
    assert_eq!(bench.get("/api/variablesets/v").await.json()["spec"]["values"], values);
    let suite = json!({ "spec": { "id": "s", "name": "S", "steps": ["\0"] } });
    assert_eq!(bench.put("/api/testsuites", &suite).await.status, StatusCode::CREATED);
    let augmented = [("x-tracetest-augmented", "true")];
    let shown = bench.send(Method::GET, "/api/testsuites/s", &augmented, "").await;
    assert_eq!(shown.status, StatusCode::OK, "{}", shown.text);
    bench.server.shutdown().await;
}

async fn bodies_that_are_no_objects_are_refused(database: &Database) {
    let bench = Bench::new(database).await;
    let trigger = json!({ "type": "traceid", "traceid": { "id": "x" } });
    let test = json!({ "spec": { "id": "t", "name": "T", "trigger": trigger, "skipTraceCollection": true } });
    assert_eq!(bench.put("/api/tests", &test).await.status, StatusCode::CREATED);
    for (body, told) in [
        ("", "\"EOF\"\n"),
        ("  ", "\"EOF\"\n"),
        ("{", "\"unexpected EOF\"\n"),
        ("[]", "\"json: cannot unmarshal array, an object is expected\"\n"),
        ("\"x\"", "\"json: cannot unmarshal string, an object is expected\"\n"),
        ("7", "\"json: cannot unmarshal number, an object is expected\"\n"),
        ("true", "\"json: cannot unmarshal bool, an object is expected\"\n"),
    ] {
        let refused = bench.send(Method::POST, "/api/tests/t/run", &[], body).await;
        assert_eq!((refused.status, refused.text.as_str()), (StatusCode::BAD_REQUEST, told), "{body}");
    }
    assert_eq!(bench.send(Method::POST, "/api/tests/t/run", &[], "null").await.status, StatusCode::OK);
    bench.server.shutdown().await;
}

async fn text_beyond_ascii_says_how_it_is_encoded(database: &Database) {
    let bench = Bench::new(database).await;
    for (name, content_type) in [("plain", "text/yaml"), ("grün", "text/yaml; charset=utf-8")] {
        let yaml = format!("type: VariableSet\nspec:\n  id: v\n  name: {name}\n");
        let stored =
            bench.send(Method::PUT, "/api/variablesets", &[("content-type", "text/yaml")], &yaml).await;
        assert_eq!(stored.headers["content-type"], content_type);
        assert!(stored.text.contains(name), "{}", stored.text);
        let source = bench.get("/api/variablesets/v/source").await;
        assert_eq!((source.headers["content-type"].to_str().unwrap(), source.text), (content_type, yaml));
    }
    let shown = bench.get("/api/variablesets/v").await;
    assert_eq!(shown.headers["content-type"], "application/json");
    // What other readers of YAML refuse is not taken in either.
    let odd = "type: VariableSet\nspec:\n  id: v\n  name: \"a\u{7}\"\n";
    let refused = bench.send(Method::PUT, "/api/variablesets", &[("content-type", "text/yaml")], odd).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text.contains("line 4, column 11"), "{}", refused.text);
    bench.server.shutdown().await;
}
