//! Access control over real sockets: every route with every scope, tricks with paths and methods, wrong tokens, and
//! tokens that are revoked while a stream is open.

mod session;

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::{Config, Safety};
use qualitytrace_server::http::access::{Access, RequiredAccess};
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::{DEADLINE, within};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

const FULL: &str = "full-token-0123456789abcdef";
const READ: &str = "read-token-0123456789abcdef";
const SEND: &str = "send-token-0123456789abcdef";
const WRONG: &str = "some-token-0123456789abcdef";

fn access(tokens: &[&str]) -> Access {
    Access { tokens: tokens.iter().map(|token| token.parse().unwrap()).collect(), otlp: true }
}

fn config() -> Config {
    let tokens = [format!("full:{FULL}"), format!("read:{READ}"), format!("ingest:{SEND}")];
    Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        safety: Safety { access: access(&tokens.each_ref().map(String::as_str)), ..Safety::default() },
        ..Config::default()
    }
}

struct Bench {
    server: Server,
    client: reqwest::Client,
    base: String,
}

impl Bench {
    async fn start(config: Config) -> Self {
        let server = Server::start(config).await.unwrap();
        let base = format!("http://127.0.0.1:{}", server.addresses().http.port());
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(DEADLINE).build().unwrap();
        Self { server, client, base }
    }

    fn request(&self, method: Method, path: &str, token: Option<&str>) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth)
    }

    async fn status(&self, method: &Method, path: &str, token: Option<&str>) -> u16 {
        let request = self.request(method.clone(), path, token);
        let request = if method.is_safe() { request } else { request.json(&json!({})) };
        request.send().await.unwrap().status().as_u16()
    }

    async fn put(&self, path: &str, body: &Value) {
        let request = self.request(Method::PUT, path, Some(FULL)).json(body);
        request.send().await.unwrap().error_for_status().unwrap();
    }

    async fn read(&self, path: &str) -> Value {
        let request = self.request(Method::GET, path, Some(READ)).header("accept", "application/json");
        request.send().await.unwrap().error_for_status().unwrap().json().await.unwrap()
    }
}

