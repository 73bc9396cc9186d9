//! Greedy clients: others are served meanwhile, and computations for disconnected clients are cancelled.

use std::net::IpAddr;

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Client, StatusCode};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::late_spans_load::program::Served;
use crate::program;

/// An expression whose evaluation takes a good part of the step budget.
fn endless() -> String {
    let numbers = vec!["1"; 100_000].join(",");
    let conditions = vec!["@ == 2"; 100].join(" || ");
    format!("'[{numbers}]' | json_path '$[?({conditions})]'")
}

/// A server with one thread for its sockets: a computation there would block all clients.
async fn served() -> Served {
    let arguments = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let memory = ["--database-url", "sqlite::memory:"];
    let one_thread = [("TOKIO_WORKER_THREADS", "1")];
    Served::start_in(program(), &one_thread, &[&arguments[..], &memory].concat()).await
}

/// The sum of a metric over the series with these labels.
async fn metric(client: &Client, server: &Served, name: &str, label: &str) -> f64 {
    let text = client.get(server.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test]
async fn others_are_answered_while_a_request_computes_and_it_ends_with_its_client() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = served().await;
    let client = crate::client();
    let body = json!({ "expression": endless() });
    let mut under_way = JoinSet::new();
    for _ in 0..2 {
        let request = client.post(server.url("/api/expressions/resolve")).json(&body);
        under_way.spawn(async move { request.send().await.unwrap().status() });
    }
    let active = async || metric(&client, &server, "http_server_active_requests{", "\"POST\"").await;
    let both = async || active().await > 1.5;
    eventually(DEADLINE, "both requests are under way", both).await;
    for _ in 0..20 {
        let alive = client.get(server.url("/healthz")).send().await.unwrap();
        assert!(alive.status().is_success());
    }
    assert!(under_way.try_join_next().is_none(), "they take longer than that");
    under_way.shutdown().await;
    eventually(DEADLINE, "nothing is computed any more", async || active().await < 0.5).await;
    let answered = "\"200\",http_route=\"/api/expressions/resolve\"";
    let ended = metric(&client, &server, "http_server_request_duration_seconds_count{", answered).await;
    assert!(ended < 0.5, "none of them came to its value: {ended}");
}

/// A connection with a half-sent request: a mebibyte of spans is announced, and half of it sent.
async fn half_sent(server: &Served) -> TcpStream {
    let mut stream = TcpStream::connect(server.http).await.unwrap();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        server.http,
        1 << 20
    );
    // It may be refused and closed meanwhile.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&vec![b' '; 1 << 19]).await;
    stream
}

#[tokio::test]
async fn a_sender_that_floods_leaves_room_for_the_others() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = Served::start(program(), "sqlite::memory:", &["--limits.ingestBytes", "8MiB"]).await;
    let span = json!({
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "a",
        "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": [
            { "key": "large", "value": { "stringValue": "x".repeat(100_000) } },
        ],
    });
    let spans = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    // All of 127.0.0.0/8 is this machine: another address of it stands for another machine.
    let machine = |last: u8| {
        let address = IpAddr::from([127, 0, 0, last]);
        Client::builder().local_address(address).timeout(DEADLINE).build().unwrap()
    };
    let (flooder, polite) = (machine(1), machine(2));
    let deliver = async |client: &Client| {
        client.post(server.url("/v1/traces")).json(&spans).send().await.unwrap().status()
    };
    let mut flood = Vec::new();
    for _ in 0..32 {
        flood.push(half_sent(&server).await);
    }
    // On a slow machine, the first ones may have ended before the last ones began.
    let mut is_refused = async || {
        flood.push(half_sent(&server).await);
        deliver(&flooder).await == StatusCode::TOO_MANY_REQUESTS
    };
    eventually(DEADLINE, "the flooder is refused", &mut is_refused).await;
    for _ in 0..3 {
        assert_eq!(deliver(&polite).await, StatusCode::OK);
    }
    eventually(DEADLINE, "the flooder is still refused", is_refused).await;
    drop(flood);
    eventually(DEADLINE, "there is room again", async || deliver(&flooder).await == StatusCode::OK).await;
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[tokio::test]
async fn the_allocator_of_a_server_reserves_few_addresses() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let process = server.child.id().unwrap();
    let variables = std::fs::read_to_string(format!("/proc/{process}/environ")).unwrap();
    assert!(variables.contains("MALLOC_ARENA_MAX="), "{variables}");
}

#[tokio::test]
async fn requests_that_are_refused_before_their_route_are_measured() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    let more = [
        "--database-url",
        "sqlite::memory:",
        "--auth.tokens",
        "full:token-of-the-strangers,read:token-of-the-readers",
    ];
    let server = Served::start_in(program(), &[], &[&arguments[..], &more].concat()).await;
    let client = crate::client();
    let full = |request: reqwest::RequestBuilder| request.bearer_auth("token-of-the-strangers");
    for (request, status) in [
        (client.get(server.url("/api/tests")), 401),
        (client.get(server.url("/api/tests")).bearer_auth("a-token-that-is-unknown"), 401),
        (client.delete(server.url("/api/tests/x")).bearer_auth("token-of-the-readers"), 403),
        (full(client.post(server.url("/api/tests")).header("content-type", "text/plain").body("x")), 415),
        (full(client.get(server.url("/nowhere"))), 404),
        (full(client.delete(server.url("/api/tests/x"))), 404),
    ] {
        assert_eq!(request.send().await.unwrap().status(), status);
    }
    let text = full(client.get(server.url("/metrics"))).send().await.unwrap().text().await.unwrap();
    let count = |status: &str, has_route: bool| -> f64 {
        let is_meant = |line: &&str| {
            line.starts_with("http_server_request_duration_seconds_count{")
                && line.contains(&format!("http_response_status_code=\"{status}\""))
                && line.contains("http_route=") == has_route
        };
        text.lines()
            .filter(is_meant)
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    };
    let counts = ["401", "403", "415", "404"].map(|status| count(status, false));
    assert_eq!(counts.map(|count| count.to_string()), ["2", "1", "1", "1"], "{text}");
    assert_eq!(count("404", true).to_string(), "1", "a request that came to its route has it: {text}");
}
