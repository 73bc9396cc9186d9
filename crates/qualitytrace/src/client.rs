//! The API client of the command line.

pub(crate) mod answer;
pub(crate) mod contact;
pub(crate) mod events;
mod page;
pub(crate) mod resources;
mod traces;

use std::error::Error;
use std::time::Duration;

use anyhow::{Context, bail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use qualitytrace_core::definition::{Format, VariableSet};
use qualitytrace_server::wire;
use qualitytrace_server::wire::request::RunSettings;
use qualitytrace_server::wire::series::Series;
use reqwest::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use rustls::CertificateError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::answer::{AnswerError, Bound, DOCUMENT, MESSAGE, TRACE};
use self::contact::{Contact, Pauses};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Response timeout: longer than the server's own limit on a request.
const LONGEST_ANSWER: Duration = Duration::from_mins(3);

/// The retry pause for a busy server without `Retry-After`.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);
/// The longest retry pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A client of one server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    /// The path prefix of the routes.
    prefix: String,
    token: Option<String>,
    contact: Contact,
}

/// A run that was started.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartedRun {
    #[serde(rename = "id")]
    pub(crate) number: u64,
    /// Empty for a run of a suite.
    #[serde(default)]
    pub(crate) trace_id: String,
    /// Set when the test may be run more than once.
    #[serde(default)]
    pub(crate) series: Option<serde_json::Value>,
}

/// What a run of a test ended with, as the API shows it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndedRun {
    pub(crate) trace_id: String,
    pub(crate) state: String,
    /// Why there is no verdict.
    pub(crate) last_error_state: String,
    pub(crate) result: wire::run::Results,
    pub(crate) required_gates_result: wire::run::Gates,
}

/// Options of runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunOptions {
    /// Names and values; they override those of the set.
    pub(crate) variables: Vec<(String, String)>,
    /// Names and values that no output shows; they override both.
    pub(crate) secrets: Vec<(String, String)>,
    /// A variable set that is not stored on the server.
    pub(crate) variable_set: Option<VariableSet>,
    /// The id of a stored variable set.
    pub(crate) variable_set_id: Option<String>,
    /// The gates that each run must pass; `None` leaves them to the server.
    pub(crate) required_gates: Option<Vec<String>>,
    /// Overrides of the server's settings.
    pub(crate) settings: RunSettings,
    /// Retries of a test that does not pass; `None` leaves them to the test.
    pub(crate) retries: Option<u32>,
    /// How often to run each test; `None` leaves it to the test.
    pub(crate) repeat: Option<u32>,
    /// The run group of the hosted service.
    pub(crate) group: Option<String>,
    /// Where the runs come from.
    pub(crate) metadata: Map<String, Value>,
}

impl RunOptions {
    /// How often a suite is run.
    pub(crate) fn rounds(&self) -> u32 {
        self.repeat.unwrap_or(1)
    }
}

impl RunOptions {
    /// The gates that each run must pass.
    pub(crate) fn gates(&self) -> &[String] {
        self.required_gates.as_deref().unwrap_or_default()
    }

    /// The request body.
    fn body(&self) -> Value {
        let of_set = self.variable_set.iter().flat_map(|set| &set.values).map(|variable| {
            let kind = if variable.is_secret { "secret" } else { "raw" };
            json!({ "key": variable.key, "value": variable.value.value, "type": kind })
        });
        let own = self.variables.iter().map(|(key, value)| json!({ "key": key, "value": value }));
        let secrets =
            self.secrets.iter().map(|(key, value)| json!({ "key": key, "value": value, "type": "secret" }));
        let mut body = json!({
            "variables": of_set.chain(own).chain(secrets).collect::<Vec<_>>(),
            "retries": self.retries,
            "repeat": self.repeat,
        });
        // Only what is set is sent: older servers do not know these fields.
        if let Some(id) = &self.variable_set_id {
            body["variableSetId"] = json!(id);
        }
        if let Some(gates) = &self.required_gates {
            body["requiredGates"] = json!(gates);
        }
        if !self.metadata.is_empty() {
            body["metadata"] = json!(self.metadata);
        }
        if let Some(group) = &self.group {
            body["runGroupId"] = json!(group);
        }
        if self.settings != RunSettings::default() {
            body["settings"] = json!(self.settings);
        }
        body
    }
}

