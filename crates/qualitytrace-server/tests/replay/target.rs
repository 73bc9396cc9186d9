//! The server that recordings are replayed against.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use qualitytrace_testing::try_eventually;
use serde::Deserialize;
use serde_json::Value;

use super::entry::{Answer, Entry};

const SETUP: &str = include_str!("../golden/differences/setup.json");
/// Final states of a run.
const FINAL: [&str; 7] = [
    "FINISHED",
    "TRIGGER_FAILED",
    "TRACE_FAILED",
    "ASSERTION_FAILED",
    "ANALYZING_ERROR",
    "STOPPED",
    "FAILED",
];
/// The timeout of a run.
const RUN_TIMEOUT: Duration = Duration::from_secs(12);

/// A request that was sent between two entries of the recording.
#[derive(Debug, Deserialize)]
struct Setup {
    area: String,
    /// The entry before which it was sent; a trailing `*` matches anything.
    before: String,
    /// It is needed only if the folder does not contain this area.
    #[serde(default)]
    unless_area: Option<String>,
    #[serde(default = "put")]
    method: String,
    path: String,
    #[serde(default)]
    body: Value,
    #[serde(skip)]
    is_done: bool,
}

fn put() -> String {
    "PUT".to_owned()
}

/// A server under replay.
#[derive(Debug)]
pub(crate) struct Target {
    client: reqwest::Client,
    http: String,
    otlp: String,
    recorded_subject: &'static str,
    subject: String,
    setups: Vec<Setup>,
    /// Runs that were started and may still be under way.
    runs: Vec<String>,
}

impl Target {
    pub(crate) fn new(
        http: SocketAddr,
        otlp: SocketAddr,
        recorded_subject: &'static str,
        subject: &str,
        timeout: Duration,
    ) -> Result<Self, String> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .no_gzip()
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            http: format!("http://{http}"),
            otlp: format!("http://{otlp}"),
            recorded_subject,
            subject: subject.to_owned(),
            setups: serde_json::from_str(SETUP)
                .map_err(|error| format!("the setup cannot be read: {error}"))?,
            runs: Vec::new(),
        })
    }

    /// Sends the setup requests before this entry.
    pub(crate) async fn prepare(&mut self, area: &str, entry: &Entry, areas: &[&str]) -> Result<(), String> {
        for setup in &mut self.setups {
            let named = match setup.before.strip_suffix('*') {
                Some(start) => entry.name.starts_with(start),
                None => entry.name == setup.before,
            };
            let needed = setup.unless_area.as_ref().is_none_or(|other| !areas.contains(&other.as_str()));
            if setup.is_done || !named || setup.area != area || !needed {
                continue;
            }
            setup.is_done = true;
            let url = format!("{}{}", self.http, setup.path);
            let method = setup.method.parse().map_err(|_| format!("`{}` is no method", setup.method))?;
            let answer = self.client.request(method, url).json(&setup.body).send().await;
            let status = answer.map_err(|error| error.to_string())?.status();
            if !status.is_success() {
                return Err(format!("{} before `{}` is answered {status}", setup.path, entry.name));
            }
        }
        let route = entry.route();
        if let Some(run) = route.strip_suffix("/stop").or_else(|| route.strip_suffix("/skipPolling")) {
            self.wait(run, |state| !matches!(state, "CREATED" | "EXECUTING")).await?;
            return Ok(());
        }
        let expected: Value =
            serde_json::from_str(entry.response_body.as_deref().unwrap_or_default()).unwrap_or_default();
        let is_ahead = expected["state"].as_str().is_some_and(|state| !FINAL.contains(&state));
        if entry.method == "GET" && route.contains("/run") && !is_ahead {
            for run in std::mem::take(&mut self.runs) {
                self.wait(&run, |state| FINAL.contains(&state)).await?;
            }
        }
        Ok(())
    }

    /// Sends the request of an entry.
    pub(crate) async fn send(&mut self, entry: &Entry) -> Result<Answer, String> {
        let base = if entry.base.is_some() { &self.otlp } else { &self.http };
        let method: reqwest::Method =
            entry.method.parse().map_err(|_| format!("`{}` is no method", entry.method))?;
        let mut request = self.client.request(method, format!("{base}{}", entry.path));
        for (name, value) in &entry.request_headers {
            request = request.header(name, value);
        }
        if let Some(body) = &entry.request_body {
            request = request.body(bytes(&body.replace(self.recorded_subject, &self.subject)));
        }
        let response = request.send().await.map_err(|error| format!("{}: {error}", entry.name))?;
        let status = response.status().as_u16();
        let headers: BTreeMap<String, String> = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
            .collect();
        let body = response.bytes().await.map_err(|error| format!("{}: {error}", entry.name))?;
        let body = unpacked(&headers, &body);
        let body = String::from_utf8_lossy(&body).replace(&self.subject, self.recorded_subject);
        if status == 200
            && entry.method == "POST"
            && (entry.route().ends_with("/run") || entry.route().ends_with("/rerun"))
        {
            let started: Value = serde_json::from_str(&body).unwrap_or_default();
            if let Some(number) = started["id"].as_u64() {
                let route = entry.route();
                let runs = route.rfind("/run").map_or(route, |at| &route[..at]);
                let runs = runs.rfind("/run/").map_or(runs, |at| &runs[..at]);
                self.runs.push(format!("{runs}/run/{number}"));
            }
        }
        Ok(Answer { status, headers, body })
    }

    async fn wait(&self, run: &str, is_there: impl Fn(&str) -> bool) -> Result<(), String> {
        let reached = try_eventually(RUN_TIMEOUT, "the run has this state", async || {
            let response = self.client.get(format!("{}{run}", self.http)).send().await;
            let response = match response {
                Ok(response) => response,
                Err(error) => return Some(Err(error.to_string())),
            };
            // A run that does not exist is not waited for.
            if !response.status().is_success() {
                return Some(Ok(()));
            }
            let shown: Value = response.json().await.unwrap_or_default();
            shown["state"].as_str().is_none_or(&is_there).then_some(Ok(()))
        });
        // The comparison that follows reports a run that is not there in time.
        reached.await.unwrap_or(Ok(()))
    }
}

/// Decodes a recorded body; bytes are written as `hex:`.
fn bytes(body: &str) -> Vec<u8> {
    let Some(digits) = body.strip_prefix("hex:") else {
        return body.as_bytes().to_vec();
    };
    digits
        .as_bytes()
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

fn unpacked(headers: &BTreeMap<String, String>, body: &[u8]) -> Vec<u8> {
    if headers.get("content-encoding").is_none_or(|encoding| encoding != "gzip") {
        return body.to_vec();
    }
    let mut plain = Vec::new();
    // A body that cannot be decompressed is compared as it is, and differs.
    let unpacked = flate2::read::GzDecoder::new(body).read_to_end(&mut plain);
    unpacked.map_or_else(|_| body.to_vec(), |_| plain)
}
