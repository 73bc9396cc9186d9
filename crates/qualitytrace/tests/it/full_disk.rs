//! A disk that is full for a while: acknowledged data is there, and later data is stored again.

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::StatusCode;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tokio::process::Child;

use crate::late_spans_load::program::Served;
use crate::program;

/// Sets the largest file that the server may write; `None` removes the limit.
fn limit_files(server: &Child, bytes: Option<u64>) {
    let id = Pid::from_raw(i32::try_from(server.id().unwrap()).unwrap());
    prlimit(id, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// Stores a variable set of some kilobytes, and spans; returns whether each was acknowledged.
pub(crate) async fn store(client: &reqwest::Client, server: &Served, number: u32) -> [bool; 2] {
    let id = format!("v{number}");
    let values = [json!({ "key": "K", "value": "x".repeat(20_000) })];
    let set = json!({ "type": "VariableSet", "spec": { "id": id, "name": id, "values": values } });
    let put = client.put(server.url("/api/variablesets")).json(&set).send().await.unwrap();
    let span = json!({
        "traceId": trace(number), "spanId": "00f067aa0ba902b7", "name": "work", "kind": 2,
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
    });
    let spans = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    let sent = client.post(server.url("/v1/traces")).json(&spans).send().await.unwrap();
    assert!(put.status() == 201 || put.status().is_server_error(), "{}", put.status());
    assert!(sent.status() == 200 || sent.status() == StatusCode::SERVICE_UNAVAILABLE, "{}", sent.status());
    [put.status() == 201, sent.status() == 200]
}

fn trace(number: u32) -> String {
    format!("{:032x}", u128::from(number) + 1)
}

/// Checks that everything acknowledged can be read.
pub(crate) async fn all_is_there(client: &reqwest::Client, server: &Served, acknowledged: &[[bool; 2]]) {
    for (number, [set, spans]) in (0u32..).zip(acknowledged) {
        for (was_stored, path) in [
            (*set, format!("/api/variablesets/v{number}")),
            (*spans, format!("/api/traces/{}", trace(number))),
        ] {
            let got = client.get(server.url(&path)).send().await.unwrap().status();
            assert!(!was_stored || got == StatusCode::OK, "{path} was acknowledged and is {got}");
        }
    }
}

#[tokio::test]
async fn what_is_acknowledged_while_the_disk_is_full_is_stored() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("full.db");
    let url = format!("sqlite://{}", database.display());
    let client = crate::client();
    let mut server = Served::start(program(), &url, &[]).await;
    let mut acknowledged = vec![store(&client, &server, 0).await];
    assert_eq!(acknowledged, [[true; 2]]);
    let log = std::fs::metadata(format!("{}-wal", database.display())).unwrap().len();
    limit_files(&server.child, Some(log + 100_000));
    for number in 1..30 {
        acknowledged.push(store(&client, &server, number).await);
    }
    assert!(acknowledged.iter().any(|[set, _]| !set), "the limit was never reached");
    all_is_there(&client, &server, &acknowledged).await;
    limit_files(&server.child, None);
    for number in 30..40 {
        let stored = store(&client, &server, number).await;
        assert_eq!(stored, [true; 2], "{number}");
        acknowledged.push(stored);
    }
    all_is_there(&client, &server, &acknowledged).await;
    server.child.kill().await.unwrap();
    let server = Served::start(program(), &url, &[]).await;
    all_is_there(&client, &server, &acknowledged).await;
}

#[tokio::test]
async fn a_run_that_ends_while_the_disk_is_full_ends_when_there_is_room() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("full.db");
    let client = crate::client();
    let mut server = Served::start(program(), &format!("sqlite://{}", database.display()), &[]).await;
    let profile = json!({ "strategy": "periodic", "periodic": { "retryDelay": "1s", "timeout": "5s" } });
    let trigger = json!({ "type": "traceid", "traceid": { "id": trace(7) } });
    let spec = json!({ "id": "t", "name": "T", "trigger": trigger, "pollingProfile": profile });
    let test = json!({ "type": "Test", "spec": spec });
    let put = client.put(server.url("/api/tests")).json(&test).send().await.unwrap();
    put.error_for_status().unwrap();
    let run = client.post(server.url("/api/tests/t/run")).json(&json!({})).send().await.unwrap();
    run.error_for_status().unwrap();
    let path = server.url("/api/tests/t/run/1");
    let is_in = async |state: &str| {
        let shown: Value = client.get(&path).send().await.unwrap().json().await.unwrap();
        let found = shown["state"].as_str().unwrap().to_owned();
        if found == state { Ok(()) } else { Err(found) }
    };
    eventually(DEADLINE, "the run waits for its trace", async || is_in("AWAITING_TRACE").await).await;
    limit_files(&server.child, Some(1));
    server.logged("a run waits for the database").await;
    limit_files(&server.child, None);
    eventually(DEADLINE, "the run ends", async || is_in("TRACE_FAILED").await).await;
}

#[tokio::test]
async fn a_database_whose_file_is_gone_acknowledges_nothing() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let (database, aside) = (folder.path().join("gone.db"), folder.path().join("aside.db"));
    let client = crate::client();
    let server = Served::start(program(), &format!("sqlite://{}", database.display()), &[]).await;
    assert_eq!(store(&client, &server, 0).await, [true; 2]);
    std::fs::rename(&database, &aside).unwrap();
    assert_eq!(store(&client, &server, 1).await, [false; 2]);
    let ready = client.get(server.url("/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), StatusCode::SERVICE_UNAVAILABLE);
    let told = ready.text().await.unwrap();
    assert!(told.contains("the database file is missing"), "{told}");
    assert!(!database.exists(), "it does not come back empty");
    std::fs::rename(&aside, &database).unwrap();
    assert_eq!(store(&client, &server, 2).await, [true; 2]);
    all_is_there(&client, &server, &[[true; 2], [false; 2], [true; 2]]).await;
}