/// How many of a test's latest series were flaky.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Flakiness {
    pub(crate) series: u64,
    pub(crate) flaky: u64,
}

#[derive(Debug, Deserialize)]
struct Stored {
    spec: StoredSpec,
}

#[derive(Debug, Deserialize)]
struct StoredSpec {
    id: String,
}

impl Client {
    /// A client of the server at this address.
    pub(crate) fn new(base: &str) -> anyhow::Result<Self> {
        Self::of(base, |builder| builder)
    }

    /// A client that accepts any certificate of the server.
    pub(crate) fn without_verification(base: &str) -> anyhow::Result<Self> {
        Self::of(base, |builder| builder.danger_accept_invalid_certs(true))
    }

    fn of(
        base: &str,
        change: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> anyhow::Result<Self> {
        // Fails when a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy();
        let http = change(builder).build()?;
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let base = base.trim_end_matches('/').to_owned();
        let contact = Contact::new(&shown(&base));
        Ok(Self { http, base, prefix: "/api".to_owned(), token: None, contact })
    }

    /// Sets the path prefix of the routes.
    pub(crate) fn at_path(self, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..self }
    }

    /// Sets the token.
    pub(crate) fn with_token(self, token: Option<String>) -> Self {
        Self { token, ..self }
    }

    /// Sets how long to retry while the server is unavailable.
    pub(crate) fn with_reconnect_timeout(self, reconnect_timeout: Duration) -> Self {
        Self { contact: self.contact.with_reconnect_timeout(reconnect_timeout), ..self }
    }

    /// Stops waiting for an unavailable server, from now on.
    pub(crate) fn hurry(&self) {
        self.contact.hurry();
    }

    /// Whether the server has ever answered.
    pub(crate) fn was_reached(&self) -> bool {
        self.contact.was_made()
    }

    /// The address of the server.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Stores a test and returns its id.
    pub(crate) async fn put_test(&self, source: &str, format: Format) -> anyhow::Result<String> {
        self.put("/api/tests", source, format).await
    }

    /// Stores a suite and returns its id.
    pub(crate) async fn put_suite(&self, source: &str, format: Format) -> anyhow::Result<String> {
        self.put("/api/testsuites", source, format).await
    }

    async fn put(&self, path: &str, source: &str, format: Format) -> anyhow::Result<String> {
        let request = self
            .http
            .put(self.url(path))
            .header(CONTENT_TYPE, resources::media(format))
            .header(ACCEPT, "application/json")
            .body(source.to_owned());
        let stored: Stored = answer::json(self.ask(request).await?, DOCUMENT, "a definition").await?;
        Ok(stored.spec.id)
    }

    /// Starts a run of a test.
    pub(crate) async fn start(&self, test: &str, wanted: &RunOptions) -> anyhow::Result<StartedRun> {
        self.start_at(&format!("/api/tests/{}/run", escaped(test)), wanted).await
    }

    /// Starts a run of a suite.
    pub(crate) async fn start_suite(&self, suite: &str, wanted: &RunOptions) -> anyhow::Result<StartedRun> {
        self.start_at(&format!("/api/testsuites/{}/run", escaped(suite)), wanted).await
    }

    async fn start_at(&self, path: &str, wanted: &RunOptions) -> anyhow::Result<StartedRun> {
        let body = wanted.body();
        let url = self.url(path);
        let answer = loop {
            let answer = self.send(self.http.post(&url).json(&body)).await?;
            if answer.status() != StatusCode::TOO_MANY_REQUESTS {
                break answer;
            }
            // The queue is full: runs that end make room.
            tokio::time::sleep(retry_after(&answer)).await;
        };
        if answer.status() == StatusCode::UNPROCESSABLE_ENTITY {
            let body = answer::text(answer, MESSAGE).await.unwrap_or_default();
            return Err(match MissingVariablesError::of(&body) {
                Some(missing) => missing.into(),
                None => anyhow::anyhow!("{}", sentence(&body)),
            });
        }
        answer::json(accepted(answer).await?, TRACE, "a run").await
    }

    /// The default gates of the server; `None` when it does not report them.
    pub(crate) async fn usual_gates(&self) -> anyhow::Result<Option<Vec<String>>> {
        let Some(body) = self.get("/api/testrunners/current", MESSAGE).await? else { return Ok(None) };
        let runner: Value = answer::decoded(&body, MESSAGE, "a test runner")?;
        Ok(serde_json::from_value(runner["spec"]["requiredGates"].clone()).ok())
    }

