//! `kill -9` while spans arrive and a run is in progress: acknowledged data is there, the run is marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use qualitytrace_testing::{DEADLINE, eventually};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::late_spans_load::program::Served;
use crate::program;

/// Runs a check on a file of SQLite.
async fn on_sqlite(check: impl AsyncFnOnce(&str)) {
    let folder = tempfile::tempdir().unwrap();
    check(&format!("sqlite://{}", folder.path().join("kill.db").display())).await;
}

/// Runs a check on a database of PostgreSQL, if the environment names a server.
async fn on_postgres(check: impl AsyncFnOnce(&str)) {
    if let Some(database) = fresh_database().await {
        check(&database).await;
    }
}

#[tokio::test]
async fn sqlite_file_survives_kill_9() {
    on_sqlite(survives_kill_9).await;
}

#[tokio::test]
async fn postgres_survives_kill_9() {
    on_postgres(survives_kill_9).await;
}

#[tokio::test]
async fn a_second_server_on_one_sqlite_file_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("one.db").display());
    let mut first = Served::start(program(), &database, &[]).await;
    let second = || {
        let quiet = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
        let mut command = tokio::process::Command::new(program());
        command.arg("serve").args(quiet).args(["--database-url", &database]).kill_on_drop(true);
        command
    };
    let refused = second().output().await.unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("another server works on the database"), "{told}");
    first.child.kill().await.unwrap();
    Served::start(program(), &database, &[]).await;
}

