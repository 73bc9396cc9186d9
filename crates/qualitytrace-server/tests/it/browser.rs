//! What a real browser lets web pages do with a server that only its user can reach.

mod chromium;
mod modules;
mod web;

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use chromium::{Chromium, Page};
use qualitytrace_server::config::{Config, Safety};
use qualitytrace_server::http::access::Access;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use web::{Wire, foreign_site};

const FULL: &str = "full-token-0123456789abcdef";
/// Another valid token, which a page tries to put into the session of the user.
const OTHER: &str = "other-token-0123456789abcdef";
/// What the server has to hide.
const SECRET: &str = "nothing-for-strangers";
/// Every way of a page: a function of the base of the server, the base of another site, what is hidden, and a token.
const WAYS: &str = include_str!("browser/ways.js");
/// The ways that a browser refuses without asking the server, if the page has another origin.
const REFUSED_AT_ONCE: [&str; 1] = ["worker"];
/// The ways that tell a page after DNS rebinding that a token is required, and drop the cookie of its own name.
const OF_SESSIONS: [&str; 2] = ["fetch_session", "log_out"];
/// A name for which browsers send no `Sec-Fetch-...` headers, because it does not lead to the browser's own machine.
const LAN: &str = "lan.test";
const EVIL: &str = "evil.test";

/// The outcome of one way.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttackOutcome {
    way: String,
    /// Whether it works in a page of the server itself.
    at_home: bool,
    /// What the page got.
    got: String,
}

/// A server, the wire that a browser reaches it by, and a client that is no browser.
struct Bench {
    server: Server,
    wire: Wire,
    client: reqwest::Client,
    token: Option<&'static str>,
}

impl Bench {
    async fn start(token: Option<&'static str>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let tokens = token.map(|token| [format!("full:{token}"), format!("read:{OTHER}")]);
        let tokens = tokens.iter().flatten().map(|token| token.parse().unwrap()).collect();
        let safety = Safety {
            access: Access { tokens, otlp: false },
            hosts: vec![LAN.parse().unwrap()],
            ..Safety::default()
        };
        let config = Config { http: any, otlp_grpc: None, otlp_http: Some(any), safety, ..Config::default() };
        let server = Server::start(config).await.unwrap();
        let wire = Wire::to(server.addresses().http).await;
        let bench = Self { server, wire, client: crate::client(), token };
        bench.fill().await;
        bench
    }

    /// Stores what pages try to read and to change.
    async fn fill(&self) {
        let trigger =
            json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/" } });
        let test = json!({ "id": "t", "name": SECRET, "trigger": trigger, "skipTraceCollection": true });
        let values = json!([{ "key": "K", "value": "v" }]);
        for (path, spec) in [
            ("/api/tests", test),
            ("/api/variablesets", json!({ "id": "v", "name": "v", "values": values })),
            ("/api/demos", json!({ "id": "d", "name": "d", "type": "pokeshop", "enabled": true })),
        ] {
            assert_eq!(self.ask(Method::POST, path, Some(json!({ "spec": spec }))).await.0, 201, "{path}");
        }
        assert_eq!(self.ask(Method::POST, "/api/tests/t/run", Some(json!({}))).await.0, 200);
        eventually(DEADLINE, "the run ends", async || {
            let (_, run) = self.ask(Method::GET, "/api/tests/t/run/1", None).await;
            run["completedAt"].as_str().is_some_and(|at| !at.starts_with("0001"))
        })
        .await;
    }