    /// The default polling profile of the server; empty when it does not report one.
    pub(crate) async fn usual_profile(&self) -> anyhow::Result<Map<String, Value>> {
        let Some(body) = self.get("/api/pollingprofiles/current", MESSAGE).await? else {
            return Ok(Map::new());
        };
        let mut profile: Value = answer::decoded(&body, MESSAGE, "a polling profile")?;
        Ok(serde_json::from_value(profile["spec"].take()).unwrap_or_default())
    }

    /// The series that begins with this run, as soon as it has more than `runs` runs or is over, or when the server's
    /// long poll times out.
    pub(crate) async fn series_after(&self, test: &str, run: u64, runs: u32) -> anyhow::Result<Series> {
        let path = format!("/api/tests/{}/run/{run}/series?after={runs}", escaped(test));
        let body = self.get(&path, DOCUMENT).await?;
        let body = body.with_context(|| format!("the server no longer has run {run} of test {test}"))?;
        answer::decoded(&body, DOCUMENT, "a series")
    }

    /// Stops a run of a test, and the series that it began.
    pub(crate) async fn stop(&self, test: &str, run: &StartedRun) -> anyhow::Result<()> {
        let last = match &run.series {
            Some(_) => self.series_after(test, run.number, 0).await?.runs.last().map(|run| run.run),
            None => None,
        };
        let number = last.unwrap_or(run.number);
        let path = format!("/api/tests/{}/run/{number}/stop", escaped(test));
        self.ask(self.http.post(self.url(&path))).await?;
        Ok(())
    }

    /// Stops a run of a suite.
    pub(crate) async fn stop_suite(&self, suite: &str, run: &StartedRun) -> anyhow::Result<()> {
        let path = format!("/api/testsuites/{}/run/{}/stop", escaped(suite), run.number);
        self.ask(self.http.post(self.url(&path))).await?;
        Ok(())
    }

    /// How many of a test's latest series were flaky; `None` when the server does not know.
    pub(crate) async fn flakiness(&self, test: &str) -> anyhow::Result<Option<Flakiness>> {
        let request = self.http.get(self.url(&format!("/api/tests/{}", escaped(test))));
        let request = request.header("x-qualitytrace-augmented", "true").header(ACCEPT, "application/json");
        let shown: Value = answer::json(self.ask(request).await?, DOCUMENT, "a test").await?;
        Ok(serde_json::from_value(shown["spec"]["summary"]["flakiness"].clone()).ok())
    }

    /// The version of the server.
    pub(crate) async fn version(&self) -> anyhow::Result<String> {
        let response = self.ask(self.http.get(self.path("/version.json"))).await?;
        let said: Value = answer::json(response, MESSAGE, "a version").await?;
        said["version"].as_str().map(ToOwned::to_owned).context("the server's answer is not a version")
    }

    /// The status of the server's own telemetry.
    pub(crate) async fn telemetry_status(&self) -> anyhow::Result<serde_json::Value> {
        let response = self.ask(self.http.get(self.url("/api/telemetry/status"))).await?;
        answer::json(response, MESSAGE, "a status").await
    }

    /// Tests the connection to a data store, and returns the result of each step.
    pub(crate) async fn connection(&self, store: &serde_json::Value) -> anyhow::Result<serde_json::Value> {
        let request = self.http.post(self.url("/api/config/connection")).json(store);
        answer::json(self.ask(request).await?, MESSAGE, "a connection test").await
    }

    /// A trace; `None` when the server has no span of it.
    pub(crate) async fn trace(&self, id: &str) -> anyhow::Result<Option<wire::Trace>> {
        let Some(body) = self.get(&format!("/api/traces/{id}"), TRACE).await? else { return Ok(None) };
        Ok(Some(answer::decoded(&body, TRACE, "a trace")?))
    }

    /// The message about a run of a test that was not followed to its end.
    pub(crate) fn unfinished_test(&self, test: &str, run: u64) -> String {
        self.unfinished("test", &format!("/api/tests/{}/run/{run}", escaped(test)), test, run)
    }

