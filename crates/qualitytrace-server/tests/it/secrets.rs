//! Secrets: sealed in the database, redacted in everything that is shown, and used where they are needed.

mod disguises;
mod traces;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use base64::Engine as _;
use qualitytrace_core::wait::Policy;
use qualitytrace_server::config::{Config, Safety};
use qualitytrace_server::serve::server::{self, Server};
use qualitytrace_server::storage::provision::Provisioning;
use qualitytrace_server::storage::vault::KeySource;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::{Column as _, Connection as _, Row as _};

use crate::databases::{Database, on_every_database};

on_every_database!(
    a_secret_is_sealed_and_masked_in_variable_sets_and_data_stores,
    a_mask_that_is_sent_back_keeps_the_secret,
    a_run_uses_a_secret_and_shows_it_nowhere,
    what_a_step_gives_out_stays_secret_and_is_handed_on,
);

const SECRET: &str = "hunter2-\"s3cr3t\"/é";
const MASK: &str = "********";

struct Bench {
    server: Server,
    client: reqwest::Client,
    url: String,
}

impl Bench {
    async fn new(database: &Database) -> Self {
        let server = start(&database.url, KeySource::Memory).await.unwrap();
        let url = format!("http://{}", server.addresses().http);
        Self { server, client: crate::client(), url }
    }