    /// Sends a request as curl does.
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let url = format!("http://127.0.0.1:{}{path}", self.wire.port);
        let request = self.client.request(method, url).header("accept", "application/json");
        let request = self.token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        let request = body.iter().fold(request, reqwest::RequestBuilder::json);
        let got = request.send().await.unwrap();
        (got.status().as_u16(), got.json().await.unwrap_or_default())
    }

    /// Everything that a page might have changed. The audit log has an entry for each change.
    async fn state(&self) -> Vec<Value> {
        let mut state = Vec::new();
        for path in [
            "tests",
            "tests/t/run",
            "variablesets",
            "testsuites",
            "demos",
            "configs",
            "datastores",
            "pollingprofiles",
            "testrunners",
            "analyzers",
            "audit",
        ] {
            let (status, shown) = self.ask(Method::GET, &format!("/api/{path}"), None).await;
            assert_eq!(status, 200, "{path}");
            state.push(shown);
        }
        state
    }

    /// Opens the server's own page, and signs in there if the server requires a token.
    async fn sign_in(&self, chromium: &mut Chromium, host: &str) {
        let page = chromium.open(&format!("http://{host}:{}/", self.wire.port)).await;
        if let Some(token) = self.token {
            let login = json!({ "method": "POST", "headers": { "content-type": "application/json" },
                "body": json!({ "token": token }).to_string() });
            let status = format!("fetch('/api/session', {login}).then((got) => got.status)");
            assert_eq!(chromium.evaluate(&page, &status).await, 204);
        }
    }

    /// Tries every way from a page. `host` is the name by which the page knows the server, and `token` the one that it sends.
    async fn tried(
        &self,
        chromium: &mut Chromium,
        page: &Page,
        [host, token]: [&str; 2],
        site: u16,
    ) -> Vec<AttackOutcome> {
        self.wire.forget();
        let base = json!(format!("http://{host}:{}", self.wire.port));
        let foreign = json!(format!("http://{EVIL}:{site}"));
        let call = format!("({WAYS})({base}, {foreign}, {}, {})", json!(SECRET), json!(token));
        let tried: Vec<AttackOutcome> = serde_json::from_value(chromium.evaluate(page, &call).await).unwrap();
        assert!(tried.len() >= 60, "{}", tried.len());
        // Some requests are sent without a response that the page would see.
        let sent: Vec<&str> = tried
            .iter()
            .map(|tried| tried.way.as_str())
            .filter(|way| !REFUSED_AT_ONCE.contains(way))
            .collect();
        eventually(DEADLINE, "every way reaches the server", async || {
            let missing = self.wire.missing(&sent);
            if missing.is_empty() { Ok(()) } else { Err(format!("without {}", missing.join(", "))) }
        })
        .await;
        tried
    }
}

#[tokio::test]
async fn a_page_of_another_origin_reads_and_changes_nothing_in_any_way() {
    let Some(mut chromium) = Chromium::start(&[LAN, EVIL]).await else { return };
    let site = foreign_site(Router::new()).await;
    for token in [None, Some(FULL)] {
        let bench = Bench::start(token).await;
        let port = bench.wire.port;
        for host in ["127.0.0.1", LAN] {
            bench.sign_in(&mut chromium, host).await;
        }
        let before = bench.state().await;
        for (page, host, sent) in [
            // Another port of the same host: the cookie of the session is sent along.
            (format!("http://127.0.0.1:{site}/"), "127.0.0.1", OTHER),
            (format!("http://{EVIL}:{site}/"), "127.0.0.1", OTHER),
            (format!("http://{LAN}:{site}/"), LAN, OTHER),
            // DNS rebinding: the name of the page leads to the server now, so that both have the same origin.
            (format!("http://{EVIL}:{port}/nowhere"), EVIL, "a-guess-of-a-token"),
        ] {
            let tab = chromium.open(&page).await;
            let tried = bench.tried(&mut chromium, &tab, [host, sent], site).await;
            let is_rebound = host == EVIL && token.is_some();
            let is_refused = |tried: &AttackOutcome| {
                tried.got.is_empty() || is_rebound && OF_SESSIONS.contains(&&*tried.way)
            };
            let through: Vec<&AttackOutcome> = tried.iter().filter(|tried| !is_refused(tried)).collect();
            assert!(through.is_empty(), "{page} on {host}, token {token:?}: {through:#?}");
        }
        assert_eq!(bench.state().await, before, "token {token:?}");

        // The same ways work in a page of the server, and its user is still signed in.
        let tab = chromium.open(&format!("http://127.0.0.1:{port}/")).await;
        let held = chromium.evaluate(&tab, "fetch('/api/session').then((got) => got.json())").await;
        assert_eq!(held, json!({ "required": token.is_some(), "scope": "full" }));
        let tried = bench.tried(&mut chromium, &tab, ["127.0.0.1", OTHER], site).await;
        let failed: Vec<&AttackOutcome> =
            tried.iter().filter(|tried| tried.at_home && tried.got.is_empty()).collect();
        assert!(failed.is_empty(), "token {token:?}: {failed:#?}");
        assert_ne!(bench.state().await, before);
        // And for a client that is no browser.
        let set = json!({ "spec": { "id": "curl", "name": "curl", "values": [] } });
        for (method, path, body, expected) in [
            (Method::GET, "/api/tests", None, 200),
            (Method::POST, "/api/variablesets", Some(set), 201),
            (Method::POST, "/api/tests/t/run", Some(json!({})), 200),
            (Method::DELETE, "/api/variablesets/curl", None, 204),
        ] {
            assert_eq!(bench.ask(method, path, body).await.0, expected, "{path}, token {token:?}");
        }
        bench.server.shutdown().await;
    }
    chromium.close().await;
}

