//! The requests of one client in each round.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{Crowd, SECRET, SHARED};

/// The kinds of resources: each client has its own one of each, and all share one.
pub(super) const KINDS: [&str; 3] = ["Test", "TestSuite", "VariableSet"];
/// Rounds after which a client deletes its resources and creates new ones.
const LIFETIME: u64 = 3;

impl Crowd {
    pub(super) async fn round(&self, client: u64, round: u64) {
        let id = format!("own-{client}-{}", round / LIFETIME);
        for kind in KINDS {
            self.change_own(kind, &id, &format!("round {round}"), Method::PUT, "").await;
            self.change_own(kind, &id, &format!("round {round} again"), Method::PUT, &id).await;
            self.change_shared(kind, &format!("client {client} in round {round}")).await;
        }
        let with_secret = json!({ "variableSetId": id });
        let run = self.run("run test", "Test", &id, &with_secret).await;
        self.run("run shared test", "Test", SHARED, &json!({})).await;
        let suite_run = match round % LIFETIME {
            1 => self.run("run suite", "TestSuite", &id, &with_secret).await,
            _ => None,
        };
        self.desert(client, round).await;
        self.send("list tests", Method::GET, "/api/tests?take=5", &Value::Null).await;
        let path = format!("/api/tests/{SHARED}/run?take=5");
        self.send("list runs", Method::GET, &path, &Value::Null).await;
        if let Some(number) = run {
            self.end_run(&id, number, client + round).await;
        }
        if let Some(number) = suite_run {
            self.end_suite_run(&id, number, client).await;
        }
        if round % LIFETIME == LIFETIME - 1 {
            for kind in KINDS {
                self.delete_own(kind, &id).await;
            }
        }
    }

    /// Sends requests and disconnects before the response: at once, or after a while.
    async fn desert(&self, client: u64, round: u64) {
        let timeout = Duration::from_micros(100 << ((client + round) % 14));
        let words = format!("client {client} in round {round}, deserted");
        for (method, path, body) in [
            (Method::POST, format!("/api/testsuites/{SHARED}/run"), json!({})),
            (Method::POST, format!("/api/tests/{SHARED}/run"), json!({})),
            (Method::PUT, "/api/testsuites".to_owned(), self.definition("TestSuite", SHARED, &words)),
            (Method::GET, "/api/tests?take=5".to_owned(), Value::Null),
        ] {
            let request = self.http.request(method, format!("{}{path}", self.base)).json(&body);
            if let Err(error) = request.timeout(timeout).send().await {
                self.deserted(&error);
            }
        }
    }

    /// Deletes some runs together with their trace, stops some, reruns some, and leaves the others.
    async fn end_run(&self, id: &str, number: u64, choice: u64) {
        let path = format!("/api/tests/{id}/run/{number}");
        let Some(shown) = self.send("get run", Method::GET, &path, &Value::Null).await else { return };
        match choice % 4 {
            0 => {
                let spans = spans(shown["traceId"].as_str().unwrap_or_default());
                self.send("send spans", Method::POST, "/v1/traces", &spans).await;
                self.delete_run("delete run", ("Test", id, number), &path).await;
            }
            1 => {
                self.send("stop run", Method::POST, &format!("{path}/stop"), &json!({})).await;
            }
            2 => {
                let spans = spans(shown["traceId"].as_str().unwrap_or_default());
                self.send("send spans", Method::POST, "/v1/traces", &spans).await;
                let again = format!("{path}/rerun");
                self.send("run again", Method::POST, &again, &json!({})).await;
            }
            _ => {}
        }
    }

    async fn end_suite_run(&self, id: &str, number: u64, choice: u64) {
        let path = format!("/api/testsuites/{id}/run/{number}");
        self.send("get suite run", Method::GET, &path, &Value::Null).await;
        match choice % 3 {
            0 => self.delete_run("delete suite run", ("TestSuite", id, number), &path).await,
            1 => {
                self.send("stop suite run", Method::POST, &format!("{path}/stop"), &json!({})).await;
            }
            _ => {}
        }
    }

    async fn delete_run(&self, what: &'static str, run: (&'static str, &str, u64), path: &str) {
        if self.send(what, Method::DELETE, path, &Value::Null).await.is_some() {
            let (kind, id, number) = run;
            self.seen().deleted.insert((kind, id.to_owned(), number));
        }
    }

    async fn run(&self, what: &'static str, kind: &'static str, id: &str, body: &Value) -> Option<u64> {
        let path = format!("/api/{}/{id}/run", collection(kind));
        let shown = self.send(what, Method::POST, &path, body).await?;
        let number = shown["id"].as_u64().or_else(|| shown["id"].as_str()?.parse().ok())?;
        self.seen().runs.entry((kind, id.to_owned())).or_default().push(number);
        Some(number)
    }

    async fn change_own(&self, kind: &'static str, id: &str, words: &str, method: Method, below: &str) {
        let path = format!("/api/{}/{below}", collection(kind));
        let path = path.trim_end_matches('/');
        let what = if below.is_empty() { "upsert" } else { "change" };
        if self.send(what, method, path, &self.definition(kind, id, words)).await.is_some() {
            self.seen().own.insert((kind, id.to_owned()), Some(words.to_owned()));
        }
    }

    pub(super) async fn change_shared(&self, kind: &'static str, words: &str) {
        let path = format!("/api/{}", collection(kind));
        let body = self.definition(kind, SHARED, words);
        if self.send("change shared", Method::PUT, &path, &body).await.is_some() {
            self.seen().shared.entry(kind).or_default().insert(words.to_owned());
        }
    }

    async fn delete_own(&self, kind: &'static str, id: &str) {
        let path = format!("/api/{}/{id}", collection(kind));
        if self.send("delete", Method::DELETE, &path, &Value::Null).await.is_some() {
            self.seen().own.insert((kind, id.to_owned()), None);
        }
    }

    fn definition(&self, kind: &str, id: &str, words: &str) -> Value {
        let mut spec = match kind {
            "Test" => {
                let request = json!({ "method": "GET", "url": format!("{}/healthz", self.base) });
                // Every eighth test waits for its trace; the others judge only the response.
                let skips = !id.bytes().map(u32::from).sum::<u32>().is_multiple_of(8);
                json!({ "trigger": { "type": "http", "httpRequest": request }, "skipTraceCollection": skips })
            }
            "TestSuite" if id == SHARED => json!({ "steps": [SHARED] }),
            "TestSuite" => json!({ "steps": [id, SHARED] }),
            // A value that is sealed as a whole could not be searched at the end.
            _ if id == SHARED => json!({ "values": [{ "key": "PLAIN", "value": "plain" }] }),
            _ => {
                let secret = json!({ "key": "TOKEN", "value": format!("{SECRET}{id}"), "type": "secret" });
                json!({ "values": [{ "key": "PLAIN", "value": "plain" }, secret] })
            }
        };
        spec["id"] = id.into();
        spec["name"] = id.into();
        spec["description"] = words.into();
        json!({ "type": kind, "spec": spec })
    }
}

fn collection(kind: &str) -> &'static str {
    match kind {
        "Test" => "tests",
        "TestSuite" => "testsuites",
        _ => "variablesets",
    }
}

/// Builds a request with one span of a trace.
fn spans(trace: &str) -> Value {
    let span = json!({
        "traceId": trace, "spanId": "00f067aa0ba902b7", "name": "work", "kind": 2,
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
    });
    json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] })
}
