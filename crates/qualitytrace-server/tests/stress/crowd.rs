//! A stress test with many clients: each creates, changes, runs, stops and deletes its own resources, and all change
//! shared ones.
//!
//! Some disconnect before the response. At the end, every acknowledged change is stored as a version, every
//! acknowledged run exists, no response was a 5xx, no row is orphaned, and no secret is readable.

#[path = "census.rs"]
mod census;
#[path = "client.rs"]
mod client;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::try_eventually;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use census::Census;

/// How long runs may take to end after the last one was started.
const DRAIN_TIMEOUT: Duration = Duration::from_mins(3);
/// Capacity of the queue of runs: few enough to be executed within the timeouts.
const QUEUE: u64 = 1_000;
/// The id of the shared resources.
const SHARED: &str = "shared";
/// The name of requests whose client disconnected.
const DESERTED: &str = "deserted";
/// The prefix of every secret.
const SECRET: &str = "s3cr3t-of-";

/// The report as text, and the errors in it.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) wrong: Vec<String>,
}

/// When a client ends.
#[derive(Debug, Clone, Copy)]
#[expect(dead_code, reason = "each program that shares this file knows one of them")]
pub(crate) enum Until {
    Time(Duration),
    Rounds(u64),
}

/// Runs so many clients against a server with this database.
pub(crate) async fn stress(url: &str, clients: u64, until: Until) -> Result<Report, String> {
    let config = Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        database_url: url.to_owned(),
        limits: Limits { queued_runs: QUEUE, ..Limits::default() },
        ..Config::default()
    };
    let server =
        Server::start(config).await.map_err(|error| format!("the server does not start: {error}"))?;
    let crowd = Arc::new(Crowd {
        http: Client::builder().no_proxy().build().map_err(|error| error.to_string())?,
        base: format!("http://{}", server.addresses().http),
        seen: Mutex::default(),
    });
    crowd.settle_in().await;
    let start = Instant::now();
    let work = (0..clients).map(|client| {
        let crowd = Arc::clone(&crowd);
        tokio::spawn(async move {
            let mut round = 0;
            while until.goes_on(start, round) {
                crowd.round(client, round).await;
                round += 1;
            }
            round
        })
    });
    let mut rounds = 0;
    for worker in work.collect::<Vec<_>>() {
        rounds += worker.await.map_err(|error| format!("a client broke: {error}"))?;
    }
    let mut report = Report::default();
    let _ = writeln!(report.text, "{clients} clients, {rounds} rounds in {} s", start.elapsed().as_secs());
    crowd.answers(&mut report);
    let mut census = Census::open(url).await?;
    let begin = Instant::now();
    let ended = try_eventually(DRAIN_TIMEOUT, "every run ends", async || match census.under_way().await {
        Ok(0) => Ok(()),
        Ok(runs) => Err(format!("{runs} runs are under way")),
        Err(error) => Err(error),
    });
    report.wrong.extend(ended.await.err());
    let _ = writeln!(report.text, "the last run ended {} s later", begin.elapsed().as_secs());
    let seen = std::mem::take(&mut *crowd.seen());
    census.compare(&seen, &mut report).await?;
    server.shutdown().await;
    census.orphans(&mut report).await?;
    Ok(report)
}

impl Until {
    fn goes_on(self, start: Instant, round: u64) -> bool {
        match self {
            // A client that starts late still has one round.
            Self::Time(time) => round == 0 || start.elapsed() < time,
            Self::Rounds(rounds) => round < rounds,
        }
    }
}

/// The clients, and what they have recorded.
struct Crowd {
    http: Client,
    base: String,
    seen: Mutex<Acknowledged>,
}

/// Responses and acknowledged changes.
#[derive(Debug, Default)]
struct Acknowledged {
    /// The number of responses by request, status, and error message.
    answers: BTreeMap<(&'static str, u16, String), u64>,
    /// The text of the last change of a client's own resource, by kind and id; `None` after its deletion.
    own: BTreeMap<(&'static str, String), Option<String>>,
    /// The texts of all changes of shared resources, by kind.
    shared: BTreeMap<&'static str, BTreeSet<String>>,
    /// Every run that was started, by test or suite.
    runs: BTreeMap<(&'static str, String), Vec<u64>>,
    /// Deleted runs.
    deleted: BTreeSet<(&'static str, String, u64)>,
}

impl Crowd {
    fn seen(&self) -> MutexGuard<'_, Acknowledged> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the shared resources and the polling profile.
    async fn settle_in(&self) {
        let periodic = json!({ "retryDelay": "200ms", "timeout": "2s" });
        let profile = json!({ "name": "short", "strategy": "periodic", "periodic": periodic });
        let body = json!({ "type": "PollingProfile", "spec": profile });
        self.send("settle in", Method::PUT, "/api/pollingprofiles/current", &body).await;
        for kind in client::KINDS {
            self.change_shared(kind, "first").await;
        }
    }

    /// Sends a request and counts the response; returns it only if it is a success.
    async fn send(&self, what: &'static str, method: Method, path: &str, body: &Value) -> Option<Value> {
        let request = self.http.request(method, format!("{}{path}", self.base));
        let request = if body.is_null() { request } else { request.json(body) };
        let (status, text) = match request.send().await {
            Ok(response) => (response.status().as_u16(), response.text().await.unwrap_or_default()),
            Err(error) => (0, error.to_string()),
        };
        *self.seen().answers.entry((what, status, in_short(status, &text))).or_default() += 1;
        (200..300).contains(&status).then(|| serde_json::from_str(&text).unwrap_or_default())
    }

    /// Counts a request whose client disconnected.
    fn deserted(&self, error: &reqwest::Error) {
        let said = if error.is_timeout() { String::new() } else { error.to_string() };
        *self.seen().answers.entry((DESERTED, 0, said)).or_default() += 1;
    }

    /// Reports the number of responses, and those that are errors.
    fn answers(&self, report: &mut Report) {
        for ((what, status, said), count) in &self.seen().answers {
            let _ = writeln!(report.text, "{what:20} {status} {count:>8} {said}");
            // When the queue of runs is full, a client gets a 429.
            let is_good = (200..300).contains(status)
                || (what.starts_with("run") && *status == 429)
                || (*what == DESERTED && said.is_empty());
            if !is_good {
                report.wrong.push(format!("{what} was answered {status}, {count} times: {said}"));
            }
        }
    }
}

/// Returns the beginning of an error response.
fn in_short(status: u16, text: &str) -> String {
    if (200..300).contains(&status) { String::new() } else { text.trim().chars().take(100).collect() }
}
