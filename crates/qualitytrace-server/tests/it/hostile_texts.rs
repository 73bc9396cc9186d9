//! Long and deeply nested texts over the API: each gets a response, and the server continues.

use reqwest::StatusCode;
use serde_json::json;

use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(
    long_and_deep_texts_are_answered,
    settings_are_read_back_under_any_id,
    what_is_stored_can_be_asked_for_again,
);

async fn long_and_deep_texts_are_answered(database: &Database) {
    let bench = Bench::new(database).await;
    let resolved = |expression: String| {
        let bench = &bench;
        async move { bench.post("/api/expressions/resolve", &json!({ "expression": expression })).await }
    };
    let sum = resolved(vec!["1"; 5_000].join(" + ")).await;
    assert_eq!((sum.status, sum.text.contains("5000")), (StatusCode::OK, true), "{}", sum.text);
    let filtered = resolved(format!("'a'{}", " | get_index 0".repeat(5_000))).await;
    assert_eq!(filtered.status, StatusCode::OK, "{}", filtered.text);
    let deep = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
    let unions = format!("'{deep}' | json_path \"$..{}\"", "['a','a']..".repeat(40) + "a");
    for refused in [unions, format!("{}1{}", "(".repeat(50_000), ")".repeat(50_000))] {
        let got = resolved(refused).await;
        assert_eq!(got.status, StatusCode::BAD_REQUEST, "{}", got.text);
    }
    let selector = vec!["span[name = \"a\"]"; 20_000].join(" ");
    let spec = json!({ "selector": selector, "assertions": ["attr:name = \"a\""] });
    let trigger = json!({ "type": "traceid", "traceid": { "id": "${var:T}" } });
    let test =
        json!({ "type": "Test", "spec": { "id": "t", "name": "t", "trigger": trigger, "specs": [spec] } });
    let got = bench.post("/api/tests", &test).await;
    assert_eq!(got.status, StatusCode::BAD_REQUEST, "{}", got.text);
    assert!(got.text.contains("nested more than 48 levels deep"), "{}", got.text);
    assert_eq!(bench.get("/api/tests").await.status, StatusCode::OK);
    bench.server.shutdown().await;
}

async fn what_is_stored_can_be_asked_for_again(database: &Database) {
    let bench = Bench::new(database).await;
    let trigger = json!({ "type": "traceid", "traceid": { "id": "${var:T}" } });
    let test =
        |id: &str| json!({ "type": "Test", "spec": { "id": id, "name": "t", "trigger": trigger.clone() } });
    for id in ["a".repeat(257), "ä".repeat(129), "a\u{7f}".to_owned()] {
        let got = bench.post("/api/tests", &test(&id)).await;
        assert_eq!(got.status, StatusCode::BAD_REQUEST, "{}", got.text);
        assert!(got.text.contains("an id has at most 256 bytes"), "{}", got.text);
    }
    let longest = "ä".repeat(128);
    assert_eq!(bench.post("/api/tests", &test(&longest)).await.status, StatusCode::CREATED);
    assert_eq!(bench.get(&format!("/api/tests/{longest}")).await.status, StatusCode::OK);
    let patterns = (0..100).map(|at| {
        json!({ "selector": format!("span[name =~ \"(a{{99}}){{{}}}\"]", 900 + at), "assertions": ["1 = 1"] })
    });
    let mut large = test("patterns");
    large["spec"]["specs"] = patterns.collect();
    let got = bench.post("/api/tests", &large).await;
    assert_eq!(got.status, StatusCode::BAD_REQUEST, "{}", got.text);
    assert!(got.text.contains("it is too large"), "{}", got.text);
    bench.server.shutdown().await;
}

async fn settings_are_read_back_under_any_id(database: &Database) {
    let bench = Bench::new(database).await;
    let spec = json!({
        "name": "Mine", "strategy": "periodic", "default": true,
        "periodic": { "timeout": "7s", "retryDelay": "1s" },
    });
    let put =
        bench.put("/api/pollingprofiles/mine", &json!({ "type": "PollingProfile", "spec": spec })).await;
    assert_eq!(put.status, StatusCode::OK, "{}", put.text);
    for id in ["mine", "current"] {
        let got = bench.get(&format!("/api/pollingprofiles/{id}")).await;
        assert!(got.text.contains("\"7s\""), "{id}: {}", got.text);
    }
    bench.server.shutdown().await;
}
