//! Security over real sockets: tokens, TLS, limits, request ids, and denied addresses of triggers.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::base::limits::deny::Deny;
use qualitytrace_server::config::{Config, Safety};
use qualitytrace_server::http::access::Access;
use qualitytrace_server::http::tls::Certificate;
use qualitytrace_server::serve::server::Server;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const FULL: &str = "full-token-0123456789abcdef";
const READ: &str = "read-token-0123456789abcdef";
const SEND: &str = "send-token-0123456789abcdef";

async fn start(limits: Limits, safety: Safety) -> Server {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config =
        Config { http: any, otlp_grpc: Some(any), otlp_http: Some(any), limits, safety, ..Config::default() };
    Server::start(config).await.unwrap()
}

fn guarded(otlp: bool) -> Safety {
    let tokens = [format!("full:{FULL}"), format!("read:{READ}"), format!("ingest:{SEND}")];
    let tokens = tokens.iter().map(|token| token.parse().unwrap()).collect();
    Safety { access: Access { tokens, otlp }, ..Safety::default() }
}

async fn ask(url: &str, method: Method, token: Option<&str>, body: &str) -> reqwest::Response {
    let mut request = crate::client().request(method, url).body(body.to_owned());
    request = request.header("content-type", "application/json");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn a_token_decides_what_a_client_may_do() {
    let server = start(Limits::default(), guarded(false)).await;
    let base = format!("http://{}", server.addresses().http);
    let demo = json!({ "spec": { "id": "a", "name": "a", "type": "pokeshop", "enabled": true } }).to_string();
    for (method, path, token, expected) in [
        (Method::GET, "/healthz", None, 200),
        (Method::GET, "/api/healthz", None, 200),
        (Method::GET, "/readyz", None, 200),
        (Method::GET, "/api/demos", None, 401),
        (Method::GET, "/metrics", None, 401),
        (Method::GET, "/nowhere", None, 401),
        (Method::GET, "/api/demos", Some("wrong-token-0123456789"), 401),
        (Method::GET, "/api/demos", Some(READ), 200),
        (Method::PUT, "/api/demos", Some(READ), 403),
        (Method::DELETE, "/api/demos/a", Some(READ), 403),
        (Method::GET, "/api/demos", Some(SEND), 403),
        (Method::PUT, "/api/demos", Some(FULL), 201),
        (Method::POST, "/v1/traces", None, 200),
    ] {
        let body = if method == Method::GET { "" } else { &demo };
        let body = if path == "/v1/traces" { "{}" } else { body };
        let answer = ask(&format!("{base}{path}"), method.clone(), token, body).await;
        assert_eq!(answer.status().as_u16(), expected, "{method} {path} {token:?}");
        let challenge =
            answer.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
        match (expected, token) {
            (401, None) => assert_eq!(challenge.as_deref(), Some("Bearer realm=\"qualitytrace\"")),
            (401, Some(_)) => assert!(challenge.unwrap().ends_with("error=\"invalid_token\"")),
            (403, _) => assert!(challenge.unwrap().ends_with("error=\"insufficient_scope\"")),
            _ => assert_eq!(challenge, None),
        }
        if expected == 401 || expected == 403 {
            let body: Value = answer.json().await.unwrap();
            assert_eq!(body["code"], expected);
            assert!(body["error"].as_str().unwrap().contains("token"), "{body}");
        }
    }
    server.shutdown().await;
}

#[tokio::test]
async fn delivering_can_need_a_token_too() {
    let server = start(Limits::default(), guarded(true)).await;
    let addresses = server.addresses();
    for address in [addresses.http, addresses.otlp_http.unwrap()] {
        let url = format!("http://{address}/v1/traces");
        for (token, expected) in [(None, 401), (Some(READ), 403), (Some(SEND), 200), (Some(FULL), 200)] {
            let answer = ask(&url, Method::POST, token, "{}").await;
            assert_eq!(answer.status().as_u16(), expected, "{url} {token:?}");
        }
    }
    let grpc = addresses.otlp_grpc.unwrap();
    let channel = tonic::transport::Endpoint::new(format!("http://{grpc}")).unwrap().connect().await.unwrap();
    let mut client =
        opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient::new(
            channel,
        );
    let refused = client.export(crate::requests::spans(&[[1; 16]])).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{refused}");
    let mut request = tonic::Request::new(crate::requests::spans(&[[1; 16]]));
    request.metadata_mut().insert("authorization", format!("Bearer {SEND}").parse().unwrap());
    client.export(request).await.unwrap();
    server.shutdown().await;
}

#[tokio::test]
async fn tls_is_spoken_on_every_port_that_has_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate =
        Certificate { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&certificate.certificate, made.cert.pem()).unwrap();
    std::fs::write(&certificate.key, made.signing_key.serialize_pem()).unwrap();
    let safety =
        Safety { tls: Some(certificate.clone()), otlp_tls: Some(certificate.clone()), ..Safety::default() };
    let server = start(Limits::default(), safety).await;
    let addresses = server.addresses();
    let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([root]).build().unwrap();
    let alive =
        client.get(format!("https://localhost:{}/healthz", addresses.http.port())).send().await.unwrap();
    assert_eq!((alive.status(), alive.version()), (StatusCode::OK, reqwest::Version::HTTP_2));
    for address in [addresses.otlp_grpc.unwrap(), addresses.otlp_http.unwrap()] {
        let url = format!("https://localhost:{}/v1/traces", address.port());
        let request = client.post(url).header("content-type", "application/json").body("{}");
        assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    }
    let plain = crate::client().get(format!("http://{}/healthz", addresses.http)).send().await;
    assert!(plain.is_err(), "a plain HTTP request gets no answer");
    server.shutdown().await;

    std::fs::write(&certificate.certificate, "no certificate").unwrap();
    let error = certificate_error(&certificate).await;
    assert!(error.contains("cert.pem") && error.contains("cannot be used"), "{error}");
}

