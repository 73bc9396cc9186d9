//! A database that becomes unavailable while the server runs, and returns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use http::HeaderMap;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::{DEADLINE, Line, Outage, eventually, within};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::databases::Database;

/// Starts a server that stores over this line.
async fn start_server(line: &Line) -> Server {
    let server = Server::start(Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        database_url: line.url.clone(),
        ..Config::default()
    });
    server.await.unwrap()
}

/// Interrupts the database before it responds, and reports its trace context.
async fn cut(
    State((line, context)): State<(Arc<Line>, watch::Sender<Option<String>>)>,
    headers: HeaderMap,
) -> &'static str {
    line.cut();
    context.send_replace(Some(headers["traceparent"].to_str().unwrap().to_owned()));
    "gone"
}

#[tokio::test]
async fn runs_wait_for_a_database_that_is_away_and_requests_are_told_to_come_again() {
    let Some(database) = Database::postgres().await else { return };
    let line = Arc::new(Line::to(&database.url, Outage::Closed).await);
    let server = start_server(&line).await;
    let (url, client) = (format!("http://{}", server.addresses().http), reqwest::Client::new());
    let (context, mut seen) = watch::channel(None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let subject = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(cut).with_state((Arc::clone(&line), context));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });

    let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": subject } });
    let specs = json!([{ "selector": "span[name = \"work\"]", "assertions": ["attr:tracetest.selected_spans.count = 1"] }]);
    let test =
        json!({ "type": "Test", "spec": { "id": "t", "name": "t", "trigger": trigger, "specs": specs } });
    let send = |path: &str, body: &Value| {
        let request = client.post(format!("{url}{path}")).header("content-type", "application/json");
        request.body(body.to_string()).send()
    };
    assert!(send("/api/tests", &test).await.unwrap().status().is_success());
    assert!(send("/api/tests/t/run", &json!({})).await.unwrap().status().is_success());
    let context = seen.wait_for(Option::is_some).await.unwrap().clone().unwrap();

    let get = |path: &str| client.get(format!("{url}{path}")).send();
    let (list, run) = (get("/api/tests").await.unwrap(), send("/api/tests/t/run", &json!({})).await.unwrap());
    for response in [list, run, get("/api/tests/t/run/1").await.unwrap(), get("/api/traces").await.unwrap()] {
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], "1");
        let said: Value = response.json().await.unwrap();
        let error = "the database does not answer; try again in a moment";
        assert_eq!(said, json!({ "code": 503, "error": error }));
    }

    line.restore();
    let parts: Vec<&str> = context.split('-').collect();
    let now = qualitytrace_server::base::clock::now().as_nanos().to_string();
    let span = json!({
        "traceId": parts[1], "parentSpanId": parts[2], "spanId": "00000000000000a1", "name": "work", "kind": 2,
        "startTimeUnixNano": now, "endTimeUnixNano": now,
    });
    let spans = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    assert!(send("/v1/traces", &spans).await.unwrap().status().is_success());
    // The stream ends with the run.
    let stream = get("/api/tests/t/run/1/events/stream").await.unwrap().text();
    let events = within(Duration::from_mins(5), "the run ends", stream).await.unwrap();
    let run: Value = get("/api/tests/t/run/1").await.unwrap().json().await.unwrap();
    assert_eq!((&run["state"], &run["result"]["allPassed"]), (&json!("FINISHED"), &json!(true)), "{events}");
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_ends_while_its_database_is_away_and_the_next_one_marks_its_runs() {
    let Some(database) = Database::postgres().await else { return };
    let line = Line::to(&database.url, Outage::Silent).await;
    let server = start_server(&line).await;
    let url = format!("http://{}", server.addresses().http);
    let client = reqwest::Client::new();
    let subject = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("http://{}", subject.local_addr().unwrap()) } });
    let test = json!({ "type": "Test", "spec": { "id": "t", "name": "t", "trigger": trigger } });
    for (path, body) in [("/api/tests", test), ("/api/tests/t/run", json!({}))] {
        let request = client.post(format!("{url}{path}")).header("content-type", "application/json");
        assert!(request.body(body.to_string()).send().await.unwrap().status().is_success());
    }
    // The request of the run is on its way and gets no answer.
    let _held = subject.accept().await.unwrap();
    line.cut();
    // A platform kills what has not ended after 30 seconds.
    within(Duration::from_secs(28), "the server ends", server.shutdown()).await;

    line.restore();
    let next = start_server(&line).await;
    let run = format!("http://{}/api/tests/t/run/1", next.addresses().http);
    eventually(DEADLINE, "the run is marked", async || {
        let run: Value = client.get(&run).send().await.unwrap().json().await.unwrap();
        if run["state"] == "TRIGGER_FAILED" || run["state"] == "FAILED" {
            Ok(())
        } else {
            Err(run["state"].to_string())
        }
    })
    .await;
    next.shutdown().await;
}
