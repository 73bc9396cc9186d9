//! Kill -9 while spans arrive and a run is under way: what was acknowledged is there, what was under way is marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::program;
use crate::rough::program::Served;

#[tokio::test]
async fn sqlite_file_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    survives_kill_9(&format!("sqlite://{}", folder.path().join("kill.db").display())).await;
}

#[tokio::test]
async fn postgres_survives_kill_9() {
    if let Some(database) = fresh_database().await {
        survives_kill_9(&database).await;
    }
}

async fn survives_kill_9(database_url: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let mut server = Served::start(program(), database_url, &[]).await;
    let run = start_hanging_run(&client, &server).await;

    let acknowledged = Arc::new(AtomicU64::new(0));
    let sender = {
        let (client, acknowledged, url) =
            (client.clone(), Arc::clone(&acknowledged), server.url("/v1/traces"));
        tokio::spawn(async move {
            for number in 1.. {
                match client.post(&url).json(&request(number)).send().await {
                    Ok(answer) if answer.status() == 200 => acknowledged.store(number, Ordering::SeqCst),
                    Ok(answer) => panic!("refused: {}", answer.status()),
                    Err(_) => return,
                }
            }
        })
    };
    while acknowledged.load(Ordering::SeqCst) < 200 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.child.kill().await.unwrap();
    sender.await.unwrap();
    let acknowledged = acknowledged.load(Ordering::SeqCst);

    let server = Served::start(program(), database_url, &[]).await;
    for number in 1..=acknowledged {
        let answer = client.get(server.url(&format!("/api/traces/{number:032x}"))).send().await.unwrap();
        assert_eq!(answer.status(), 200, "trace {number} of {acknowledged} acknowledged ones is lost");
    }
    // The stream ends with the run, which other servers give up a few seconds after the last sign of life.
    let events =
        client.get(server.url(&format!("{run}/events/stream"))).send().await.unwrap().text().await.unwrap();
    assert!(events.contains(r#""what":"interrupted""#), "{events}");
    let interrupted: Value = client.get(server.url(&run)).send().await.unwrap().json().await.unwrap();
    assert_eq!(interrupted["state"], "FAILED");
}

/// A run whose trigger is never answered.
async fn start_hanging_run(client: &reqwest::Client, server: &Served) -> String {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            held.push(stream);
        }
    });
    let trigger =
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("http://{address}/") } });
    let test = json!({ "type": "Test", "spec": { "id": "hanging", "name": "Hanging", "trigger": trigger } });
    client.put(server.url("/api/tests")).json(&test).send().await.unwrap().error_for_status().unwrap();
    let started: Value = client
        .post(server.url("/api/tests/hanging/run"))
        .json(&json!({}))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    format!("/api/tests/hanging/run/{}", started["id"])
}

fn request(number: u64) -> Value {
    let span = json!({
        "traceId": format!("{number:032x}"), "spanId": format!("{number:016x}"), "name": "s", "kind": 2,
        "startTimeUnixNano": "1", "endTimeUnixNano": "2",
    });
    json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] })
}

/// A new database on the PostgreSQL of the tests; `None` when there is none.
#[expect(clippy::print_stdout, reason = "a test that is left out says so")]
pub(crate) async fn fresh_database() -> Option<String> {
    use sqlx::{AssertSqlSafe, Connection, Executor};
    let Ok(server) = std::env::var("QUALITYTRACE_TEST_POSTGRES") else {
        assert!(
            std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(),
            "QUALITYTRACE_TEST_POSTGRES is not set"
        );
        println!("skipped: QUALITYTRACE_TEST_POSTGRES is not set");
        return None;
    };
    sqlx::any::install_default_drivers();
    let name = format!("kill_{}", uuid::Uuid::new_v4().simple());
    let mut connection = sqlx::AnyConnection::connect(&server).await.unwrap();
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    let base = server.split('?').next().unwrap();
    Some(format!("{}/{name}", base.rsplit_once('/').unwrap().0))
}