async fn certificate_error(certificate: &Certificate) -> String {
    let config = Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        safety: Safety { tls: Some(certificate.clone()), ..Safety::default() },
        ..Config::default()
    };
    Server::start(config).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_slow_client_is_not_waited_for() {
    let limits = Limits {
        header_timeout: Duration::from_millis(200),
        request_timeout: Duration::from_millis(400),
        ..Limits::default()
    };
    let server = start(limits, Safety::default()).await;
    let addresses = server.addresses();
    for address in [addresses.http, addresses.otlp_http.unwrap()] {
        let mut head = TcpStream::connect(address).await.unwrap();
        head.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
        let mut answer = Vec::new();
        head.read_to_end(&mut answer).await.unwrap();
        assert!(!String::from_utf8_lossy(&answer).contains("200 OK"), "half a head is no request");

        // Neither silence nor an HTTP/2 preface is a request.
        for said in [&b""[..], b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            let mut silent = TcpStream::connect(address).await.unwrap();
            silent.write_all(said).await.unwrap();
            let _ = silent.read_to_end(&mut Vec::new()).await;
        }
        for path in ["/v1/traces", "/api/tests"].into_iter().take(1 + usize::from(address == addresses.http))
        {
            let answer = half_sent(address, path).await;
            let told = answer.starts_with("HTTP/1.1 408") && answer.contains("limits.requestTimeout");
            assert!(told && answer.contains("x-request-id: mine"), "{answer}");
        }
    }
    server.shutdown().await;
}