    async fn send(&self, method: Method, path: &str, accept: &str, body: &str) -> (StatusCode, String) {
        let content_type = if body.starts_with('{') { "application/json" } else { "text/yaml" };
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = request.header("accept", accept).header("content-type", content_type);
        let response = request.body(body.to_owned()).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    async fn put(&self, path: &str, body: &Value) -> Value {
        let (status, text) = self.send(Method::PUT, path, "application/json", &body.to_string()).await;
        assert!(status.is_success(), "{status}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        let (status, text) = self.send(Method::GET, path, "application/json", "").await;
        assert!(status.is_success(), "{path}: {status}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Stops the server and returns the content of the database as text.
    async fn stop_and_dump(self, database: &Database) -> String {
        // A database in memory is gone with its server; its content would be that of a file.
        self.server.shutdown().await;
        dump(&database.url).await
    }
}

async fn start(database_url: &str, key: KeySource) -> Result<Server, server::Error> {
    Server::start(Config { safety: Safety { key, ..Safety::default() }, ..config(database_url) }).await
}

fn config(database_url: &str) -> Config {
    Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        database_url: database_url.to_owned(),
        wait: Policy {
            quiet: Duration::from_millis(30),
            settle: Duration::from_millis(120),
            ..Policy::default()
        },
        ..Config::default()
    }
}

async fn dump(url: &str) -> String {
    if let Some(path) = url.strip_prefix("sqlite://") {
        let files = std::fs::read_dir(Path::new(path).parent().unwrap()).unwrap();
        let bytes = files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>();
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    if url.starts_with("sqlite") {
        return String::new();
    }
    let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
    let mut out = String::new();
    for table in tables {
        let rows = sqlx::AssertSqlSafe(format!("SELECT to_jsonb(t)::text AS row FROM {table} t"));
        for row in sqlx::query(rows).fetch_all(&mut connection).await.unwrap() {
            for column in row.columns() {
                let value = row.try_get_raw(column.ordinal()).unwrap();
                out.push_str(&String::from_utf8_lossy(value.as_bytes().unwrap()));
            }
        }
    }
    out
}

/// Fails if a text contains the secret, as it is or encoded.
fn assert_hidden(what: &str, text: &str) {
    let in_json = Value::from(SECRET).to_string();
    let base64 = base64::engine::general_purpose::STANDARD.encode(SECRET);
    let disguises = [SECRET, in_json.trim_matches('"'), "hunter2", "s3cr3t", &base64[..12]];
    for disguise in disguises {
        assert!(!text.contains(disguise), "{what} holds `{disguise}`: {text}");
    }
}

fn set() -> Value {
    let values = json!([
        { "key": "PASSWORD", "value": SECRET, "type": "secret" },
        { "key": "HOST", "value": "seen-value" },
    ]);
    json!({ "type": "VariableSet", "spec": { "id": "set", "name": "set", "values": values } })
}

fn stores() -> Vec<(&'static str, Value)> {
    vec![
        (
            "elasticapm",
            json!({ "addresses": ["http://seen-value:9200"], "username": "u", "password": SECRET }),
        ),
        ("signalfx", json!({ "realm": "seen-value", "token": SECRET })),
        ("awsxray", json!({ "region": "seen-value", "secretAccessKey": SECRET, "sessionToken": SECRET })),
        ("azureappinsights", json!({ "resourceArmId": "seen-value", "accessToken": SECRET })),
        ("sumologic", json!({ "url": "http://seen-value", "accessID": "i", "accessKey": SECRET })),
        (
            "tempo",
            json!({ "type": "http", "http": { "url": "seen-value", "headers": { "authorization": SECRET } } }),
        ),
        ("jaeger", json!({ "endpoint": "seen-value:16685", "headers": { "x-api-key": SECRET } })),
    ]
}

async fn a_secret_is_sealed_and_masked_in_variable_sets_and_data_stores(database: &Database) {
    let bench = Bench::new(database).await;
    let stored = bench.put("/api/variablesets", &set()).await;
    assert_eq!(stored["spec"]["values"][0], json!({ "key": "PASSWORD", "value": MASK, "type": "secret" }));
    let yaml = format!(
        "type: VariableSet\nspec:\n  id: yaml\n  name: y\n  # it is {SECRET}\n  values:\n    - key: P\n      value: '{SECRET}'\n      type: secret\n"
    );
    let (status, text) = bench.send(Method::PUT, "/api/variablesets", "text/yaml", &yaml).await;
    assert_eq!(status, StatusCode::CREATED, "{text}");
    assert_hidden("a stored set in YAML", &text);
    let mut seen = text;
    for (kind, details) in stores() {
        let store = json!({ "type": "DataStore", "spec": { "name": kind, "type": kind, kind: details } });
        let stored = bench.put("/api/datastores/current", &store).await;
        assert_hidden(kind, &stored.to_string());
        assert!(stored.to_string().contains(MASK), "{stored}");
        for accept in ["application/json", "text/yaml", "text/yaml-stream"] {
            for path in [
                "/api/datastores",
                "/api/datastores/current",
                "/api/datastores/current/source",
                "/api/variablesets",
                "/api/variablesets/set",
                "/api/variablesets/yaml/source",
            ] {
                let (status, text) = bench.send(Method::GET, path, accept, "").await;
                assert_eq!(status, StatusCode::OK, "{path}: {text}");
                assert_hidden(path, &text);
                seen.push_str(&text);
            }
        }
    }
    assert!(seen.contains("seen-value") && seen.contains("# it is"), "{seen}");
    let mistyped = format!(
        "type: DataStore\nspec:\n  name: o\n  type: opensearch\n  opensearch:\n    addresses: [http://o:9200]\n    Password: '{SECRET}'\n"
    );
    let (status, text) = bench.send(Method::PUT, "/api/datastores/current", "text/yaml", &mistyped).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert_hidden(
        "a mistyped field",
        &bench.send(Method::GET, "/api/datastores/current/source", "*/*", "").await.1,
    );
    let rows = bench.stop_and_dump(database).await;
    assert_hidden("the database", &rows);
    assert!(rows.is_empty() || rows.contains("sealed:1:"));
}

async fn a_mask_that_is_sent_back_keeps_the_secret(database: &Database) {
    let echo = Echo::start().await;
    let bench = Bench::new(database).await;
    let mut shown = bench.put("/api/variablesets", &set()).await;
    shown["spec"]["description"] = "changed".into();
    let kept = bench.put("/api/variablesets/set", &shown).await;
    assert_eq!(kept["spec"]["values"][0]["value"], MASK);
    assert_eq!(kept["spec"]["description"], "changed");
    bench.put("/api/tests", &echo.test()).await;
    bench.run("set").await;
    assert!(echo.heard().contains(&format!("Bearer {SECRET}")), "{}", echo.heard());

    let stranger = json!({ "spec": { "id": "new", "name": "n", "values": [{ "key": "X", "value": MASK, "type": "secret" }] } });
    let (status, text) =
        bench.send(Method::PUT, "/api/variablesets", "application/json", &stranger.to_string()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.contains("`X` is masked"), "{text}");
    // Clients that know no types must not store the redaction text as a secret.
    for kind in [None, Some("raw")] {
        let mut plain = set();
        plain["spec"]["values"][0] =
            json!({ "key": plain["spec"]["values"][0]["key"], "value": MASK, "type": kind });
        let (status, text) =
            bench.send(Method::PUT, "/api/variablesets", "application/json", &plain.to_string()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        assert!(text.contains("send it with its type"), "{text}");
    }
    bench.run("set").await;
    assert!(echo.heard().contains(&format!("Bearer {SECRET}")), "{}", echo.heard());
    bench.server.shutdown().await;
}

async fn a_run_uses_a_secret_and_shows_it_nowhere(database: &Database) {
    let echo = Echo::start().await;
    let bench = Bench::new(database).await;
    bench.put("/api/variablesets", &set()).await;
    bench.put("/api/tests", &echo.test()).await;
    let number = bench.run("set").await;
    assert!(echo.heard().contains(SECRET), "the trigger carries the secret: {}", echo.heard());
    let run = format!("/api/tests/echo/run/{number}");
    let shown = bench.get(&run).await;
    assert_eq!(shown["state"], "FINISHED");
    // The verdict was computed with the secret: the response contains what was sent.
    assert_eq!(shown["result"]["results"][0]["results"][0]["allPassed"], true, "{shown}");
    assert_eq!(shown["variableSet"]["values"][0], json!({ "key": "PASSWORD", "value": MASK }));
    let mut paths = vec![run.clone(), "/api/tests/echo/run".to_owned(), "/api/resources".to_owned()];
    paths.extend(
        ["export", "junit.xml", "events", "events/stream", "select?query="]
            .map(|part| format!("{run}/{part}")),
    );
    for path in paths {
        let (status, text) = bench.send(Method::GET, &path, "application/json", "").await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        assert_hidden(&path, &text);
    }
    let again = bench.send(Method::POST, &format!("{run}/rerun"), "application/json", "").await;
    assert_hidden("a rerun", &again.1);
    let again: Value = serde_json::from_str(&again.1).unwrap();
    let again = bench.until_over(again["id"].as_u64().unwrap()).await;
    assert_eq!(again["result"]["allPassed"], true, "{again}");
    assert_hidden("a rerun", &again.to_string());
    let specs = json!({ "specs": [{ "selector": { "query": "" }, "assertions": ["attr:name = \"${var:PASSWORD}\""] }] });
    let (_, dry) =
        bench.send(Method::PUT, &format!("{run}/dry-run"), "application/json", &specs.to_string()).await;
    assert_hidden("a dry run", &dry);
    let expression = json!({ "expression": "\"${var:PASSWORD}\"", "context": { "variableSetId": "set", "testId": "echo", "runId": number } });
    let (status, resolved) = bench
        .send(Method::POST, "/api/expressions/resolve", "application/json", &expression.to_string())
        .await;
    assert_eq!(status, StatusCode::OK, "{resolved}");
    assert_hidden("an expression", &resolved);
    let rows = bench.stop_and_dump(database).await;
    assert_hidden("the database", &rows);
}

async fn what_a_step_gives_out_stays_secret_and_is_handed_on(database: &Database) {
    let echo = Echo::start().await;
    let bench = Bench::new(database).await;
    bench.put("/api/variablesets", &set()).await;
    let mut login = echo.test();
    login["spec"]["outputs"] = json!([{
        "name": "TOKEN",
        "selector": "span[name = \"Tracetest trigger\"]",
        "value": "attr:tracetest.response.body | regex 'Bearer .*é'",
    }, {
        "name": "STATUS",
        "selector": "span[name = \"Tracetest trigger\"]",
        "value": "attr:tracetest.response.status",
    }]);
    bench.put("/api/tests", &login).await;
    let mut used = echo.test();
    used["spec"]["id"] = "use".into();
    used["spec"]["trigger"]["httpRequest"] = json!({
        "method": "GET", "url": format!("http://{}/", echo.address),
        "headers": [{ "key": "Authorization", "value": "${var:TOKEN}; ${var:STATUS}" }],
    });
    bench.put("/api/tests", &used).await;
    let spec = json!({ "id": "s", "name": "S", "steps": ["echo", "use"] });
    bench.put("/api/testsuites", &json!({ "type": "TestSuite", "spec": spec })).await;
    let extra = json!([{ "key": "EXTRA", "value": SECRET, "type": "secret" }]);
    let body = json!({ "variableSetId": "set", "variables": extra }).to_string();
    let (status, text) = bench.send(Method::POST, "/api/testsuites/s/run", "application/json", &body).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let (_, events) = bench.send(Method::GET, "/api/testsuites/s/run/1/events/stream", "*/*", "").await;
    assert!(echo.heard().contains(&format!("authorization: Bearer {SECRET}; 200")), "{}", echo.heard());
    // The redacted output shows where the secret is, and nothing else.
    assert!(events.contains(r#"["TOKEN","Bearer ********"],["STATUS","200"]"#), "{events}");
    let run = bench.get("/api/testsuites/s/run/1").await;
    assert_eq!((&run["state"], &run["fail"]), (&json!("FINISHED"), &Value::Null), "{run}");
    assert_eq!(
        bench.get("/api/tests/use/run/1").await["variableSet"]["values"][3],
        json!({ "key": "TOKEN", "value": MASK })
    );
    for path in [
        "/api/testsuites/s/run",
        "/api/testsuites/s/run/1",
        "/api/testsuites/s/run/1/events",
        "/api/tests/use/run/1",
        "/api/tests/use/run/1/events",
        "/api/tests/use/run/1/export",
        "/api/tests/use/run/1/junit.xml",
        "/api/tests/echo/run/1",
    ] {
        let (status, text) = bench.send(Method::GET, path, "application/json", "").await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        assert_hidden(path, &text);
    }
    assert_hidden("the events of the suite", &events);
    let rows = bench.stop_and_dump(database).await;
    assert_hidden("the database", &rows);
}

impl Bench {
    /// Runs the test with a variable set, to its end.
    async fn run(&self, set: &str) -> u64 {
        let body = json!({ "variableSetId": set, "variables": [{ "key": "EXTRA", "value": SECRET, "type": "secret" }] });
        let (status, text) =
            self.send(Method::POST, "/api/tests/echo/run", "application/json", &body.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        assert_hidden("a started run", &text);
        let started: Value = serde_json::from_str(&text).unwrap();
        let number = started["id"].as_u64().unwrap();
        self.until_over(number).await;
        number
    }

    async fn until_over(&self, number: u64) -> Value {
        // The stream ends with the run.
        self.send(Method::GET, &format!("/api/tests/echo/run/{number}/events/stream"), "*/*", "").await;
        self.get(&format!("/api/tests/echo/run/{number}")).await
    }
}

/// A system under test that returns everything it receives.
struct Echo {
    address: SocketAddr,
    heard: Arc<Mutex<String>>,
}

impl Echo {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard: Arc<Mutex<String>> = Arc::default();
        let router = Router::new().fallback(echo).with_state(Arc::clone(&heard));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, heard }
    }

    fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }

    /// Builds a test that uses the secret everywhere.
    fn test(&self) -> Value {
        let request = json!({
            "method": "POST",
            "url": format!("http://{}/?q=${{var:PASSWORD}}", self.address),
            "headers": [
                { "key": "Content-Type", "value": "application/json" },
                { "key": "X-Bearer", "value": "Bearer ${var:PASSWORD}" },
            ],
            "auth": { "type": "basic", "basic": { "username": "me", "password": "${var:PASSWORD}" } },
            "body": "{\"password\": \"${var:PASSWORD}\", \"extra\": \"${var:EXTRA}\"}",
        });
        json!({ "type": "Test", "spec": {
            "id": "echo",
            "name": "echo",
            "trigger": { "type": "http", "httpRequest": request },
            "skipTraceCollection": true,
            "specs": [{
                "selector": "span[name = \"Tracetest trigger\"]",
                "assertions": ["attr:tracetest.response.body contains \"Bearer ${var:PASSWORD}\"", "attr:tracetest.response.status = 200"],
            }],
            "outputs": [{
                "name": "BODY",
                "selector": "span[name = \"Tracetest trigger\"]",
                "value": "attr:tracetest.response.body",
            }],
        } })
    }
}

async fn echo(State(heard): State<Arc<Mutex<String>>>, request: Request) -> String {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let headers: Vec<String> = parts
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let all = format!("{}\n{}\n{}", parts.uri, headers.join("\n"), String::from_utf8_lossy(&body));
    heard.lock().unwrap().clone_from(&all);
    all
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_destroys_nothing() {
    let database = Database::file();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets.key");
    let bench = |server: Server| {
        let url = format!("http://{}", server.addresses().http);
        Bench { server, client: crate::client(), url }
    };
    let first = bench(start(&database.url, KeySource::File(file.clone())).await.unwrap());
    assert!(!file.exists(), "without a secret there is no need of a key");
    first.put("/api/variablesets", &set()).await;
    assert!(file.exists());
    let before = first.stop_and_dump(&database).await;

    for key in [
        KeySource::Memory,
        KeySource::File(folder.path().join("other.key")),
        KeySource::Text("ab".repeat(32)),
    ] {
        let error = start(&database.url, key).await.unwrap_err().to_string();
        assert!(error.contains("encrypted with another key") && error.contains("secrets.keyFile"), "{error}");
    }
    assert!(!folder.path().join("other.key").exists());
    assert_eq!(dump(&database.url).await.matches("sealed:1:").count(), before.matches("sealed:1:").count());

    let echo = Echo::start().await;
    let last = bench(start(&database.url, KeySource::File(file)).await.unwrap());
    last.put("/api/tests", &echo.test()).await;
    last.run("set").await;
    assert!(echo.heard().contains(SECRET));
    last.server.shutdown().await;
}

#[tokio::test]
async fn servers_that_start_together_on_a_new_database_share_the_key_that_one_of_them_makes() {
    let Some(database) = Database::postgres().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new").join("secrets.key");
    let provisioning = Provisioning {
        text: Some(base64::engine::general_purpose::STANDARD.encode(set().to_string())),
        ..Provisioning::default()
    };
    let start = || {
        let safety = Safety { key: KeySource::File(file.clone()), ..Safety::default() };
        let config = config(&database.url);
        tokio::spawn(Server::start(Config { safety, provisioning: provisioning.clone(), ..config }))
    };
    for server in [start(), start(), start(), start()] {
        server.await.unwrap().unwrap().shutdown().await;
    }
    assert_hidden("the database", &dump(&database.url).await);
}