#[tokio::test]
async fn every_route_asks_for_the_scope_that_it_needs() {
    let bench = Bench::start(config()).await;
    let routes = bench.server.routes().to_vec();
    assert!(routes.len() > 100, "{}", routes.len());
    for route in &routes {
        // Routes that only read, although their method is not GET.
        let looks = [
            "/api/expressions/resolve",
            "/search-spans",
            "/select",
            "/dry-run",
            "/api/{version}",
            "/api/language/complete",
            "/api/language/check",
            "/describe",
            "/api/traces/{id}/test",
            "/source/edit",
            "/api/import",
        ];
        let is_look = route.method == Some(Method::GET) || looks.iter().any(|end| route.path.ends_with(end));
        let is_delivery = route.path.starts_with("/v1/") || route.path.starts_with("/opentelemetry.");
        let expected = match route.wanted {
            RequiredAccess::Health => route.path.ends_with("/healthz") || route.path == "/readyz",
            RequiredAccess::Look | RequiredAccess::Stream => is_look,
            RequiredAccess::Change => !is_look && !is_delivery && route.path != "/api/session",
            RequiredAccess::Deliver => is_delivery,
            RequiredAccess::Session => route.path == "/api/session",
        };
        assert!(expected, "{route:?}");

        let path = route.path.replace("{number}", "7").replace("{version}", "1").replace("{id}", "nothing");
        let methods: Vec<Method> = match &route.method {
            Some(method) if *method == Method::GET => vec![Method::GET, Method::HEAD],
            Some(method) => vec![method.clone()],
            None => vec![Method::GET, Method::POST, Method::DELETE],
        };
        for method in methods {
            for (token, allows) in [
                (None, &[RequiredAccess::Health, RequiredAccess::Session][..]),
                (Some(SEND), &[RequiredAccess::Health, RequiredAccess::Session, RequiredAccess::Deliver]),
                (
                    Some(READ),
                    &[
                        RequiredAccess::Health,
                        RequiredAccess::Session,
                        RequiredAccess::Look,
                        RequiredAccess::Stream,
                    ],
                ),
                (
                    Some(FULL),
                    &[
                        RequiredAccess::Health,
                        RequiredAccess::Session,
                        RequiredAccess::Look,
                        RequiredAccess::Stream,
                        RequiredAccess::Deliver,
                        RequiredAccess::Change,
                    ],
                ),
            ] {
                let status = bench.status(&method, &path, token).await;
                let refused = if token.is_none() { 401 } else { 403 };
                if allows.contains(&route.wanted) {
                    assert!(![401, 403, 429].contains(&status), "{method} {path} {token:?}: {status}");
                } else {
                    assert_eq!(status, refused, "{method} {path} {token:?}");
                }
            }
        }
    }
    // Without a token, a client does not learn that a route or a method does not exist.
    for (method, path) in [
        (Method::GET, "/nowhere"),
        (Method::POST, "/api/services"),
        (Method::DELETE, "/healthz"),
        (Method::OPTIONS, "/api/tests"),
        (Method::TRACE, "/api/tests"),
        (Method::from_bytes(b"ODD").unwrap(), "/api/tests"),
    ] {
        assert_eq!(bench.status(&method, path, None).await, 401, "{method} {path}");
        assert_eq!(bench.status(&method, path, Some(SEND)).await, 403, "{method} {path}");
        let status = bench.status(&method, path, Some(READ)).await;
        assert!([404, 405].contains(&status), "{method} {path}: {status}");
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_read_token_changes_nothing_whatever_the_path_looks_like() {
    let prefixed = Config { path_prefix: "/below".to_owned(), ..config() };
    let bench = Bench::start(prefixed).await;
    let trigger = json!({ "type": "traceid", "traceid": { "id": "x" } });
    for id in ["dry-run", "search-spans", "resolve"] {
        let test = json!({ "type": "Test", "spec": { "id": id, "name": id, "trigger": trigger } });
        bench.put("/api/tests", &test).await;
    }
    let profile = |timeout: &str| {
        let periodic = json!({ "timeout": timeout, "retryDelay": "1s" });
        json!({ "type": "PollingProfile", "spec": { "name": "p", "strategy": "periodic", "periodic": periodic } })
    };
    bench.put("/api/pollingprofiles/current", &profile("30s")).await;
    let before = (bench.read("/api/tests").await, bench.read("/api/pollingprofiles/current").await);

    let changed = profile("1s").to_string();
    for (method, path) in [
        (Method::PUT, "/api/datastores/dry-run"),
        (Method::PUT, "/api/pollingprofiles/dry-run"),
        (Method::PUT, "/api/pollingprofiles/current"),
        (Method::DELETE, "/api/tests/dry-run"),
        (Method::DELETE, "/api/tests/search-spans"),
        (Method::DELETE, "/api/tests/dry-run?x=/dry-run"),
        (Method::DELETE, "/api/tests/dry-run/"),
        (Method::DELETE, "/api/tests//dry-run"),
        (Method::DELETE, "//api/tests/dry-run"),
        (Method::DELETE, "/api/tests/%64ry-run"),
        (Method::DELETE, "/api/tests/dry-run%2F"),
        (Method::DELETE, "/api/tests/x%2Frun%2F1%2Fdry-run"),
        (Method::PUT, "/api/pollingprofiles/current%2Fdry-run"),
        (Method::DELETE, "/api/tests/x/run/1%2Fdry-run"),
        (Method::POST, "/api/tests/dry-run/run"),
        (Method::POST, "/api/tests/dry-run"),
        (Method::DELETE, "/healthz/../api/tests/dry-run"),
        (Method::DELETE, "/below/api/tests/dry-run"),
        (Method::DELETE, "/below/api/tests/dry-run/"),
        (Method::PUT, "/below/api/pollingprofiles/dry-run"),
        (Method::PUT, "/v1/traces/../../api/pollingprofiles/current"),
    ] {
        let request =
            bench.request(method.clone(), path, Some(READ)).header("content-type", "application/json");
        let status = request.body(changed.clone()).send().await.unwrap().status();
        assert!(
            status == StatusCode::FORBIDDEN || status.is_redirection() || status == 404 || status == 405,
            "{path}: {status}"
        );
    }
    for header in ["x-http-method-override", "x-http-method", "x-method-override"] {
        for method in [Method::GET, Method::HEAD, Method::POST] {
            let request = bench.request(method, "/api/tests/dry-run?_method=DELETE", Some(READ));
            request.header(header, "DELETE").send().await.unwrap();
        }
    }
    assert_eq!((bench.read("/api/tests").await, bench.read("/api/pollingprofiles/current").await), before);
    // The real `dry-run` route needs only the scope `read`: the request is allowed, and finds no run.
    assert_eq!(bench.status(&Method::PUT, "/api/tests/x/run/1/dry-run", Some(READ)).await, 404);
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_client_is_told_its_scope_and_the_addresses_in_force() {
    let bench = Bench::start(config()).await;
    for (token, scope) in [(FULL, "full"), (READ, "read")] {
        let request = bench.request(Method::GET, "/api/info", Some(token));
        let info: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!((&info["scope"], &info["tokenRequired"]), (&json!(scope), &json!(true)), "{info}");
        let address = bench.server.addresses().http.to_string();
        assert_eq!((&info["otlp"]["main"], &info["otlp"]["http"]), (&json!(address), &Value::Null));
        assert_eq!(info["otlp"]["endpoint"], format!("http://{address}"));
        assert_eq!((&info["dataStore"]["type"], &info["database"]), (&json!("otlp"), &json!("memory")));
        assert_eq!(info["commands"], false);
        assert_eq!(info["page"]["built"], info["page"]["reason"].is_null());
        assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(info["limits"]["retention"], "86400000000000");
    }
    bench.server.shutdown().await;
    let open = Bench::start(Config { safety: Safety::default(), ..config() }).await;
    let info: Value =
        open.request(Method::GET, "/api/info", None).send().await.unwrap().json().await.unwrap();
    assert_eq!((&info["scope"], &info["tokenRequired"]), (&json!("full"), &json!(false)), "{info}");
    open.server.shutdown().await;
}

#[tokio::test]
async fn wrong_tokens_are_throttled_and_right_ones_go_on() {
    let bench = Bench::start(config()).await;
    assert_eq!(bench.status(&Method::GET, "/api/tests", Some(READ)).await, 200);
    let mut refused = 0;
    let answer = loop {
        let answer = bench.request(Method::GET, "/api/tests", Some(WRONG)).send().await.unwrap();
        if answer.status() != StatusCode::UNAUTHORIZED {
            break answer;
        }
        refused += 1;
        assert!(refused < 1_000, "wrong tokens are answered for ever");
    };
    assert!(refused >= 10, "a few mistakes are forgiven: {refused}");
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "1");
    let said: Value = answer.json().await.unwrap();
    assert!(said["error"].as_str().unwrap().contains("too many wrong tokens"), "{said}");
    // Valid tokens still work, and routes without a token still need none.
    assert_eq!(bench.status(&Method::GET, "/api/tests", Some(READ)).await, 200);
    assert_eq!(bench.status(&Method::GET, "/healthz", Some(WRONG)).await, 200);
    assert_eq!(bench.status(&Method::GET, "/api/tests", None).await, 401);
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_withdrawn_token_ends_its_streams_and_sockets_and_no_others() {
    let bench = Bench::start(config()).await;
    // A peer that accepts connections and never responds.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let request = json!({ "method": "GET", "url": url, "timeout": "10m" });
    let trigger = json!({ "type": "http", "httpRequest": request });
    bench
        .put("/api/tests", &json!({ "type": "Test", "spec": { "id": "t", "name": "t", "trigger": trigger } }))
        .await;
    assert_eq!(bench.status(&Method::POST, "/api/tests/t/run", Some(FULL)).await, 200);
    let stream = async |token: &str| {
        let answer = bench.request(Method::GET, "/api/tests/t/run/1/events/stream", Some(token)).send().await;
        let mut answer = answer.unwrap().error_for_status().unwrap();
        assert!(answer.chunk().await.unwrap().is_some());
        answer
    };
    let (mut own, mut other) = (stream(READ).await, stream(FULL).await);
    let mut request = (bench.base.replace("http://", "ws://") + "/ws").into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {READ}").parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let subscribe = json!({ "type": "subscribe", "resource": "test/t/run/1" }).to_string();
    socket.send(Message::Text(subscribe.into())).await.unwrap();
    let heard = socket.next().await.unwrap().unwrap();
    assert!(heard.is_text() || heard.is_ping(), "{heard:?}");

    let mut changed = config();
    changed.safety.access = access(&[&format!("full:{FULL}")]);
    assert_eq!(bench.server.reload(changed, false), []);
    let ended = within(DEADLINE, "streams and sockets of a withdrawn token end", async {
        while own.chunk().await.unwrap().is_some() {}
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(Some(frame)))) => break frame,
                Some(Ok(_)) => {}
                ended => panic!("the socket ends without a word: {ended:?}"),
            }
        }
    });
    let frame = ended.await;
    assert_eq!(u16::from(frame.code), 1008, "{frame:?}");
    assert_eq!(bench.status(&Method::GET, "/api/tests", Some(READ)).await, 401);

    // The stream of another token continues to the end of the run.
    assert_eq!(bench.status(&Method::POST, "/api/tests/t/run/1/stop", Some(FULL)).await, 200);
    let rest = within(DEADLINE, "the stream of the other token ends", async {
        let mut rest = String::new();
        while let Some(chunk) = other.chunk().await.unwrap() {
            rest.push_str(&String::from_utf8_lossy(&chunk));
        }
        rest
    });
    assert!(rest.await.contains("\"stopped\""));
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_stream_without_a_token_ends_when_tokens_are_asked_for() {
    let open = Config { safety: Safety::default(), ..config() };
    let bench = Bench::start(open).await;
    let (mut socket, _) =
        tokio_tungstenite::connect_async(bench.base.replace("http://", "ws://") + "/ws").await.unwrap();
    assert_eq!(bench.server.reload(config(), false), []);
    let ended = async { while !matches!(socket.next().await, Some(Ok(Message::Close(_))) | None) {} };
    within(DEADLINE, "the socket ends", ended).await;
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_others_reach_without_a_token_runs_no_commands() {
    for (host, tokens, expected) in [
        ([0, 0, 0, 0], vec![], "without a token"),
        ([0, 0, 0, 0], vec![format!("full:{FULL}")], ""),
        ([127, 0, 0, 1], vec![], ""),
    ] {
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let bench = Bench::start(Config {
            http: SocketAddr::from((host, 0)),
            limits: Limits { commands: true, ..Limits::default() },
            safety: Safety { access: access(&tokens), ..Safety::default() },
            ..config()
        })
        .await;
        let trigger = json!({ "type": "exec", "exec": { "command": ["true"] } });
        let test = json!({ "id": "t", "name": "t", "trigger": trigger, "skipTraceCollection": true });
        bench.put("/api/tests", &json!({ "type": "Test", "spec": test })).await;
        assert_eq!(bench.status(&Method::POST, "/api/tests/t/run", Some(FULL)).await, 200);
        let stream = bench.request(Method::GET, "/api/tests/t/run/1/events/stream", Some(FULL));
        let stream = stream.send().await.unwrap().text();
        let told = stream.await.unwrap();
        assert_eq!(told.contains("triggerFailed"), !expected.is_empty(), "{host:?} {told}");
        assert!(told.contains(expected), "{host:?} {told}");
        bench.server.shutdown().await;
    }
}
