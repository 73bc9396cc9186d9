//! Many clients at once: `stress DATABASE_URL [CLIENTS] [SECONDS]`.
//!
//! Each creates, changes, runs and deletes tests of its own and changes one that all share. In the end every change is
//! there as a version, no answer was a 5xx, and no row has lost what it belongs to.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use qualitytrace_server::config::Config;
use qualitytrace_server::server::Server;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::sync::Mutex;

/// How long runs may take to end once nobody starts new ones.
const DRAIN_TIMEOUT: Duration = Duration::from_mins(2);
const SHARED: &str = "shared";

/// Rows that must not be there: a table, and what each of its rows belongs to.
const ORPHANS: [(&str, &str); 5] = [
    (
        "definitions",
        "SELECT COUNT(*) FROM definitions d WHERE NOT EXISTS \
         (SELECT 1 FROM resources r WHERE r.kind = d.kind AND r.id = d.id)",
    ),
    (
        "runs",
        "SELECT COUNT(*) FROM runs u WHERE NOT EXISTS \
         (SELECT 1 FROM resources r WHERE r.kind = 'Test' AND r.id = u.test_id)",
    ),
    (
        "run_events",
        "SELECT COUNT(*) FROM run_events e WHERE NOT EXISTS \
         (SELECT 1 FROM runs u WHERE u.test_id = e.test_id AND u.number = e.number)",
    ),
    (
        "run_numbers",
        "SELECT COUNT(*) FROM run_numbers n WHERE NOT EXISTS \
         (SELECT 1 FROM resources r WHERE r.kind = 'Test' AND r.id = n.test_id)",
    ),
    (
        "histories",
        "SELECT COUNT(*) FROM histories h WHERE NOT EXISTS \
         (SELECT 1 FROM resources r WHERE r.kind = 'Test' AND r.id = h.test_id)",
    ),
];

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let Some(url) = arguments.first() else {
        eprintln!("usage: stress DATABASE_URL [CLIENTS] [SECONDS]");
        return ExitCode::FAILURE;
    };
    match stress(url, number(1, 200), Duration::from_secs(number(2, 60))).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn stress(url: &str, clients: u64, time: Duration) -> Result<(), String> {
    let config = Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        database_url: url.to_owned(),
        ..Config::default()
    };
    let server =
        Server::start(config).await.map_err(|error| format!("the server does not start: {error}"))?;
    let crowd = Arc::new(Crowd {
        http: Client::builder().no_proxy().build().map_err(|error| error.to_string())?,
        base: format!("http://{}", server.addresses().http),
        answers: Mutex::default(),
        shared: AtomicU64::new(0),
    });
    crowd.change_shared("first").await;
    let end = Instant::now() + time;
    let work = (0..clients).map(|client| {
        let crowd = Arc::clone(&crowd);
        tokio::spawn(async move {
            let mut round = 0;
            while Instant::now() < end {
                crowd.round(client, round).await;
                round += 1;
            }
        })
    });
    for worker in work.collect::<Vec<_>>() {
        worker.await.map_err(|error| format!("a client broke: {error}"))?;
    }
    let mut wrong = crowd.complaints().await;
    crowd.drained().await?;
    wrong.extend(lost(&crowd, url).await?);
    server.shutdown().await;
    wrong.extend(orphans(url).await?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The clients, and what they were answered.
struct Crowd {
    http: Client,
    base: String,
    answers: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Changes of the shared test that were acknowledged.
    shared: AtomicU64,
}

impl Crowd {
    /// What one client does, again and again.
    async fn round(&self, client: u64, round: u64) {
        let id = format!("own-{client}-{}", round / 3);
        let own = format!("/api/tests/{id}");
        self.send("upsert", Method::PUT, "/api/tests", test(&id, &format!("round {round}"))).await;
        self.send("change", Method::PUT, &own, test(&id, &format!("round {round}, again"))).await;
        let started = self.send("run", Method::POST, &format!("{own}/run"), json!({})).await;
        self.change_shared(&format!("{client} in {round}")).await;
        self.send("run shared", Method::POST, &format!("/api/tests/{SHARED}/run"), json!({})).await;
        self.send("list", Method::GET, "/api/tests?take=5", Value::Null).await;
        if let Some(number) = started["id"].as_u64().filter(|_| round.is_multiple_of(2)) {
            self.send("get run", Method::GET, &format!("{own}/run/{number}"), Value::Null).await;
            self.send("delete run", Method::DELETE, &format!("{own}/run/{number}"), Value::Null).await;
        }
        if round % 3 == 2 {
            self.send("delete", Method::DELETE, &own, Value::Null).await;
        }
    }

    async fn change_shared(&self, words: &str) {
        let answer = self.send("change shared", Method::PUT, "/api/tests", test(SHARED, words)).await;
        if answer["spec"]["id"] == SHARED {
            self.shared.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn send(&self, what: &'static str, method: Method, path: &str, body: Value) -> Value {
        let request = self.http.request(method, format!("{}{path}", self.base));
        let request = if body.is_null() { request } else { request.json(&body) };
        let (status, text) = match request.send().await {
            Ok(response) => (response.status().as_u16(), response.text().await.unwrap_or_default()),
            Err(error) => (0, error.to_string()),
        };
        if status == 0 || status >= 500 {
            eprintln!("{what}: {status} {text}");
        }
        *self.answers.lock().await.entry((what, status)).or_default() += 1;
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Says how often there was which answer; gives those that there must not be.
    async fn complaints(&self) -> Vec<String> {
        let answers = self.answers.lock().await;
        for ((what, status), count) in answers.iter() {
            println!("{what:14} {status} {count:>8}");
        }
        // Where the queue of runs is full, a client is told to come again.
        let is_good = |status: u16| (200..300).contains(&status) || status == 429;
        answers
            .iter()
            .filter(|((_, status), _)| !is_good(*status))
            .map(|((what, status), count)| format!("{what} was answered {status}, {count} times"))
            .collect()
    }

    /// Waits until no run is under way any more.
    async fn drained(&self) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let path = format!("/api/tests/{SHARED}/run?take=1000");
            let runs = self.send("drain", Method::GET, &path, Value::Null).await;
            let is_over = |run: &Value| !matches!(run["state"].as_str(), Some("CREATED" | "EXECUTING"));
            if runs.as_array().is_some_and(|runs| runs.iter().all(is_over)) {
                return Ok(());
            }
            if begin.elapsed() > DRAIN_TIMEOUT {
                return Err("runs are still under way two minutes after the last was started".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// A test whose trigger fails at once.
fn test(id: &str, description: &str) -> Value {
    let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:1/" } });
    json!({ "type": "Test", "spec": { "id": id, "name": id, "description": description, "trigger": trigger } })
}

/// Acknowledged changes of the shared test that are not there as versions.
async fn lost(crowd: &Crowd, url: &str) -> Result<Vec<String>, String> {
    let acknowledged = crowd.shared.load(Ordering::Relaxed);
    let sql = format!("SELECT COUNT(DISTINCT text) FROM definitions WHERE kind = 'Test' AND id = '{SHARED}'");
    let stored = count(url, &sql).await?;
    println!("{acknowledged} changes of the shared test acknowledged, {stored} stored");
    let is_same = u64::try_from(stored) == Ok(acknowledged);
    Ok((!is_same)
        .then(|| format!("{acknowledged} changes acknowledged, {stored} stored"))
        .into_iter()
        .collect())
}

async fn orphans(url: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for (table, sql) in ORPHANS {
        let rows = count(url, sql).await?;
        println!("{rows} orphans in {table}");
        if rows > 0 {
            found.push(format!("{rows} rows of {table} belong to nothing"));
        }
    }
    Ok(found)
}

async fn count(url: &str, sql: &str) -> Result<i64, String> {
    sqlx::any::install_default_drivers();
    let mut connection = sqlx::AnyConnection::connect(url).await.map_err(|error| error.to_string())?;
    let count = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await;
    count.map_err(|error| format!("{sql}: {error}"))
}
