//! A client that starts runs on real servers and reads their results.

use std::time::Duration;

use qualitytrace_testing::{try_eventually, within};
use serde_json::{Value, json};

/// The longest time that a run takes: longer than the timeout of a trace, also where many runs wait for their turn.
const RUN_TIMEOUT: Duration = Duration::from_mins(5);

/// A client of one server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
}

/// A run that was started.
#[derive(Debug, Clone)]
pub(crate) struct Started {
    pub(crate) test: String,
    pub(crate) number: u64,
    pub(crate) trace: String,
}

/// The events of a run that is over.
#[derive(Debug, Clone)]
pub(crate) struct Events(pub(crate) Vec<Value>);

impl Events {
    /// The events of this kind.
    pub(crate) fn all<'a>(&'a self, what: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |event| event["what"] == what)
    }

    /// `passed`, `failed` or `inconclusive`; empty when there is no verdict.
    pub(crate) fn verdict(&self) -> &str {
        self.all("judged").next().and_then(|event| event["verdict"]["outcome"].as_str()).unwrap_or_default()
    }

    /// When the verdict was given, in nanoseconds since the epoch.
    pub(crate) fn judged_at(&self) -> u64 {
        self.all("judged").next().and_then(|event| event["at"].as_u64()).unwrap_or_default()
    }
}

impl Client {
    pub(crate) fn new(base: impl Into<String>) -> Self {
        // Fails when a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { http: reqwest::Client::builder().no_proxy().build().unwrap(), base: base.into() }
    }

    /// Stores a test that calls the system and needs all of its spans.
    pub(crate) async fn put_test(&self, id: &str, system: &str) {
        let trigger = json!({ "type": "http", "httpRequest": {
            "method": "GET", "url": format!("{system}/order?bug=${{var:BUG}}&lose=${{var:LOSE}}"),
        } });
        let spec = |name: &str| {
            json!({
                "name": name, "selector": format!("span[name=\"{name}\"]"),
                "assertions": ["attr:tracetest.selected_spans.count = 1", "attr:well = \"yes\""],
            })
        };
        let specs = json!([spec("look up"), spec("render"), spec("check order")]);
        self.put(
            "/api/tests",
            &json!({ "type": "Test", "spec": {
            "id": id, "name": id, "trigger": trigger, "specs": specs,
        } }),
        )
        .await;
    }

    /// Stores a test that is judged by the response alone.
    pub(crate) async fn put_quick_test(&self, id: &str, system: &str) {
        let trigger =
            json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("{system}/quick") } });
        let spec = json!({ "id": id, "name": id, "trigger": trigger, "skipTraceCollection": true });
        self.put("/api/tests", &json!({ "type": "Test", "spec": spec })).await;
    }

    /// Stores a test whose trigger is never answered.
    pub(crate) async fn put_hanging_test(&self, id: &str, system: &str) {
        let trigger =
            json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("{system}/hang") } });
        let spec = json!({ "id": id, "name": id, "trigger": trigger });
        self.put("/api/tests", &json!({ "type": "Test", "spec": spec })).await;
    }

    /// Sets the settle window of the polling profile.
    pub(crate) async fn put_settle(&self, settle: &str) {
        let spec = json!({
            "id": "current", "name": "default", "default": true, "strategy": "periodic",
            "periodic": { "timeout": "1m", "retryDelay": "1s", "settle": settle },
        });
        self.put("/api/pollingprofiles/current", &json!({ "type": "PollingProfile", "spec": spec })).await;
    }

    /// Stores a resource.
    pub(crate) async fn put(&self, path: &str, body: &Value) {
        let answer = self.http.put(format!("{}{path}", self.base)).json(body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status} {}", answer.text().await.unwrap());
    }

    /// Starts a run.
    pub(crate) async fn start(&self, test: &str, bug: bool, lose: bool) -> Started {
        let text = |on: bool| u8::from(on).to_string();
        self.start_with(test, &[("BUG", &text(bug)), ("LOSE", &text(lose))]).await
    }

    /// Starts a run with these variables.
    pub(crate) async fn start_with(&self, test: &str, variables: &[(&str, &str)]) -> Started {
        let variables: Vec<_> =
            variables.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
        let url = format!("{}/api/tests/{test}/run", self.base);
        let answer = self.http.post(url).json(&json!({ "variables": variables })).send().await.unwrap();
        let run: Value = answer.error_for_status().unwrap().json().await.unwrap();
        Started {
            test: test.to_owned(),
            number: run["id"].as_u64().unwrap(),
            trace: run["traceId"].as_str().unwrap().to_owned(),
        }
    }

    /// Waits until a run is over, and returns all of its events.
    pub(crate) async fn events(&self, run: &Started) -> Events {
        let url = format!("{}/api/tests/{}/run/{}/events/stream", self.base, run.test, run.number);
        let stream = async { self.http.get(url).send().await.unwrap().text().await.unwrap() };
        let what = format!("run {} of {} ends", run.number, run.test);
        let text = within(RUN_TIMEOUT, what, stream).await;
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        Events(data.map(|line| serde_json::from_str(line.trim()).unwrap()).collect())
    }

    /// Waits until late spans have changed the verdict; `None` when they did not in time.
    pub(crate) async fn corrected(&self, run: &Started, deadline: Duration) -> Option<String> {
        let corrected = try_eventually(deadline, "the verdict is corrected", async || {
            let events = self.events(run).await;
            let late = events.all("late").last()?;
            late["verdict"]["outcome"].as_str().map(ToOwned::to_owned)
        });
        corrected.await.ok()
    }

    /// The state of a run.
    pub(crate) async fn state(&self, run: &Started) -> String {
        self.shown(&run.test, run.number).await["state"].as_str().unwrap_or_default().to_owned()
    }

    /// A run as the server returns it.
    pub(crate) async fn shown(&self, test: &str, number: u64) -> Value {
        let url = format!("{}/api/tests/{test}/run/{number}", self.base);
        self.http.get(url).send().await.unwrap().json().await.unwrap()
    }

    /// Sends a command to a run: `stop` or `skipPolling`.
    pub(crate) async fn ask(&self, run: &Started, what: &str) {
        let url = format!("{}/api/tests/{}/run/{}/{what}", self.base, run.test, run.number);
        self.http.post(url).send().await.unwrap().error_for_status().unwrap();
    }
}
