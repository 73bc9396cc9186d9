//! Warnings about secrets that are sent over TLS without verifying the receiver.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::full_queue::put;
use crate::late_spans_load::program::Served;
use crate::program;

fn test(url: &str) -> Value {
    let auth = json!({ "type": "bearer", "bearer": { "token": "Bearer geheim-token" } });
    let request = json!({ "method": "GET", "url": url, "auth": auth });
    let trigger = json!({ "type": "http", "httpRequest": request });
    let specs = json!([{ "selector": "span[]", "assertions": ["attr:tracetest.response.status = 200"] }]);
    let spec =
        json!({ "id": "t", "name": "t", "trigger": trigger, "skipTraceCollection": true, "specs": specs });
    json!({ "type": "Test", "spec": spec })
}

#[tokio::test]
async fn a_secret_sent_unverified_is_warned_of_in_run_log_report_and_check() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let closed = qualitytrace_testing::port();
    let test = test(&format!("https://localhost:{closed}/x"));
    let said = format!("a secret is sent to `localhost:{closed}` over TLS without verifying its certificate");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("test.json"), test.to_string()).unwrap();
    let mut server = Served::start(program(), "sqlite::memory:", &[]).await;
    let command = async |arguments: &[&str]| {
        let output =
            Command::new(program()).args(arguments).current_dir(folder.path()).output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, checked) = command(&["check", "test.json", "--strict"]).await;
    assert_eq!(code, Some(0), "{checked}");
    assert!(checked.contains(&said), "{checked}");
    let (_, report) = command(&["run", "test.json", "--server", &server.url("")]).await;
    assert!(report.replace('\n', " ").contains("a secret is sent to"), "{report}");
    server.logged(&said).await;
    let client = crate::client();
    let events = client.get(server.url("/api/tests/t/run/1/events/stream")).send().await.unwrap();
    let events = events.text().await.unwrap();
    assert!(events.contains(&said), "{events}");

    // Where the server requires verification, there is no warning.
    let demanding =
        Served::start(program(), "sqlite::memory:", &["--trigger.verifyCertificates", "true"]).await;
    put(&client, &demanding, &test).await;
    let (_, report) = command(&["run", "test.json", "--server", &demanding.url("")]).await;
    assert!(!report.contains("a secret is sent to"), "{report}");
}
