//! Runs whose trace is in a data store: real ones, and stand-ins that check what they are asked.

mod clickhouse;
mod clickhouse_table;
mod hostile;
mod jaeger;
mod jaeger_on_opensearch;
mod masked_secrets;
mod over_http;
mod parts;
mod patience;
mod real;
mod search;
mod sigv4;
mod stand_in;
mod tempo;
mod tls;
mod wrong_settings;
mod xray;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::{DEADLINE, within};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The trace and the span of the request that a system under test received.
type Caused = Arc<Mutex<Option<(String, String)>>>;

/// A server, and a system under test that remembers the context of its last request.
struct Bench {
    server: Server,
    client: reqwest::Client,
    url: String,
    subject: String,
    caused: Caused,
    requests: mpsc::UnboundedReceiver<(String, String)>,
}

type Subject = (Caused, mpsc::UnboundedSender<(String, String)>);

impl Bench {
    async fn start() -> Self {
        Self::start_within(Limits::default()).await
    }

    async fn start_within(limits: Limits) -> Self {
        Self::start_as(Config { limits, ..Config::default() }).await
    }

    async fn start_as(config: Config) -> Self {
        let http = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = Config { http, otlp_grpc: None, otlp_http: None, ..config };
        let server = Server::start(config).await.unwrap();
        let url = format!("http://{}", server.addresses().http);
        let caused = Caused::default();
        let (sent, requests) = mpsc::unbounded_channel();
        let router = Router::new().route("/", get(answer)).with_state::<()>((Arc::clone(&caused), sent));
        let subject = format!("http://{}", serve(router).await);
        let bench = Self { server, client: crate::client(), url, subject, caused, requests };
        bench.give_up_after("8s").await;
        bench
    }

    /// Sets the timeout of the polling profile. Its windows are short: a first run waits for one of them.
    async fn give_up_after(&self, timeout: &str) {
        let profile = json!({ "id": "current", "name": "p", "strategy": "periodic", "default": true,
            "periodic": { "timeout": timeout, "retryDelay": "1s", "quiet": "50ms", "settle": "300ms" } });
        self.put("/api/pollingprofiles/current", &json!({ "type": "PollingProfile", "spec": profile })).await;
    }

    async fn put(&self, path: &str, body: &Value) -> Value {
        let sent = self.client.put(format!("{}{path}", self.url)).json(body).send().await.unwrap();
        let (status, text) = (sent.status(), sent.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.client.get(format!("{}{path}", self.url)).header("accept", "application/json");
        request.send().await.unwrap().json().await.unwrap()
    }

    /// Stores the data store.
    async fn store(&self, store: &Value) {
        self.put("/api/datastores/current", &json!({ "type": "DataStore", "spec": store })).await;
    }

    /// Tests the connection to a data store.
    async fn connection(&self, store: &Value) -> Value {
        let path = format!("{}/api/config/connection", self.url);
        self.client.post(path).json(store).send().await.unwrap().json().await.unwrap()
    }

    /// Runs a test of the system with these specs, and returns the run when it has ended.
    async fn run(&self, specs: &Value) -> Value {
        let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("{}/", self.subject) } });
        let test = json!({ "id": "t", "name": "T", "trigger": trigger, "specs": specs });
        self.put("/api/tests", &json!({ "type": "Test", "spec": test })).await;
        let started = self.client.post(format!("{}/api/tests/t/run", self.url)).body("{}");
        let started: Value =
            started.header("content-type", "application/json").send().await.unwrap().json().await.unwrap();
        let path = format!("/api/tests/t/run/{}", started["id"]);
        // The stream ends with the run.
        let stream = self.client.get(format!("{}{path}/events/stream", self.url)).send();
        within(DEADLINE, "the run ends", async { stream.await.unwrap().text().await.unwrap() }).await;
        self.get(&path).await
    }

    /// Runs with a data store, and expects one span `handle` below the trigger, with one span `query` below it.
    async fn passes_with(&self, store: &Value) -> Value {
        self.store(store).await;
        let one = "attr:tracetest.selected_spans.count = 1";
        let specs = json!([
            { "selector": "span[name = \"handle\"]", "assertions": [one, "attr:shop.id = 7"] },
            { "selector": "span[name = \"handle\"] span[name = \"query\"]", "assertions": [one] },
        ]);
        let run = self.run(&specs).await;
        assert_eq!(run["state"], "FINISHED", "{run}");
        assert_eq!(run["result"]["allPassed"], true, "{run}");
        run
    }
}

async fn answer(State((caused, sent)): State<Subject>, headers: http::HeaderMap) -> &'static str {
    let parent = headers["traceparent"].to_str().unwrap();
    let parts: Vec<&str> = parent.split('-').collect();
    let context = (parts[1].to_owned(), parts[2].to_owned());
    *caused.lock().unwrap() = Some(context.clone());
    let _ = sent.send(context);
    "done"
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}
