//! Imported runs: shown as they were on their server, judged again by the test here.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(an_imported_run_is_judged_again_by_what_its_test_says_now);

/// Builds a test that calls the server itself, which responds with 200.
fn test(bench: &Bench, id: &str, expected: u16) -> Value {
    let request = json!({ "method": "GET", "url": format!("{}/healthz", bench.base) });
    let assertion = format!("attr:tracetest.response.status = {expected}");
    json!({ "type": "Test", "spec": {
        "id": id, "name": "Health", "skipTraceCollection": true,
        "trigger": { "type": "http", "httpRequest": request },
        "specs": [{ "selector": "span[tracetest.span.type = \"general\"]", "assertions": [assertion] }],
    } })
}

async fn an_imported_run_is_judged_again_by_what_its_test_says_now(database: &Database) {
    let bench = Bench::new(database).await;
    bench.put("/api/tests", &test(&bench, "here", 200)).await;
    let variables = json!([{ "key": "A", "value": "b" }]);
    bench.post("/api/tests/here/run", &json!({ "variables": variables })).await;
    bench.get("/api/tests/here/run/1/events/stream").await;
    let mut travels = bench.get("/api/tests/here/run/1/export").await.json();
    assert_eq!(travels["run"]["result"]["allPassed"], true, "{travels:#}");
    travels["test"]["id"] = "there".into();
    let imported = bench.post("/api/tests/import", &travels).await;
    assert_eq!(imported.status, StatusCode::OK, "{}", imported.text);

    let listed = bench.get("/api/tests/there/run").await.json();
    assert_eq!(listed[0]["trace"], bench.get("/api/tests/here/run").await.json()[0]["trace"]);
    let shown = bench.get("/api/tests/there/run/1").await.json();
    assert_eq!(shown, travels["run"]);
    let report = bench.get("/api/tests/there/run/1/junit.xml").await.text;
    assert_eq!(report, bench.get("/api/tests/here/run/1/junit.xml").await.text);
    assert!(report.contains("tests=\"1\" failures=\"0\""), "{report}");
    let augmented = [("x-qualitytrace-augmented", "true")];
    let known = bench.send(Method::GET, "/api/tests/there", &augmented, "").await.json();
    assert_eq!(known["spec"]["summary"]["lastRun"]["passes"], 1, "{known:#}");

    bench.put("/api/tests/there", &test(&bench, "there", 500)).await;
    let again = bench.post("/api/tests/there/run/1/rerun", &json!({})).await.json();
    assert_eq!((&again["state"], &again["testVersion"]), (&json!("CREATED"), &json!(2)));
    let judged = bench.get("/api/tests/there/run/2").await.json();
    assert_eq!((&judged["state"], &judged["testVersion"]), (&json!("FINISHED"), &json!(2)), "{judged:#}");
    assert_ne!(judged["result"]["allPassed"], true);
    assert_ne!(judged["createdAt"], shown["createdAt"]);
    for same in ["trace", "traceId", "triggerResult", "resolvedTrigger", "variableSet"] {
        assert_eq!(judged[same], shown[same], "{same}");
    }
    let report = bench.get("/api/tests/there/run/2/junit.xml").await.text;
    assert!(report.contains("tests=\"1\" failures=\"1\""), "{report}");
    // Again, from the run that was judged here.
    bench.put("/api/tests/there", &test(&bench, "there", 200)).await;
    bench.post("/api/tests/there/run/2/rerun", &json!({})).await;
    let last = bench.get("/api/tests/there/run/3").await.json();
    assert_eq!((&last["result"]["allPassed"], &last["trace"]), (&json!(true), &shown["trace"]), "{last:#}");
    bench.server.shutdown().await;
}