/// Sends half a body, and returns the response until the connection is closed.
async fn half_sent(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        "Host: localhost\r\nX-Request-Id: mine\r\nContent-Type: application/json\r\nContent-Length: 10";
    stream.write_all(format!("POST {path} HTTP/1.1\r\n{head}\r\n\r\n{{").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_body_that_will_be_too_large_is_refused_before_it_comes() {
    let server = start(Limits { body_bytes: 1_000, ..Limits::default() }, Safety::default()).await;
    for path in ["/v1/traces", "/api/tests", "/api/expressions/resolve"] {
        let mut stream = TcpStream::connect(server.addresses().http).await.unwrap();
        let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 2147483648";
        stream.write_all(format!("POST {path} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.starts_with("HTTP/1.1 413") && answer.contains("limits.bodyBytes"),
            "{path}: {answer}"
        );
    }
    server.shutdown().await;
}

#[tokio::test]
async fn heads_and_bodies_have_limits() {
    let limits = Limits { header_bytes: 8 * 1024, headers: 20, body_bytes: 1_000, ..Limits::default() };
    let server = start(limits, Safety::default()).await;
    let url = format!("http://{}", server.addresses().http);
    let client = reqwest::Client::builder().http1_only().build().unwrap();
    let many = (0..40)
        .fold(client.get(format!("{url}/healthz")), |request, at| request.header(format!("x-{at}"), "1"));
    assert_eq!(many.send().await.unwrap().status().as_u16(), 431);
    let large = client.get(format!("{url}/healthz")).header("x-large", "1".repeat(20_000));
    assert_eq!(large.send().await.unwrap().status().as_u16(), 431);
    let body = client.put(format!("{url}/api/demos")).body(" ".repeat(2_000));
    assert_eq!(body.send().await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    server.shutdown().await;
}

#[tokio::test]
async fn a_request_has_an_id() {
    let server = start(Limits::default(), guarded(false)).await;
    let url = format!("http://{}", server.addresses().http);
    let id = async |path: &str, given: Option<&str>| {
        let mut request = crate::client().get(format!("{url}{path}"));
        if let Some(given) = given {
            request = request.header("x-request-id", given);
        }
        let answer = request.send().await.unwrap();
        answer.headers()["x-request-id"].to_str().unwrap().to_owned()
    };
    assert_eq!(id("/healthz", Some("my-id_1")).await, "my-id_1");
    assert_eq!(id("/api/tests/missing", Some("for-an-error")).await, "for-an-error");
    let (one, other) = (id("/healthz", None).await, id("/nowhere", None).await);
    assert!(one.len() == 32 && other.len() == 32 && one != other);
    assert_ne!(id("/healthz", Some("two words")).await, "two words");
    assert_ne!(id("/healthz", Some(&"x".repeat(200))).await, "x".repeat(200));
    server.shutdown().await;
}

#[tokio::test]
async fn triggers_stay_away_from_listed_addresses() {
    // One system under test that is allowed, and one that redirects to a denied address.
    let forbidden = serve(Router::new().route("/", get(async || "reached"))).await;
    let elsewhere = format!("http://localhost:{}/", forbidden.port());
    let numbers = format!("http://127.0.0.1:{}/", forbidden.port());
    let open = Router::new()
        .route("/", get(async || "reached"))
        .route("/by-name", get(async move || Redirect::temporary(&elsewhere)))
        .route("/by-number", get(async move || Redirect::temporary(&numbers)));
    let listener = tokio::net::TcpListener::bind(("127.0.0.2", 0)).await.unwrap();
    let open_at = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, open).await.unwrap() });

    let deny = ["127.0.0.1/32", "::1", "*.internal"].map(|rule| rule.parse().unwrap());
    let limits = Limits { deny: Deny::new(deny), ..Limits::default() };
    let server = start(limits, Safety::default()).await;
    let url = format!("http://{}", server.addresses().http);
    let http = |url: String| json!({ "type": "http", "httpRequest": { "method": "GET", "url": url } });
    let port = forbidden.port();
    let cases = [
        (http(format!("http://{open_at}/")), true),
        (http(format!("http://127.0.0.1:{port}/")), false),
        (http(format!("http://127.1:{port}/")), false),
        (http(format!("http://localhost:{port}/")), false),
        (http(format!("http://[::ffff:127.0.0.1]:{port}/")), false),
        (http("http://metadata.internal/".to_owned()), false),
        (http(format!("http://{open_at}/by-name")), false),
        (http(format!("http://{open_at}/by-number")), false),
        (
            json!({ "type": "graphql", "graphql": { "url": format!("http://127.0.0.1:{port}/"), "body": { "query": "{ a }" } } }),
            false,
        ),
        (
            json!({ "type": "grpc", "grpc": { "address": format!("localhost:{port}"), "method": "a.B.C",
                    "protobufFile": "syntax = \"proto3\"; package a; service B { rpc C(M) returns (M); } message M {}" } }),
            false,
        ),
    ];
    for (trigger, is_reached) in cases {
        let test =
            json!({ "spec": { "id": "t", "name": "t", "trigger": trigger, "skipTraceCollection": true } });
        let stored = ask(&format!("{url}/api/tests"), Method::PUT, None, &test.to_string()).await;
        assert!(stored.status().is_success(), "{}", stored.text().await.unwrap());
        let started = ask(&format!("{url}/api/tests/t/run"), Method::POST, None, "{}").await;
        let started: Value = started.json().await.unwrap();
        let run = format!("{url}/api/tests/t/run/{}", started["id"]);
        // The stream ends with the run.
        ask(&format!("{run}/events/stream"), Method::GET, None, "").await.text().await.unwrap();
        let run: Value = ask(&run, Method::GET, None, "").await.json().await.unwrap();
        let is_denied = run["lastErrorState"].as_str().is_some_and(|error| error.contains("trigger.deny"));
        assert_eq!(is_denied, !is_reached, "{trigger}: {run}");
        assert_eq!(run.to_string().contains("reached"), is_reached, "{trigger}: {run}");
    }
    // A connection test of a data store is denied as well.
    let store =
        json!({ "name": "s", "type": "jaeger", "jaeger": { "endpoint": format!("localhost:{port}") } });
    let tried = ask(&format!("{url}/api/config/connection"), Method::POST, None, &store.to_string()).await;
    let tried: Value = tried.json().await.unwrap();
    let told = tried["connectivity"]["error"].as_str().unwrap_or_default();
    assert!(told.contains("trigger.deny"), "{tried}");
    server.shutdown().await;
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}
