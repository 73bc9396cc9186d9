//! Requests of foreign web pages to a server on this machine, as browsers send them, over real sockets.

use std::net::SocketAddr;

use qualitytrace_server::config::{Config, Safety};
use qualitytrace_server::http::access::Access;
use qualitytrace_server::serve::server::Server;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

const TOKEN: &str = "full-token-0123456789abcdef";

async fn start(safety: Safety) -> (Server, String) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config { http: any, otlp_grpc: None, otlp_http: None, safety, ..Config::default() };
    let server = Server::start(config).await.unwrap();
    let base = format!("http://{}", server.addresses().http);
    (server, base)
}

async fn ask(method: &Method, url: &str, headers: &[(&str, &str)], body: &str) -> StatusCode {
    let request = crate::client().request(method.clone(), url).body(body.to_owned());
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.send().await.unwrap().status()
}

fn demo() -> String {
    json!({ "spec": { "id": "a", "name": "a", "type": "pokeshop", "enabled": true } }).to_string()
}

#[tokio::test]
async fn a_page_of_another_origin_changes_nothing_and_hears_nothing() {
    let tokens = vec![format!("full:{TOKEN}").parse().unwrap()];
    let guarded = Safety { access: Access { tokens, otlp: false }, ..Safety::default() };
    let bearer = format!("Bearer {TOKEN}");
    for safety in [Safety::default(), guarded] {
        let (server, base) = start(safety).await;
        let port = server.addresses().http.port();
        let own = format!("http://127.0.0.1:{port}");
        let neighbour = format!("http://127.0.0.1:{}", port - 1);
        let (json, auth) = (("content-type", "application/json"), ("authorization", bearer.as_str()));
        for (headers, expected) in [
            (vec![], 201),
            (vec![("origin", own.as_str())], 200),
            (vec![("origin", own.as_str()), ("sec-fetch-site", "same-origin")], 200),
            (vec![("origin", "http://evil.example")], 403),
            (vec![("origin", neighbour.as_str())], 403),
            (vec![("origin", "null")], 403),
            (vec![("origin", "file://")], 403),
            (vec![("origin", "")], 403),
            (vec![("origin", own.as_str()), ("sec-fetch-site", "same-site")], 403),
            (vec![("sec-fetch-site", "cross-site")], 403),
        ] {
            let all = [&[json, auth][..], &headers].concat();
            let status = ask(&Method::PUT, &format!("{base}/api/demos"), &all, &demo()).await;
            assert_eq!(status.as_u16(), expected, "{headers:?}");
        }
        // Streams and sockets are refused; a link may be followed, and OTLP is open to all pages.
        let evil = ("origin", "http://evil.example");
        let link = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        for (method, path, headers, expected) in [
            (Method::GET, "/api/tests/t/run/1/events/stream", vec![auth, evil], 403),
            (Method::GET, "/api/testsuites/t/run/1/events/stream", vec![auth, evil], 403),
            (Method::GET, "/api/tests/t/run/1/events/stream", [&[auth][..], &link].concat(), 403),
            (Method::GET, "/ws", vec![auth, evil], 403),
            (Method::GET, "/api/tests", [&[auth][..], &link].concat(), 200),
            (Method::OPTIONS, "/api/tests", vec![auth, evil], 403),
            (Method::POST, "/v1/traces", vec![json, evil], 200),
        ] {
            let body = if method == Method::POST { "{}" } else { "" };
            let status = ask(&method, &format!("{base}{path}"), &headers, body).await;
            assert_eq!(status.as_u16(), expected, "{method} {path} {headers:?}");
        }
        for (origin, is_own) in [("http://evil.example", false), ("null", false), (own.as_str(), true)] {
            let mut request = (base.replace("http://", "ws://") + "/ws").into_client_request().unwrap();
            request.headers_mut().insert("origin", origin.parse().unwrap());
            request.headers_mut().insert("authorization", bearer.parse().unwrap());
            match tokio_tungstenite::connect_async(request).await {
                Ok(_) => assert!(is_own, "{origin}"),
                Err(Error::Http(answer)) => assert_eq!((answer.status().as_u16(), is_own), (403, false)),
                Err(other) => panic!("{other}"),
            }
        }
        server.shutdown().await;
    }
}