async fn survives_kill_9(database_url: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = crate::client();
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
    eventually(DEADLINE, "200 requests are acknowledged", async || {
        acknowledged.load(Ordering::SeqCst) >= 200
    })
    .await;
    server.child.kill().await.unwrap();
    sender.await.unwrap();
    let acknowledged = acknowledged.load(Ordering::SeqCst);

    let server = Served::start(program(), database_url, &[]).await;
    for number in 1..=acknowledged {
        let answer = client.get(server.url(&format!("/api/traces/{number:032x}"))).send().await.unwrap();
        assert_eq!(answer.status(), 200, "trace {number} of {acknowledged} acknowledged ones is lost");
    }
    // The stream ends with the run, which other servers give up a few seconds after the last heartbeat.
    let events =
        client.get(server.url(&format!("{run}/events/stream"))).send().await.unwrap().text().await.unwrap();
    assert!(events.contains(r#""what":"interrupted""#), "{events}");
    let interrupted: Value = client.get(server.url(&run)).send().await.unwrap().json().await.unwrap();
    assert_eq!(interrupted["state"], "FAILED");
    let told = interrupted["lastErrorState"].as_str().unwrap();
    assert!(told.contains("the server was restarted") && told.contains("run the test again"), "{told}");
    let listed: Value = client.get(server.url("/api/runs")).send().await.unwrap().json().await.unwrap();
    assert_eq!(listed["items"][0]["outcome"], "inconclusive", "{listed}");
}

#[tokio::test]
async fn sqlite_file_resumes_a_wait_after_kill_9() {
    on_sqlite(resumes_a_wait).await;
}

#[tokio::test]
async fn postgres_resumes_a_wait_after_kill_9() {
    on_postgres(resumes_a_wait).await;
}

/// The reply is stored: the run goes on with the spans that came before and after the kill, and the next step gets
/// the secret of the reply, which is stored redacted.
async fn resumes_a_wait(database_url: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (client, (heard, system)) = (crate::client(), echo().await);
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("secrets.key");
    let arguments = ["--secrets.keyFile", key.to_str().unwrap()];
    let mut server = Served::start(program(), database_url, &arguments).await;
    let trigger = |path: &str| json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("{system}{path}") } });
    let put = async |path: &str, body: &Value| {
        client.put(server.url(path)).json(body).send().await.unwrap().error_for_status().unwrap();
    };
    let login = json!({
        "id": "login", "name": "login", "trigger": trigger("/login/${var:PASSWORD}"),
        "specs": [
            { "selector": "span[name=\"first\"]", "assertions": ["attr:well = \"yes\""] },
            { "selector": "span[name=\"second\"]", "assertions": ["attr:well = \"yes\""] },
            { "selector": "span[name=\"Tracetest trigger\"]",
              "assertions": ["attr:tracetest.response.body = \"heard-/login/${var:PASSWORD}\""] },
        ],
        "outputs": [{ "name": "TOKEN", "selector": "span[name=\"Tracetest trigger\"]",
                      "value": "attr:tracetest.response.body" }],
    });
    put("/api/tests", &json!({ "type": "Test", "spec": login })).await;
    let logout = json!({ "id": "logout", "name": "logout", "trigger": trigger("/logout?${var:TOKEN}"),
                         "skipTraceCollection": true });
    put("/api/tests", &json!({ "type": "Test", "spec": logout })).await;
    let spec = json!({ "id": "s", "name": "S", "steps": ["login", "logout"] });
    put("/api/testsuites", &json!({ "type": "TestSuite", "spec": spec })).await;
    let variables = json!([{ "key": "PASSWORD", "value": "hunter2-hunter2", "type": "secret" }]);
    let start = client.post(server.url("/api/testsuites/s/run")).json(&json!({ "variables": variables }));
    start.send().await.unwrap().error_for_status().unwrap();
    let run = awaiting_trace(&server, "/api/tests/login/run/1").await;
    send_span(&server, &run, "00000000000000aa", "first", "yes").await;
    server.child.kill().await.unwrap();

    let server = Served::start(program(), database_url, &arguments).await;
    send_span(&server, &run, "00000000000000bb", "second", "yes").await;
    let events = server.url("/api/tests/login/run/1/events/stream");
    let events = client.get(events).send().await.unwrap().text().await.unwrap();
    for what in ["resumed", "judged"] {
        assert_eq!(events.matches(&format!(r#""what":"{what}""#)).count(), 1, "{events}");
    }
    let steps = server.url("/api/testsuites/s/run/1/events/stream");
    client.get(steps).send().await.unwrap().text().await.unwrap();
    assert_eq!(
        *heard.lock().unwrap(),
        ["/login/hunter2-hunter2", "/logout?heard-/login/hunter2-hunter2"],
        "each trigger is sent once"
    );
    let suite = client.get(server.url("/api/testsuites/s/run/1")).send().await.unwrap().text().await.unwrap();
    for shown in [&events, &suite] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let suite: Value = serde_json::from_str(&suite).unwrap();
    assert_eq!((&suite["state"], &suite["pass"]), (&json!("FINISHED"), &json!(3)), "{suite}");
    assert_eq!(suite["steps"][0]["result"]["allPassed"], true, "{suite}");
}

/// Waits until a run waits for its trace, and returns it.
pub(crate) async fn awaiting_trace(server: &Served, run: &str) -> Value {
    let client = crate::client();
    eventually(DEADLINE, "the run waits for its trace", async || {
        let answer = client.get(server.url(run)).send().await.unwrap();
        let shown: Value = answer.json().await.unwrap();
        if shown["state"] == "AWAITING_TRACE" { Ok(shown) } else { Err(shown) }
    })
    .await
}

/// Sends a span below the trigger of a run.
pub(crate) async fn send_span(server: &Served, run: &Value, id: &str, name: &str, well: &str) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let span = json!({
        "traceId": run["traceId"], "spanId": id, "parentSpanId": run["spanId"], "name": name, "kind": 1,
        "startTimeUnixNano": now.to_string(), "endTimeUnixNano": now.to_string(),
        "attributes": [{ "key": "well", "value": { "stringValue": well } }],
    });
    let service = json!({ "key": "service.name", "value": { "stringValue": "shop" } });
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": [service] }, "scopeSpans": [{ "spans": [span] }],
    }] });
    let sent = crate::client().post(server.url("/v1/traces")).json(&body).send().await.unwrap();
    sent.error_for_status().unwrap();
}

#[tokio::test]
async fn sqlite_file_carries_on_a_suite_after_kill_9() {
    on_sqlite(carries_on_a_suite).await;
}

#[tokio::test]
async fn postgres_carries_on_a_suite_after_kill_9() {
    on_postgres(carries_on_a_suite).await;
}

