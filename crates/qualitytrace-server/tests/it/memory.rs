//! Memory limits: many concurrent requests, half-sent bodies, responses that are never read.

use std::net::SocketAddr;
use std::time::Duration;

use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::{DEADLINE, eventually, within};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const MIB: usize = 1 << 20;
async fn server(limits: Limits) -> (Server, SocketAddr) {
    let config = Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        database_url: "sqlite::memory:".to_owned(),
        limits,
        ..Config::default()
    };
    let server = Server::start(config).await.unwrap();
    let address = server.addresses().http;
    (server, address)
}

/// Opens a connection and sends the head of a request and so much of its body.
async fn begun(address: SocketAddr, announced: usize, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /api/tests HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {announced}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; sent]).await.unwrap();
    stream
}

/// Reads until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // A reset connection has ended as well.
    let _ = within(DEADLINE, "the server closes the connection", stream.read_to_end(&mut text)).await;
    String::from_utf8_lossy(&text).into_owned()
}

/// Creates a test with runs that each have a variable of one mebibyte.
async fn large_runs(base: &str, count: usize) {
    let client = crate::client();
    let trigger =
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/x" } });
    let test = json!({ "type": "Test", "spec": { "id": "big", "name": "big", "trigger": trigger } });
    let stored = client.post(format!("{base}/api/tests")).json(&test).send().await.unwrap();
    assert_eq!(stored.status(), StatusCode::CREATED);
    let run = json!({ "variables": [{ "key": "large", "value": "x".repeat(MIB) }] });
    for _ in 0..count {
        let run = client.post(format!("{base}/api/tests/big/run")).json(&run).send().await.unwrap();
        assert_eq!(run.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn half_sent_bodies_share_the_memory_and_are_given_up() {
    let limits =
        Limits { api_bytes: 8 * MIB as u64, progress_timeout: Duration::from_secs(3), ..Limits::default() };
    let (server, address) = server(limits).await;
    let mut slow = Vec::new();
    for _ in 0..12 {
        slow.push(begun(address, 2 * MIB, MIB).await);
    }
    let answers = futures_util::future::join_all(slow.into_iter().map(rest)).await;
    let refused = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 503")).count();
    let given_up = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 408")).count();
    assert!(refused >= 6, "six of twelve mebibytes are too many: {answers:?}");
    assert!(given_up >= 1, "those that were let in stop: {answers:?}");
    assert_eq!(refused + given_up, 12, "{answers:?}");
    let told = answers.iter().find(|answer| answer.starts_with("HTTP/1.1 503")).unwrap();
    assert!(told.contains("retry-after: 1") && told.contains("limits.apiBytes"), "{told}");
    // The memory is released.
    let list = reqwest::get(format!("http://{address}/api/tests")).await.unwrap();
    assert_eq!(list.status(), StatusCode::OK);
    server.shutdown().await;
}

#[tokio::test]
async fn small_requests_are_served_while_slow_ones_hold_the_memory() {
    let limits = Limits { api_bytes: 8 * MIB as u64, ..Limits::default() };
    let (server, address) = server(limits).await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        slow.push(begun(address, 4 * MIB, 2 * MIB).await);
    }
    let client = crate::client();
    let trigger = json!({ "type": "http", "httpRequest": { "url": "http://127.0.0.1:9/x" } });
    let test = json!({ "type": "Test", "spec": { "id": "small", "name": "small", "trigger": trigger } });
    let stored = client.post(format!("http://{address}/api/tests")).json(&test).send().await.unwrap();
    assert_eq!(stored.status(), StatusCode::CREATED);
    drop(slow);
    server.shutdown().await;
}

#[tokio::test]
async fn a_body_that_can_never_be_held_is_refused_for_good() {
    let limits = Limits { api_bytes: 4 * MIB as u64, ..Limits::default() };
    let (server, address) = server(limits).await;
    let client = crate::client();
    let body = format!("{{\"type\": \"Test\", \"spec\": {{\"name\": \"{}\"}}}}", "x".repeat(MIB));
    let refused = client.post(format!("http://{address}/api/tests")).body(body).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(refused.text().await.unwrap().contains("limits.apiBytes"));
    server.shutdown().await;
}

#[tokio::test]
async fn a_body_counts_with_what_it_becomes() {
    let limits = Limits { api_bytes: 16 * MIB as u64, ..Limits::default() };
    let (server, address) = server(limits).await;
    let client = crate::client();
    let empty = vec!["{}"; 200_000].join(",");
    let spec = format!(r#"{{"name":"S","type":"otlp","x":[{empty}]}}"#);
    let yaml = format!("type: Test\nspec:\n  name: T\n  specs:\n{}", "  -\n".repeat(200_000));
    for (path, kind, body) in [
        ("/api/config/connection", "application/json", spec.clone()),
        ("/api/tests", "application/json", format!(r#"{{"type":"Test","spec":{spec}}}"#)),
        ("/api/tests", "text/yaml", yaml),
        ("/api/language/check", "application/json", spec),
    ] {
        let request = client.post(format!("http://{address}{path}")).header("content-type", kind);
        let refused = request.body(body).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
        assert!(refused.text().await.unwrap().contains("limits.apiBytes"), "{path}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_list_larger_than_the_memory_is_sent_in_parts() {
    let limits = Limits { api_bytes: 20 * MIB as u64, ..Limits::default() };
    let (server, address) = server(limits).await;
    let base = format!("http://{address}");
    large_runs(&base, 24).await;
    let list = reqwest::get(format!("{base}/api/tests/big/run?take=100")).await.unwrap();
    assert_eq!(list.status(), StatusCode::OK);
    assert_eq!(list.headers()["x-total-count"], "24");
    let runs: Vec<Value> = list.json().await.unwrap();
    let ids: Vec<u64> = runs.iter().map(|run| run["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (1..=24).rev().collect::<Vec<_>>());
    assert_eq!(runs[23]["variableSet"]["values"][0]["value"].as_str().unwrap().len(), MIB);
    server.shutdown().await;
}

#[tokio::test]
async fn a_suite_with_its_tests_is_refused_where_they_take_too_much_memory() {
    let limits = Limits { api_bytes: 20 * MIB as u64, ..Limits::default() };
    let (server, address) = server(limits).await;
    let (client, base) = (crate::client(), format!("http://{address}"));
    let trigger =
        json!({ "type": "http", "httpRequest": { "url": "http://h/", "body": "x".repeat(MIB / 4) } });
    let test = json!({ "type": "Test", "spec": { "id": "t", "name": "t", "trigger": trigger } });
    let suite = |id: &str, steps: usize| json!({ "type": "TestSuite", "spec": { "id": id, "name": id, "steps": vec!["t"; steps] } });
    for (of, sent) in [("tests", test), ("testsuites", suite("many", 1_000)), ("testsuites", suite("two", 2))]
    {
        let stored = client.post(format!("{base}/api/{of}")).json(&sent).send().await.unwrap();
        assert_eq!(stored.status(), StatusCode::CREATED);
    }
    let status = async |path: &str| {
        let asked = client.get(format!("{base}{path}")).header("x-tracetest-augmented", "true");
        asked.send().await.unwrap().status()
    };
    assert_eq!(status("/api/testsuites/two").await, StatusCode::OK);
    for path in
        ["/api/testsuites/many", "/api/testsuites", "/api/resources", "/api/testsuites/many/version/1"]
    {
        assert_eq!(status(path).await, StatusCode::PAYLOAD_TOO_LARGE, "{path}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped() {
    let limits = Limits { progress_timeout: Duration::from_millis(500), ..Limits::default() };
    let (server, address) = server(limits).await;
    large_runs(&format!("http://{address}"), 40).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /api/tests/big/run?take=100 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    // Once writing fails, the server has closed the connection, although nothing was read.
    eventually(DEADLINE, "the client is dropped", async || stream.write_all(b"\r\n").await.is_err()).await;
    assert!(rest(stream).await.len() < 40 * MIB);
    server.shutdown().await;
}

#[tokio::test]
async fn a_socket_that_says_too_much_at_once_is_closed() {
    let (server, address) = server(Limits::default()).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let url = format!("ws://{address}/ws");
    let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    let message = tokio_tungstenite::tungstenite::Message::text(" ".repeat(MIB));
    // Writing may fail because the server has closed the socket by then.
    let _ = futures_util::SinkExt::send(&mut socket, message).await;
    let closed = async {
        while let Some(Ok(message)) = futures_util::StreamExt::next(&mut socket).await {
            assert!(message.is_ping() || message.is_close(), "{message:?}");
        }
    };
    within(DEADLINE, "the socket is closed", closed).await;
    server.shutdown().await;
}

type Socket = tokio_tungstenite::WebSocketStream<TcpStream>;

async fn socket(address: SocketAddr) -> Socket {
    let stream = TcpStream::connect(address).await.unwrap();
    tokio_tungstenite::client_async(format!("ws://{address}/ws"), stream).await.unwrap().0
}

/// Sends a message and waits for the response.
async fn say(socket: &mut Socket, said: &Value) -> Value {
    let message = tokio_tungstenite::tungstenite::Message::text(said.to_string());
    futures_util::SinkExt::send(socket, message).await.unwrap();
    let answer = async {
        while let Some(Ok(message)) = futures_util::StreamExt::next(socket).await {
            if message.is_text() {
                return serde_json::from_str(message.to_text().unwrap()).unwrap();
            }
        }
        panic!("the socket is closed")
    };
    within(DEADLINE, "the socket answers", answer).await
}

fn subscribe(resource: &str) -> Value {
    json!({ "type": "subscribe", "resource": resource })
}

/// Subscribes to runs until that is refused; returns how many were accepted, the last of them, and the error.
async fn fill(socket: &mut Socket) -> (usize, String, String) {
    let (mut count, mut last) = (0, String::new());
    loop {
        let answer = say(socket, &subscribe(&format!("test/{}/run/{}", "x".repeat(250), count + 1))).await;
        if answer["type"] == "error" {
            return (count, last, answer["message"].as_str().unwrap().to_owned());
        }
        answer["message"]["subscriptionId"].as_str().unwrap().clone_into(&mut last);
        count += 1;
    }
}

#[tokio::test]
async fn subscriptions_share_a_part_of_the_memory_and_give_it_back() {
    let limits = Limits { api_bytes: MIB as u64, ..Limits::default() };
    let (server, address) = server(limits).await;
    let mut first = socket(address).await;
    let (count, last, told) = fill(&mut first).await;
    assert!(told.contains("limits.apiBytes"), "{told}");
    assert!((10..=256).contains(&count), "{count} subscriptions in a quarter of a mebibyte");
    let list = reqwest::get(format!("http://{address}/api/tests")).await.unwrap();
    assert_eq!(list.status(), StatusCode::OK, "the rest is for requests");

    // Unsubscribing makes room for another subscription, any number of times.
    let mut last = json!(last);
    for round in 0..2 * count {
        let enough = json!({ "type": "unsubscribe", "subscriptionId": last });
        assert_eq!(say(&mut first, &enough).await["type"], "success");
        let again = say(&mut first, &subscribe(&format!("test/t/run/{}", round + 1))).await;
        assert_eq!(again["type"], "success", "{round}: {again}");
        last = again["message"]["subscriptionId"].clone();
    }

    // Closing a socket releases its subscriptions.
    drop(first);
    let mut second = socket(address).await;
    let again = async {
        while fill(&mut second).await.0 < count {
            drop(second);
            second = socket(address).await;
        }
    };
    within(DEADLINE, "the memory is there again", again).await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_socket_takes_only_subscriptions_to_what_can_be_there() {
    let (server, address) = server(Limits::default()).await;
    let mut socket = socket(address).await;
    for (resource, told) in [
        (format!("test/{}/run/1", "x".repeat(60_000)), "an id has at most 256 bytes"),
        (format!("testsuites/{}/run/1", "x".repeat(257)), "an id has at most 256 bytes"),
        ("test/t/run/-1".to_owned(), "a run has a number from 1 on"),
        ("test/t/run/0/event".to_owned(), "a run has a number from 1 on"),
        ("testsuites/t/run/x".to_owned(), "a run has a number from 1 on"),
    ] {
        let answer = say(&mut socket, &subscribe(&resource)).await;
        assert_eq!(answer["type"], "error", "{answer}");
        assert!(answer["message"].as_str().unwrap().starts_with(told), "{answer}");
    }
    let mut last = Value::Null;
    for number in 1..=1000 {
        last = say(&mut socket, &subscribe(&format!("test/t/run/{number}"))).await;
        assert_eq!(last["type"], "success", "{last}");
    }
    let refused = say(&mut socket, &subscribe("test/t/run/1001")).await;
    assert_eq!(refused["message"], "a connection has at most 1000 subscriptions");
    let enough = json!({ "type": "unsubscribe", "subscriptionId": last["message"]["subscriptionId"] });
    say(&mut socket, &enough).await;
    assert_eq!(say(&mut socket, &subscribe("test/t/run/1001")).await["type"], "success");
    server.shutdown().await;
}

/// Sends a trace of so many spans with an attribute of so many bytes each.
async fn send_trace(base: &str, trace: &str, spans: usize, bytes: usize) {
    let span = |number: usize| {
        let parent = if number == 1 { String::new() } else { format!("{:016x}", 1) };
        json!({
            "traceId": trace, "spanId": format!("{number:016x}"), "parentSpanId": parent, "name": "x", "kind": 1,
            "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000001000000000",
            "attributes": [{ "key": "large", "value": { "stringValue": "x".repeat(bytes) } }],
        })
    };
    let spans: Vec<Value> = (1..=spans).map(span).collect();
    let request = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
    let sent = crate::client().post(format!("{base}/v1/traces")).json(&request).send().await.unwrap();
    assert_eq!(sent.status(), StatusCode::OK);
}

/// Starts a run that judges a trace, and returns its events when it has ended.
async fn judged(base: &str, trace: &str) -> String {
    let client = crate::client();
    let trigger = json!({ "type": "traceid", "traceid": { "id": trace } });
    let specs = json!([{ "selector": "span[name = \"x\"]", "assertions": ["attr:large | length > 0"] }]);
    let spec = json!({ "id": trace, "name": trace, "trigger": trigger, "specs": specs });
    let test = json!({ "type": "Test", "spec": spec });
    client.post(format!("{base}/api/tests")).json(&test).send().await.unwrap().error_for_status().unwrap();
    let run = client.post(format!("{base}/api/tests/{trace}/run")).json(&json!({})).send().await.unwrap();
    assert_eq!(run.status(), StatusCode::OK);
    let stream = client.get(format!("{base}/api/tests/{trace}/run/1/events/stream")).send();
    stream.await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn the_traces_of_runs_share_a_bound() {
    let limits = Limits { api_bytes: 4 * MIB as u64, ..Limits::default() };
    let (server, address) = server(limits).await;
    let base = format!("http://{address}");
    let id = |number: u8| format!("{:032x}", u32::from(number) + 0xa000);
    // One that is larger than the whole budget.
    send_trace(&base, &id(0), 40, 64 * 1024).await;
    let events = judged(&base, &id(0)).await;
    assert!(events.contains("limits.apiBytes") && !events.contains("\"judged\""), "{events:.2000}");
    // Some that fit, but not at the same time: they take turns.
    for number in 1..=4 {
        send_trace(&base, &id(number), 20, 48 * 1024).await;
    }
    let runs = (1..=4).map(|number| {
        let (base, trace) = (base.clone(), id(number));
        async move { judged(&base, &trace).await }
    });
    for events in futures_util::future::join_all(runs).await {
        assert!(events.contains("\"judged\"") && events.contains("\"passed\""), "{events:.2000}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_run_over_a_large_trace_can_be_read_and_says_what_it_left_out() {
    let (server, address) = server(Limits::default()).await;
    let base = format!("http://{address}");
    let id = format!("{:032x}", 0xb001);
    send_trace(&base, &id, 30_000, 1).await;
    let events = judged(&base, &id).await;
    assert!(events.contains("\"judged\""), "{events:.2000}");
    let client = crate::client();
    let read = async |path: &str| -> Value {
        let answer = client.get(format!("{base}/api/tests/{id}/run{path}")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answer.json().await.unwrap()
    };
    let run = read("/1").await;
    let result = &run["result"]["results"][0]["results"][0];
    assert_eq!(result["spanResults"].as_array().unwrap().len(), 10_000);
    assert_eq!((&result["allPassed"], &result["omitted"]["passed"]), (&json!(true), &json!(20_000)));
    let rules = run["linter"]["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|plugin| plugin["rules"].as_array().unwrap());
    let (mut kept, mut omitted) = (0, 0);
    for rule in rules {
        kept += rule["results"].as_array().map_or(0, Vec::len);
        omitted +=
            rule["omitted"]["passed"].as_u64().unwrap_or(0) + rule["omitted"]["failed"].as_u64().unwrap_or(0);
    }
    assert!((5_000..=10_000).contains(&kept), "{kept}");
    assert!(omitted > 20_000, "{omitted}");
    assert_eq!(read("").await.as_array().map(Vec::len), Some(1));
    server.shutdown().await;
}

/// A million attributes of seven bytes are small when they arrive, and a hundred times as large when they are decoded.
#[tokio::test]
async fn the_memory_of_a_trace_is_that_of_its_values() {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use prost::Message as _;

    let (server, address) = server(Limits { api_bytes: 32 * MIB as u64, ..Limits::default() }).await;
    let (base, client) = (format!("http://{address}"), crate::client());
    let value = Some(AnyValue { value: Some(Any::BoolValue(true)) });
    let span = Span {
        trace_id: vec![7; 16],
        span_id: vec![1; 8],
        attributes: vec![KeyValue { key: "a".to_owned(), value, ..KeyValue::default() }; 1_000_000],
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
    assert!(body.len() < 10 * MIB, "{}", body.len());
    let sent = client.post(format!("{base}/v1/traces")).header("content-type", "application/x-protobuf");
    assert_eq!(sent.body(body).send().await.unwrap().status(), StatusCode::OK);
    let trace = format!("{base}/api/traces/{}", "07".repeat(16));
    let asked = [
        client.get(&trace),
        client.get(&trace).header("accept", "application/vnd.otlp+json"),
        client.get(&trace).header("accept", "application/vnd.jaeger+json"),
        client.get(format!("{trace}/spans/{}", "01".repeat(8))),
        client.post(format!("{trace}/select")).json(&json!({ "query": "span[name = \"x\"]" })),
        client.get(format!("{base}/api/traces")),
    ];
    for request in asked {
        let answer = request.send().await.unwrap();
        let (status, url) = (answer.status(), answer.url().to_string());
        let said = answer.text().await.unwrap();
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{url}: {said}");
        assert!(said.contains("limits.apiBytes"), "{url}: {said}");
    }
    assert_eq!(client.get(format!("{trace}/columns")).send().await.unwrap().status(), StatusCode::OK);
    assert!(judged(&base, &"07".repeat(16)).await.contains("limits.apiBytes"));
    server.shutdown().await;
}
