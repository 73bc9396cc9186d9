//! Requests for traces and for help while writing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use qualitytrace_server::wire::time::from_rfc3339;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE};
use serde_json::Value;

use super::answer::{self, DOCUMENT, MESSAGE, TRACE};
use super::{Client, accepted, escaped};

impl Client {
    /// A trace in this media type; `None` when the server has no span of it.
    pub(crate) async fn trace_as(&self, id: &str, media: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let request = self.http.get(self.url(&format!("/api/traces/{}", escaped(id)))).header(ACCEPT, media);
        let answer = self.send(request).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let bytes = answer::bytes(accepted(answer).await?, TRACE).await?;
        // Every media type of traces is JSON.
        answer::measured(&bytes, TRACE)?;
        Ok(Some(bytes))
    }

    /// A run of a test as the API shows it, with its trace.
    pub(crate) async fn run_document(&self, test: &str, run: u64) -> anyhow::Result<Value> {
        let body = self.get(&format!("/api/tests/{}/run/{run}", escaped(test)), TRACE).await?;
        let missing = || format!("the server at {} has no run {run} of test {test}", self.base());
        answer::decoded(&body.with_context(missing)?, TRACE, "a run")
    }

    /// The latest traces that pass the filters, newest first.
    pub(crate) async fn traces(&self, filters: &[(&str, String)]) -> anyhow::Result<Vec<Value>> {
        let request = self.http.get(self.url("/api/traces")).query(filters);
        let mut page: Value = answer::json(self.ask(request).await?, DOCUMENT, "a list of traces").await?;
        Ok(serde_json::from_value(page["items"].take()).unwrap_or_default())
    }

    /// Stores the traces of a file; the answer says what of it.
    pub(crate) async fn store_traces(&self, file: Vec<u8>) -> anyhow::Result<Value> {
        let request =
            self.http.post(self.url("/api/traces")).header(CONTENT_TYPE, "application/json").body(file);
        answer::json(self.ask(request).await?, MESSAGE, "about a file").await
    }

    /// What the server says of itself: version, database, addresses.
    pub(crate) async fn info(&self) -> anyhow::Result<Value> {
        let body = self.get("/api/info", MESSAGE).await?.context("the server does not say what it is")?;
        answer::decoded(&body, MESSAGE, "about itself")
    }

    /// Whether the server's database answers.
    pub(crate) async fn is_ready(&self) -> anyhow::Result<bool> {
        let answer = self.http.get(format!("{}/readyz", self.page())).send().await;
        let answer = answer.map_err(|error| self.trouble(error))?;
        Ok(answer.status().is_success())
    }

    /// How far the server's clock, which its answers carry, is from that of this machine; `None` if they do not.
    pub(crate) async fn clock_difference(&self) -> anyhow::Result<Option<Duration>> {
        let answer = self.send(self.http.get(self.url("/api/version.json"))).await?;
        let Some(theirs) = answer.headers().get(DATE).and_then(|date| http_date(date.to_str().ok()?)) else {
            return Ok(None);
        };
        let own = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Some(Duration::from_secs(own.as_secs().abs_diff(theirs))))
    }
}

/// Seconds since the epoch of a date like `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|known| known == month)? + 1;
    let written = format!("{year}-{month:02}-{day}T{time}Z");
    Some(from_rfc3339(&written)?.as_nanos() / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::http_date;

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("yesterday"), None);
    }
}
