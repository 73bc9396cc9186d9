//! Addresses of the server's page for browsers.

use serde_json::Value;

use super::answer::{self, DOCUMENT, MESSAGE, TRACE};
use super::{Client, escaped};

impl Client {
    /// The address of the page.
    pub(crate) fn page(&self) -> String {
        format!("{}{}", self.base, self.prefix.strip_suffix("/api").unwrap_or_default())
    }

    /// The address of a run on the page.
    pub(crate) fn page_of_run(&self, test: &str, run: u64) -> String {
        format!("{}/test/{}/run/{run}", self.page(), escaped(test))
    }

    /// Whether the server has a page; `false` when it does not say.
    pub(crate) async fn has_page(&self) -> bool {
        let Ok(Some(body)) = self.get("/api/info", MESSAGE).await else { return false };
        let info: Value = answer::decoded(&body, MESSAGE, "about itself").unwrap_or_default();
        info["page"]["built"] == true
    }

    /// The address of a test, of one of its runs, or of a trace; `None` if the server has none with this id.
    pub(crate) async fn page_of(&self, id: &str, run: Option<u64>) -> anyhow::Result<Option<String>> {
        if self.get(&format!("/api/tests/{}", escaped(id)), DOCUMENT).await?.is_some() {
            let test = format!("{}/test/{}", self.page(), escaped(id));
            return Ok(Some(run.map_or(test, |run| self.page_of_run(id, run))));
        }
        let is_trace = id.len() == 32 && id.bytes().all(|letter| letter.is_ascii_hexdigit());
        if !is_trace || self.get(&format!("/api/traces/{id}/columns"), TRACE).await?.is_none() {
            return Ok(None);
        }
        Ok(Some(format!("{}/trace/{id}", self.page())))
    }
}
