//! Data that an older version stored and this one would refuse: it does not stop the server.

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::{AnyConnection, Connection as _};

use crate::api::Bench;
use crate::databases::Database;

fn test(id: &str, specs: &Value) -> Value {
    let trigger =
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/x" } });
    json!({ "id": id, "name": id, "trigger": trigger, "skipTraceCollection": true, "specs": specs })
}

/// Specs that were valid once.
fn poisons() -> [(&'static str, Value); 3] {
    let assertion = |text: String| json!([{ "selector": "span[name = \"a\"]", "assertions": [text] }]);
    let selector = vec!["span[name = \"a\"]"; 20_000].join(" ");
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    [
        ("parts", json!([{ "selector": selector, "assertions": ["attr:name = \"a\""] }])),
        ("pipes", assertion(format!("attr:name{} = 1", " | length".repeat(5_000)))),
        ("brackets", assertion(format!("'{deep}' | json_path '$..a' = 1"))),
    ]
}

async fn ended(bench: &Bench, test: &str) {
    let path = format!("/api/tests/{test}/run/1");
    eventually(DEADLINE, format!("the run of {test} ends"), async || {
        let run = bench.get(&path).await.json();
        if run["state"] == "TRIGGER_FAILED" { Ok(()) } else { Err(run["state"].to_string()) }
    })
    .await;
}

/// Writes the data as a version without limits would have stored it.
async fn poison(database: &Database, id: &str, specs: &Value) {
    let mut connection = AnyConnection::connect(&database.url).await.unwrap();
    let spec = test(id, specs);
    let text = json!({ "type": "Test", "spec": spec }).to_string();
    let deep = format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
    for (statement, value) in [
        ("UPDATE definitions SET format = 'json', text = $1 WHERE id = $2", text),
        ("UPDATE resources SET spec = $1 WHERE id = $2", spec.to_string()),
        ("UPDATE runs SET variables = $1 WHERE test_id = $2", deep.clone()),
        ("UPDATE run_events SET body = $1 WHERE test_id = $2 AND seq = 2", deep),
    ] {
        let changed = sqlx::query(statement).bind(value).bind(id).execute(&mut connection).await.unwrap();
        assert!(changed.rows_affected() > 0, "{statement}");
    }
    connection.close().await.unwrap();
}

#[tokio::test]
async fn what_an_older_version_stored_is_read_listed_judged_again_and_removed() {
    let database = Database::file();
    let bench = Bench::new(&database).await;
    for (id, _) in poisons() {
        let stored = bench.put("/api/tests", &json!({ "type": "Test", "spec": test(id, &json!([])) })).await;
        assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text);
        assert_eq!(bench.post(&format!("/api/tests/{id}/run"), &json!({})).await.status, StatusCode::OK);
        ended(&bench, id).await;
    }
    bench.server.shutdown().await;
    sqlx::any::install_default_drivers();
    for (id, specs) in poisons() {
        poison(&database, id, &specs).await;
    }

    let bench = Bench::new(&database).await;
    let listed = bench.get("/api/tests").await;
    assert_eq!((listed.status, listed.json()["count"].as_u64()), (StatusCode::OK, Some(3)));
    for (id, specs) in poisons() {
        let of = |rest: &str| format!("/api/tests/{id}{rest}");
        for path in [
            "",
            "/definition",
            "/version/1",
            "/run",
            "/run/1",
            "/run/1/events",
            "/run/1/junit.xml",
            "/run/1/export",
            "/run/1/select?query=span",
        ] {
            let got = bench.get(&of(path)).await;
            assert!(!got.status.is_server_error(), "{id}{path}: {} {:.200}", got.status, got.text);
        }
        let dry = bench.put(&of("/run/1/dry-run"), &json!({ "specs": specs })).await;
        assert!(dry.status.is_client_error(), "{id}: {} {:.200}", dry.status, dry.text);
        for path in ["/run/1/rerun", "/run"] {
            let got = bench.post(&of(path), &json!({})).await;
            assert!(!got.status.is_server_error(), "{id}{path}: {} {:.200}", got.status, got.text);
        }
        let removed = bench.send(Method::DELETE, &of("/run/1"), &[], "").await;
        assert_eq!(removed.status, StatusCode::NO_CONTENT, "{id}: {}", removed.text);
        let removed = bench.send(Method::DELETE, &of(""), &[], "").await;
        assert_eq!(removed.status, StatusCode::NO_CONTENT, "{id}: {}", removed.text);
    }
    assert_eq!(bench.get("/healthz").await.status, StatusCode::OK);
    bench.server.shutdown().await;
}