#[tokio::test]
async fn browsers_keep_responses_from_pages_of_other_origins() {
    let (server, base) = start(Safety::default()).await;
    let headers = [
        ("cross-origin-resource-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "frame-ancestors 'self'"),
    ];
    for (path, origin, is_kept) in [
        ("/", None, true),
        ("/metrics", None, true),
        ("/api/tests", None, true),
        ("/api/tests", Some("http://evil.example"), true),
        ("/nowhere", None, true),
        ("/v1/traces", Some("http://evil.example"), false),
    ] {
        let method = if is_kept { Method::GET } else { Method::POST };
        let request = crate::client().request(method, format!("{base}{path}"));
        let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
        let got = request.header("content-type", "application/json").body("{}").send().await.unwrap();
        let has = |(name, value): &(&str, &str)| got.headers().get(*name).is_some_and(|got| got == value);
        assert_eq!(headers.iter().all(has), is_kept, "{path} {:?}", got.headers());
        let is_shared = got.headers().contains_key("access-control-allow-origin");
        assert_eq!(is_shared, !is_kept, "{path} {:?}", got.headers());
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_body_says_that_it_is_json_or_yaml() {
    let (server, base) = start(Safety::default()).await;
    let own = base.clone();
    for (content_type, expected) in [
        (Some("application/json"), true),
        (Some("APPLICATION/JSON; charset=utf-8"), true),
        (Some("text/json"), true),
        (Some("application/vnd.qualitytrace+json"), true),
        (Some("application/yaml"), true),
        (Some("application/x-yaml"), true),
        (Some("text/yaml"), true),
        (Some("text/x-yaml; charset=utf-8"), true),
        (None, true),
        (Some(""), true),
        (Some("text/plain"), false),
        (Some("text/plain; application/json"), false),
        (Some("text/plain;charset=application/json"), false),
        (Some("application/x-www-form-urlencoded"), false),
        (Some("multipart/form-data; boundary=x"), false),
        (Some("application/xml"), false),
        (Some("application/octet-stream"), false),
        (Some("+json"), false),
        (Some("json"), false),
    ] {
        for path in ["/api/demos", "/api/expressions/resolve"] {
            let method = if path == "/api/demos" { Method::PUT } else { Method::POST };
            let headers: Vec<_> = content_type.iter().map(|kind| ("content-type", *kind)).collect();
            let status = ask(&method, &format!("{base}{path}"), &headers, &demo()).await;
            let is_refused = status == StatusCode::UNSUPPORTED_MEDIA_TYPE;
            assert_eq!(is_refused, !expected, "{path} {content_type:?}: {status}");
        }
    }
    // A page must send a content type.
    let status = ask(&Method::PUT, &format!("{base}/api/demos"), &[("origin", &own)], &demo()).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let twice = [("content-type", "application/json"), ("content-type", "text/plain")];
    let status = ask(&Method::PUT, &format!("{base}/api/demos"), &twice, &demo()).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    // Without a body, no content type is needed.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let status = ask(&Method::POST, &format!("{base}/api/tests/t/run/1/rerun"), &form, "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_without_tokens_answers_to_its_own_names_only() {
    let hosts = ["shop.test", "*.corp.test:8080"].map(|host| host.parse().unwrap()).to_vec();
    let (server, base) = start(Safety { hosts, ..Safety::default() }).await;
    for (host, expected) in [
        ("localhost", 200),
        ("LocalHost.:80", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:11633", 200),
        ("shop.test", 200),
        ("SHOP.test.:11633", 200),
        ("a.corp.test:8080", 200),
        ("a.corp.test", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("10.1.2.3", 421),
        ("0.0.0.0", 421),
        ("[::ffff:10.1.2.3]", 421),
        ("localhost:http", 421),
    ] {
        let status = ask(&Method::GET, &format!("{base}/api/tests"), &[("host", host)], "").await;
        assert_eq!(status.as_u16(), expected, "{host}");
        let status = ask(&Method::GET, &format!("{base}/nowhere"), &[("host", host)], "").await;
        assert_eq!(status.as_u16(), if expected == 200 { 404 } else { 421 }, "{host}");
    }
    // With DNS rebinding, a page has the same origin as the server; exporters may use any host name.
    let rebound = [
        ("host", "evil.example:80"),
        ("origin", "http://evil.example"),
        ("content-type", "application/json"),
    ];
    let status = ask(&Method::PUT, &format!("{base}/api/demos"), &rebound, &demo()).await;
    assert_eq!(status.as_u16(), 421);
    assert_eq!(ask(&Method::POST, &format!("{base}/v1/traces"), &rebound, "{}").await, StatusCode::OK);
    assert_eq!(ask(&Method::GET, &format!("{base}/healthz"), &rebound, "").await, StatusCode::OK);
    server.shutdown().await;

    let tokens = vec![format!("full:{TOKEN}").parse().unwrap()];
    let (server, base) = start(Safety { access: Access { tokens, otlp: false }, ..Safety::default() }).await;
    let bearer = format!("Bearer {TOKEN}");
    let named = [("host", "anything.example"), ("authorization", bearer.as_str())];
    assert_eq!(ask(&Method::GET, &format!("{base}/api/tests"), &named, "").await, StatusCode::OK);
    server.shutdown().await;
}

#[tokio::test]
async fn a_page_of_ours_behind_a_proxy_that_speaks_tls_goes_on_working() {
    let hosts = vec!["shop.test".parse().unwrap()];
    let (server, base) = start(Safety { hosts, ..Safety::default() }).await;
    let json = ("content-type", "application/json");
    for (headers, expected) in [
        // The proxy may forward the host name, or not.
        ([("host", "shop.test"), ("origin", "https://shop.test")], true),
        ([("x-forwarded-host", "shop.test"), ("origin", "https://shop.test")], true),
        ([("host", "shop.test"), ("origin", "https://evil.test")], false),
        ([("x-forwarded-host", "evil.test"), ("origin", "https://evil.test")], false),
    ] {
        let all = [&[json][..], &headers].concat();
        let status = ask(&Method::PUT, &format!("{base}/api/demos"), &all, &demo()).await;
        assert_eq!(status.is_success(), expected, "{headers:?}: {status}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn over_http_2_the_host_stands_in_the_address() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let path_prefix = "/below".to_owned();
    let config = Config { http: any, otlp_grpc: None, otlp_http: None, path_prefix, ..Config::default() };
    let server = Server::start(config).await.unwrap();
    let address = server.addresses().http;
    let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy();
    let client = client.resolve("evil.example", address).build().unwrap();
    for path in ["/", "/api/tests", "/below", "/below/", "/below/api/tests"] {
        for (host, expected) in [("127.0.0.1", 200), ("evil.example", 421)] {
            let url = format!("http://{host}:{}{path}", address.port());
            let answer = client.get(&url).send().await.unwrap();
            assert_eq!(answer.version(), reqwest::Version::HTTP_2);
            assert_eq!(answer.status().as_u16(), expected, "{url}");
        }
    }
    server.shutdown().await;
}
