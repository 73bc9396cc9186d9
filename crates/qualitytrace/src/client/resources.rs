//! Requests for resources.

use anyhow::bail;
use qualitytrace_core::definition::{Format, Kind};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::Value;

use super::answer::{self, DOCUMENT, MESSAGE};
use super::{Client, escaped};
use crate::terminal;

/// The response header with warnings about a stored definition.
const WARNING: &str = "x-qualitytrace-warning";

/// The requested representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON with the fields that only the server sets.
    Json,
    /// JSON that can be sent back.
    PlainJson,
    Yaml,
    /// Several YAML documents.
    YamlStream,
}

/// A page of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page<'a> {
    pub(crate) take: u64,
    pub(crate) skip: u64,
    pub(crate) sort_by: &'a str,
    pub(crate) direction: &'a str,
    /// Parameters that select: `query`, `tag`, `outcome`, `trigger`.
    pub(crate) filters: Vec<(&'static str, &'a str)>,
}

impl Client {
    /// Creates or updates a resource, and prints the server's warnings.
    pub(crate) async fn apply(
        &self,
        kind: Kind,
        text: String,
        format: Format,
        form: Form,
    ) -> anyhow::Result<String> {
        let request =
            self.http.put(self.path(&collection(kind))).header(CONTENT_TYPE, media(format)).body(text);
        let response = self.send(wanting(request, form)).await?;
        let said = response.headers().get_all(WARNING).iter().filter_map(|value| value.to_str().ok());
        // Warnings with a position were printed when the text was read.
        for warning in said.filter(|warning| !warning.starts_with("line ")) {
            terminal::err(&format!("warning: {warning}\n"));
        }
        body(response, "apply").await
    }

    /// A resource; `None` when it does not exist.
    pub(crate) async fn resource(&self, kind: Kind, id: &str, form: Form) -> anyhow::Result<Option<String>> {
        let path = format!("{}/{}", collection(kind), escaped(id));
        let response = self.send(wanting(self.http.get(self.path(&path)), form)).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        body(response, "get").await.map(Some)
    }

    /// A page of a list.
    pub(crate) async fn list(&self, kind: Kind, page: &Page<'_>, form: Form) -> anyhow::Result<String> {
        let request = self.http.get(self.path(&collection(kind))).query(&[
            ("skip", page.skip.to_string().as_str()),
            ("take", page.take.to_string().as_str()),
            ("sortBy", page.sort_by),
            ("sortDirection", page.direction),
        ]);
        let request = request.query(&page.filters);
        body(self.send(wanting(request, form)).await?, "list").await
    }

    /// Removes a resource; `false` when it does not exist.
    pub(crate) async fn delete(&self, kind: Kind, id: &str) -> anyhow::Result<bool> {
        let path = format!("{}/{}", collection(kind), escaped(id));
        let response = self.send(wanting(self.http.delete(self.path(&path)), Form::Json)).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        body(response, "Delete").await.map(|_| true)
    }

    /// A definition as its author wrote it, in this format; `None` when the server has no such text.
    pub(crate) async fn source(
        &self,
        kind: Kind,
        id: &str,
        format: Format,
    ) -> anyhow::Result<Option<String>> {
        let path = format!("{}/{}/source", collection(kind), escaped(id));
        let response = self.send(self.http.get(self.path(&path))).await?;
        let is_wanted = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|content_type| content_type.as_bytes().starts_with(media(format).as_bytes()));
        if !response.status().is_success() || !is_wanted {
            return Ok(None);
        }
        body(response, "get").await.map(Some)
    }
}

/// The content type of a definition.
pub(super) const fn media(format: Format) -> &'static str {
    match format {
        Format::Yaml => "text/yaml",
        Format::Json => "application/json",
    }
}

/// The path segment of a kind.
fn collection(kind: Kind) -> String {
    format!("/{}s", kind.as_str().to_lowercase())
}

fn wanting(request: RequestBuilder, form: Form) -> RequestBuilder {
    let request = request.header("x-source", "cli");
    match form {
        Form::Json => request.header(ACCEPT, "application/json").header("X-Tracetest-Augmented", "true"),
        Form::PlainJson => request.header(ACCEPT, "application/json"),
        Form::Yaml => request.header(ACCEPT, "text/yaml"),
        Form::YamlStream => request.header(ACCEPT, "text/yaml-stream"),
    }
}

/// The body of a success response; fails with the server's message otherwise.
async fn body(response: Response, doing: &str) -> anyhow::Result<String> {
    let status = response.status();
    let text = answer::text(response, if status.is_success() { DOCUMENT } else { MESSAGE }).await?;
    if status.is_success() {
        return Ok(text);
    }
    let said: Value = serde_saphyr::from_str(&text).unwrap_or_default();
    let message = ["error", "detail"].iter().find_map(|key| said.get(key)?.as_str());
    match message {
        Some(message) => bail!("could not {doing} resource: {message}"),
        None => bail!("could not {doing} resource: the server answers {status}"),
    }
}