    /// The message about a run of a suite that was not followed to its end.
    pub(crate) fn unfinished_suite(&self, suite: &str, run: u64) -> String {
        self.unfinished("suite", &format!("/api/testsuites/{}/run/{run}", escaped(suite)), suite, run)
    }

    fn unfinished(&self, what: &str, path: &str, id: &str, run: u64) -> String {
        format!(
            "run {run} of {what} {id} was not followed to its end; look at it later at {}",
            self.url(path)
        )
    }

    /// A run of a test as JSON.
    pub(crate) async fn run(&self, test: &str, run: u64) -> anyhow::Result<EndedRun> {
        let body = self.get(&format!("/api/tests/{}/run/{run}", escaped(test)), TRACE).await?;
        let body = body.with_context(|| format!("the server no longer has run {run} of test {test}"))?;
        answer::decoded(&body, TRACE, "a run")
    }

    /// A test, in YAML, that a trace satisfies.
    pub(crate) async fn test_of_trace(&self, trace: &str) -> anyhow::Result<String> {
        let url = self.url(&format!("/api/traces/{}/test", escaped(trace)));
        let answer = self.ask(self.http.post(url).json(&json!({}))).await?;
        let made: Value = answer::json(answer, DOCUMENT, "a test").await?;
        made["definition"].as_str().map(ToOwned::to_owned).context("the server's answer is not a test")
    }

    /// The JUnit report of a run, as the server writes it.
    pub(crate) async fn junit(&self, test: &str, run: u64) -> anyhow::Result<String> {
        let body = self.get(&format!("/api/tests/{}/run/{run}/junit.xml", escaped(test)), DOCUMENT).await?;
        let body = body.with_context(|| format!("the server no longer has run {run} of test {test}"))?;
        String::from_utf8(body).context("the server's answer is not text")
    }

    fn url(&self, path: &str) -> String {
        self.path(path.strip_prefix("/api").unwrap_or(path))
    }

    /// The address of a route of the API.
    fn path(&self, route: &str) -> String {
        format!("{}{}{route}", self.base, self.prefix)
    }

    /// Sends a request, with retries while the server is unavailable.
    async fn send(&self, request: reqwest::RequestBuilder) -> anyhow::Result<reqwest::Response> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let request = request.build()?;
        let mut pauses = Pauses::default();
        loop {
            // Every body is in memory, so a request can be cloned.
            let copy = request.try_clone().context("the request cannot be sent twice")?;
            let Ok(answer) = tokio::time::timeout(LONGEST_ANSWER, self.http.execute(copy)).await else {
                bail!("the server at {} does not answer within {LONGEST_ANSWER:?}", shown(&self.base));
            };
            let status = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
            tracing::debug!(method = %request.method(), path = request.url().path(), status, "request");
            if answer.as_ref().is_ok_and(|answer| !is_unavailable(answer.status())) {
                self.contact.made();
                return self.let_in(answer?).await;
            }
            if !may_repeat(request.method(), &answer) || !self.contact.lost(&mut pauses).await {
                return answer.map_err(|error| self.trouble(error));
            }
        }
    }

    /// The error of a failed request, with the next step.
    fn trouble(&self, error: reqwest::Error) -> anyhow::Error {
        let why = trouble(&shown(&self.base), &error);
        anyhow::Error::new(error).context(why)
    }

    /// Returns the response; fails on 401 with advice about tokens.
    async fn let_in(&self, answer: reqwest::Response) -> anyhow::Result<reqwest::Response> {
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let why = sentence(&answer::text(answer, MESSAGE).await.unwrap_or_default());
        bail!(
            "the server at {} refuses access: {why}; give a token with --token or QUALITYTRACE_TOKEN",
            shown(&self.base)
        )
    }

    /// Reads the whole response of a GET; `None` for 404.
    async fn get(&self, path: &str, bound: Bound) -> anyhow::Result<Option<Vec<u8>>> {
        let mut pauses = Pauses::default();
        loop {
            let answer = self.send(self.http.get(self.url(path))).await?;
            if answer.status() == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            match answer::bytes(accepted(answer).await?, bound).await {
                Ok(bytes) => return Ok(Some(bytes)),
                // It would be as large again.
                Err(error) if error.is::<AnswerError>() => return Err(error),
                Err(error) if !self.contact.lost(&mut pauses).await => return Err(error),
                Err(_) => {}
            }
        }
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> anyhow::Result<reqwest::Response> {
        accepted(self.send(request).await?).await
    }
}