#[tokio::test]
async fn an_exporter_in_a_page_of_another_origin_delivers_its_spans() {
    let Some(mut chromium) = Chromium::start(&[EVIL]).await else { return };
    let site = foreign_site(Router::new()).await;
    for (number, token) in [(1, None), (2, Some(FULL))] {
        let bench = Bench::start(token).await;
        let tab = chromium.open(&format!("http://{EVIL}:{site}/")).await;
        let addresses = bench.server.addresses();
        for (span, address) in [(1, addresses.http), (2, addresses.otlp_http.unwrap())] {
            let trace = format!("{:032x}", number * 16 + span);
            let span = json!({
                "traceId": trace, "spanId": format!("{span:016x}"), "name": "click", "kind": 3,
                "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000000000100",
            });
            let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] }).to_string();
            // As exporters send it: with a content type and headers that need a preflight request.
            let headers = json!({ "content-type": "application/json", "x-any": "1" });
            let options = json!({ "method": "POST", "headers": headers, "body": body, "keepalive": true });
            let sent = format!("fetch('http://{address}/v1/traces', {options}).then((got) => got.status)");
            assert_eq!(chromium.evaluate(&tab, &sent).await, 200, "{address}");
            let (status, _) = bench.ask(Method::GET, &format!("/api/traces/{trace}"), None).await;
            assert_eq!(status, 200);
        }
        bench.server.shutdown().await;
    }
    chromium.close().await;
}

#[tokio::test]
async fn the_sdk_in_a_page_of_another_origin_delivers_its_spans() {
    let Some(mut chromium) = Chromium::start(&[EVIL]).await else { return };
    let Some(systems) = std::env::var_os("QUALITYTRACE_TEST_SYSTEMS") else {
        assert!(std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(), "QUALITYTRACE_TEST_SYSTEMS is not set");
        println!("skipped: QUALITYTRACE_TEST_SYSTEMS is not set");
        return;
    };
    let installed = Path::new(&systems).join("node/node_modules");
    let [sdk, exporter] = ["sdk-trace", "exporter-trace-otlp-http"]
        .map(|package| json!(modules::address(&installed, &format!("@opentelemetry/{package}"))));
    let site = foreign_site(modules::routes(installed)).await;
    let bench = Bench::start(None).await;
    let url = json!(format!("http://{}/v1/traces", bench.server.addresses().otlp_http.unwrap()));
    let tab = chromium.open(&format!("http://{EVIL}:{site}/")).await;
    let script = format!(
        "(async () => {{
            const {{ TracerProvider, SimpleSpanProcessor }} = await import({sdk});
            const {{ OTLPTraceExporter }} = await import({exporter});
            const processor = new SimpleSpanProcessor({{ exporter: new OTLPTraceExporter({{ url: {url} }}) }});
            const provider = new TracerProvider({{ spanProcessors: [processor] }});
            const span = provider.getTracer('page').startSpan('click');
            span.end();
            await provider.forceFlush();
            return span.spanContext().traceId;
        }})()"
    );
    let trace = chromium.evaluate(&tab, &script).await;
    let path = format!("/api/traces/{}", trace.as_str().unwrap());
    eventually(DEADLINE, "the span is there", async || {
        let (status, shown) = bench.ask(Method::GET, &path, None).await;
        if status == 200 && shown.to_string().contains("click") { Ok(()) } else { Err(shown) }
    })
    .await;
    bench.server.shutdown().await;
    chromium.close().await;
}