/// Finished steps stay finished, the current one is marked, teardown runs, and it gets the secret that was output
/// before the kill.
async fn carries_on_a_suite(database_url: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (client, (heard, system)) = (crate::client(), echo().await);
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("secrets.key");
    let arguments = ["--secrets.keyFile", key.to_str().unwrap()];
    let mut server = Served::start(program(), database_url, &arguments).await;
    let test = |id: &str, path: &str| {
        let trigger =
            json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("{system}{path}") } });
        json!({ "type": "Test", "spec": {
            "id": id, "name": id, "trigger": trigger, "skipTraceCollection": true,
            "outputs": [{ "name": "TOKEN", "selector": "span[name=\"Tracetest trigger\"]",
                          "value": "attr:tracetest.response.body" }],
        } })
    };
    let put = async |path: &str, body: &Value| {
        client.put(server.url(path)).json(body).send().await.unwrap().error_for_status().unwrap();
    };
    put("/api/tests", &test("login", "/login/${var:PASSWORD}")).await;
    put("/api/tests", &test("hang", "/hang")).await;
    put("/api/tests", &test("logout", "/logout?${var:TOKEN}")).await;
    let spec = json!({ "id": "s", "name": "S", "steps": ["login", "hang"], "teardown": ["logout"] });
    put("/api/testsuites", &json!({ "type": "TestSuite", "spec": spec })).await;
    let variables = json!([{ "key": "PASSWORD", "value": "hunter2-hunter2", "type": "secret" }]);
    let start = client.post(server.url("/api/testsuites/s/run")).json(&json!({ "variables": variables }));
    start.send().await.unwrap().error_for_status().unwrap();
    until(&heard, "/hang").await;
    server.child.kill().await.unwrap();

    let server = Served::start(program(), database_url, &arguments).await;
    let events = server.url("/api/testsuites/s/run/1/events/stream");
    let events = client.get(events).send().await.unwrap().text().await.unwrap();
    assert!(events.contains(r#""what":"resumed""#), "{events}");
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard, ["/login/hunter2-hunter2", "/hang", "/logout?heard-/login/hunter2-hunter2"]);
    let run = client.get(server.url("/api/testsuites/s/run/1")).send().await.unwrap().text().await.unwrap();
    for shown in [&events, &run] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let run: Value = serde_json::from_str(&run).unwrap();
    let states: Vec<&Value> = run["steps"].as_array().unwrap().iter().map(|step| &step["state"]).collect();
    assert_eq!(states, ["FINISHED", "FAILED", "FINISHED"]);
    assert_eq!(run["state"], "FAILED");
}

#[tokio::test]
async fn sqlite_file_carries_on_a_series_after_kill_9() {
    on_sqlite(carries_on_a_series).await;
}

#[tokio::test]
async fn postgres_carries_on_a_series_after_kill_9() {
    on_postgres(carries_on_a_series).await;
}

/// The current run is marked, and the remaining ones of the series follow.
async fn carries_on_a_series(database_url: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (client, (heard, system)) = (crate::client(), echo().await);
    let mut server = Served::start(program(), database_url, &[]).await;
    let url = format!("{system}${{var:PATH_OF_IT}}");
    let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": url, "timeout": "1m" } });
    let spec = json!({ "id": "t", "name": "T", "trigger": trigger, "skipTraceCollection": true });
    let put = client.put(server.url("/api/tests")).json(&json!({ "type": "Test", "spec": spec }));
    put.send().await.unwrap().error_for_status().unwrap();
    let variables = json!([{ "key": "PATH_OF_IT", "value": "/hang" }]);
    let start = client.post(server.url("/api/tests/t/run"));
    let start = start.json(&json!({ "variables": variables, "repeat": 2 })).send().await.unwrap();
    start.error_for_status().unwrap();
    until(&heard, "/hang").await;
    server.child.kill().await.unwrap();

    let server = Served::start(program(), database_url, &[]).await;
    let series = async |after: &str| -> Value {
        let url = server.url(&format!("/api/tests/t/run/1/series{after}"));
        client.get(url).send().await.unwrap().json().await.unwrap()
    };
    let begun = eventually(DEADLINE, "the second run of the series begins", async || {
        let shown = series("?after=1").await;
        if shown["runs"].as_array().unwrap().len() == 2 { Ok(shown) } else { Err(shown) }
    });
    let begun = begun.await;
    assert_eq!(begun["runs"][0]["outcome"], "inconclusive", "{begun}");
    let stop = client.post(server.url("/api/tests/t/run/2/stop")).send().await.unwrap();
    stop.error_for_status().unwrap();
    let ended = eventually(DEADLINE, "the series ends", async || {
        let shown = series("?after=2").await;
        if shown["outcome"].is_string() { Ok(shown) } else { Err(shown) }
    });
    let ended = ended.await;
    assert_eq!((&ended["repeat"], &ended["runs"][1]["outcome"]), (&json!(2), &json!("stopped")), "{ended}");
}