/// The address without its password.
fn shown(base: &str) -> String {
    let without = |mut url: reqwest::Url| url.set_password(None).map(|()| url.to_string()).ok();
    let parsed = reqwest::Url::parse(base).ok().filter(|url| url.password().is_some());
    parsed.and_then(without).unwrap_or_else(|| base.to_owned())
}

/// The message about a failed request, with the next step.
fn trouble(base: &str, error: &reqwest::Error) -> String {
    match tls_error(error) {
        Some(rustls::Error::InvalidMessage(_)) => {
            let plain = base.replacen("https://", "http://", 1);
            return format!("the server at {base} answers without TLS; write {plain}");
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(other)))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            return format!(
                "the certificate of the server at {base} is one of an authority, which no server may show as its own; \
                 make one with `-addext basicConstraints=critical,CA:FALSE`"
            );
        }
        Some(rustls::Error::InvalidCertificate(_)) => {
            return format!(
                "the certificate of the server at {base} is not trusted; name a file with its authority in SSL_CERT_FILE"
            );
        }
        Some(_) | None => {}
    }
    format!(
        "the server at {base} does not answer; start it with `qualitytrace serve`, or name another with --server-url"
    )
}

/// The error of TLS behind a failed request, if there is one.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(wrong) = error.downcast_ref() {
        return Some(wrong);
    }
    // An IO error does not return what it wraps as its source.
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
    wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source()).and_then(tls_error)
}

/// Returns a success response; fails on any other.
async fn accepted(response: reqwest::Response) -> anyhow::Result<reqwest::Response> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = answer::text(response, MESSAGE).await.unwrap_or_default();
    bail!("the server answers {status}: {}", sentence(&body))
}

/// The message of an error response, without the JSON around it.
pub(crate) fn sentence(body: &str) -> String {
    let said = serde_json::from_str::<serde_json::Value>(body).ok();
    let said = said.as_ref().and_then(|said| said.as_str().or_else(|| said.get("error")?.as_str()));
    said.unwrap_or(body).trim().to_owned()
}

/// Whether a status stands for an unavailable server.
fn is_unavailable(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}

/// Whether a failed request may be retried: a POST must not take effect twice.
fn may_repeat(method: &Method, answer: &reqwest::Result<reqwest::Response>) -> bool {
    let was_refused = match answer {
        Ok(answer) => answer.status() == StatusCode::SERVICE_UNAVAILABLE,
        Err(error) => error.is_connect(),
    };
    *method != Method::POST || was_refused
}

/// How long to wait before asking a busy server again.
fn retry_after(response: &reqwest::Response) -> Duration {
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    seconds.map_or(DEFAULT_PAUSE, Duration::from_secs).clamp(Duration::from_millis(100), LONGEST_PAUSE)
}

/// Variables that a run needs and that have no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub(crate) struct MissingVariablesError {
    /// Tests and the names of their variables.
    tests: Vec<(String, Vec<String>)>,
}

impl MissingVariablesError {
    /// Reads an error response; `None` when it is about something else.
    fn of(body: &str) -> Option<Self> {
        let body: serde_json::Value = serde_json::from_str(body).ok()?;
        let tests = body["missingVariables"].as_array()?.iter().map(|test| {
            let names = test["variables"].as_array().into_iter().flatten();
            let names = names.filter_map(|variable| variable["key"].as_str()).map(ToOwned::to_owned);
            (test["testId"].as_str().unwrap_or_default().to_owned(), names.collect())
        });
        Some(Self { tests: tests.collect() })
    }

    /// The names, each once.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.tests.iter().flat_map(|(_, names)| names) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    fn sentence(&self) -> String {
        let needs =
            |(test, names): &(String, Vec<String>)| format!("test `{test}` needs {}", names.join(", "));
        let tests: Vec<String> = self.tests.iter().map(needs).collect();
        format!("variables are missing: {}; give them with --var NAME=VALUE", tests.join("; "))
    }
}

/// What is escaped in an id: all but the unreserved characters of RFC 3986.
const ID: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-encodes an id for a path.
fn escaped(id: &str) -> PercentEncode<'_> {
    utf8_percent_encode(id, ID)
}
