//! The served `OpenAPI` description is the committed one.

use crate::api::Bench;
use crate::databases::Database;

#[tokio::test]
async fn the_committed_description_is_the_one_that_is_served() {
    let bench = Bench::new(&Database::memory()).await;
    let served = bench.get("/api/openapi.json").await.json();
    let mut ids: Vec<String> = Vec::new();
    for (path, operations) in served["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(!ids.contains(&id), "{method} {path} has the id of another operation, {id}");
            ids.push(id);
        }
    }
    let served = format!("{}\n", serde_json::to_string_pretty(&served).unwrap());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    if std::env::var_os("QUALITYTRACE_UPDATE").is_some() {
        std::fs::write(path, &served).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == served,
        "docs/openapi.json is out of date; set QUALITYTRACE_UPDATE=1 and run this test again"
    );
    bench.server.shutdown().await;
}