#[tokio::test]
async fn sqlite_file_corrects_a_verdict_after_kill_9() {
    on_sqlite(corrects_a_verdict).await;
}

#[tokio::test]
async fn postgres_corrects_a_verdict_after_kill_9() {
    on_postgres(corrects_a_verdict).await;
}

/// A late span arrives at another server than the one that judged the run.
async fn corrects_a_verdict(database_url: &str) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (http, (_, system)) = (crate::client(), echo().await);
    let mut server = Served::start(program(), database_url, &[]).await;
    let client = crate::late_spans_load::client::Client::new(server.url(""));
    client.put_settle("200ms").await;
    let trigger =
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("{system}/ok") } });
    let test = json!({ "type": "Test", "spec": {
        "id": "late", "name": "Late", "trigger": trigger,
        "specs": [{ "selector": "span[name=\"late\"]", "assertions": ["attr:tracetest.selected_spans.count = 1"] }],
    } });
    http.put(server.url("/api/tests")).json(&test).send().await.unwrap().error_for_status().unwrap();
    let run = client.start("late", false, false).await;
    let trigger = eventually(DEADLINE, "the trigger has a span", async || {
        let url = server.url("/api/tests/late/run/1");
        let shown: Value = http.get(url).send().await.unwrap().json().await.unwrap();
        shown["spanId"].as_str().filter(|id| !id.trim_matches('0').is_empty()).map(ToOwned::to_owned)
    });
    let trigger = trigger.await;
    let span = |id: &str, parent: &str, name: &str| {
        let span = json!({
            "traceId": run.trace, "spanId": id, "parentSpanId": parent, "name": name, "kind": 1,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        });
        json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] })
    };
    let first = span("00000000000000aa", &trigger, "first");
    http.post(server.url("/v1/traces")).json(&first).send().await.unwrap().error_for_status().unwrap();
    let events = client.events(&run).await;
    assert_eq!(events.all("judged").last().unwrap()["verdict"]["outcome"], "inconclusive");
    server.child.kill().await.unwrap();

    let server = Served::start(program(), database_url, &[]).await;
    let client = crate::late_spans_load::client::Client::new(server.url(""));
    let late = span("00000000000000bb", "00000000000000aa", "late");
    http.post(server.url("/v1/traces")).json(&late).send().await.unwrap().error_for_status().unwrap();
    assert_eq!(client.corrected(&run, Duration::from_secs(30)).await.as_deref(), Some("passed"));
    let shown: Value =
        http.get(server.url("/api/tests/late/run/1")).send().await.unwrap().json().await.unwrap();
    assert_eq!((&shown["state"], &shown["result"]["allPassed"]), (&json!("FINISHED"), &json!(true)));
}

type Heard = Arc<std::sync::Mutex<Vec<String>>>;

/// A system that echoes and records its requests, and never answers `/hang`.
async fn echo() -> (Heard, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (listener, heard) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Heard::default());
    let url = format!("http://{}", listener.local_addr().unwrap());
    let notes = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let notes = Arc::clone(&notes);
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
                let path = head.split(' ').nth(1).unwrap().to_owned();
                notes.lock().unwrap().push(path.clone());
                if path == "/hang" {
                    std::future::pending::<()>().await;
                }
                let length = path.len() + 6;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\nheard-{path}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    (heard, url)
}

/// Waits until the system got a request for this path.
async fn until(heard: &Heard, path: &str) {
    eventually(DEADLINE, format!("the system is asked for {path}"), async || {
        heard.lock().unwrap().iter().any(|heard| heard == path)
    })
    .await;
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
