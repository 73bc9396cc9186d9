//! Deliberate differences from Tracetest, each with its reason, read from one file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::entry::{Answer, Entry};

const FILE: &str = include_str!("../golden/differences/differences.json");

/// A deliberate difference.
#[derive(Debug, Deserialize)]
pub(crate) struct Known {
    /// Why this server differs.
    pub(crate) reason: String,
    #[serde(default)]
    when: When,
    #[serde(default)]
    expect: Expect,
    /// Further paths to ignore.
    #[serde(default)]
    mask: Vec<String>,
    /// Further paths to ignore in every run.
    #[serde(default)]
    in_runs: Vec<String>,
    /// Lists in every run whose order is ignored.
    #[serde(default)]
    unordered_in_runs: Vec<String>,
    /// Items of a list that are ignored on both sides, by their `type`.
    #[serde(default)]
    ignore: Vec<String>,
}

/// The entries that it applies to; missing conditions always hold.
#[derive(Debug, Default, Deserialize)]
struct When {
    area: Option<String>,
    /// A trailing `*` matches anything.
    #[serde(default)]
    names: Vec<String>,
    method: Option<String>,
    path_prefix: Option<String>,
    path_suffix: Option<String>,
    path_contains: Option<String>,
    status: Option<u16>,
    content_type: Option<String>,
    body: Option<String>,
    body_contains: Option<String>,
    /// Tracetest sent several documents.
    #[serde(default)]
    several_documents: bool,
    /// Tracetest closed the connection.
    #[serde(default)]
    no_answer: bool,
}

/// The expected response; missing fields stay as recorded.
#[derive(Debug, Default, Deserialize)]
struct Expect {
    status: Option<u16>,
    /// One of several status codes.
    #[serde(default)]
    statuses: Vec<u16>,
    content_type: Option<String>,
    body: Option<String>,
    body_is: Option<BodyIs>,
    /// A part of the body; the rest is ignored.
    body_contains: Option<String>,
    /// The beginning of the error message; the rest is our own text.
    error_begins: Option<String>,
    /// Expected values, by JSON pointer; everything else is ignored.
    #[serde(default)]
    shows: BTreeMap<String, Value>,
}

/// The kind of a body whose content is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum BodyIs {
    /// `{code, error}`, with our own text.
    #[serde(rename = "an error")]
    Error,
    /// A JSON string with our own text.
    #[serde(rename = "a text")]
    Text,
    /// The first of several documents.
    #[serde(rename = "the first document")]
    First,
    /// HTML.
    #[serde(rename = "a page")]
    Page,
    /// `{type, spec}`.
    #[serde(rename = "a resource")]
    Resource,
    /// `{count, items}`.
    #[serde(rename = "a list")]
    List,
    /// JSON, or an empty body.
    #[serde(rename = "an answer")]
    Any,
}

/// Reads all deliberate differences.
pub(crate) fn all() -> Result<Vec<Known>, String> {
    serde_json::from_str(FILE).map_err(|error| format!("the list of differences cannot be read: {error}"))
}

/// Where responses contain runs: alone, exported, in a list, as steps of a suite's run.
const RUNS: [&str; 5] = ["$", "$.run", "$[*]", "$.steps[*]", "$[*].steps[*]"];

fn in_every_run(paths: &[String]) -> impl Iterator<Item = String> {
    paths.iter().flat_map(|path| RUNS.iter().map(move |run| format!("{run}.{path}")))
}

impl Known {
    /// Returns the paths to ignore.
    pub(crate) fn masks(&self) -> impl Iterator<Item = String> {
        self.mask.iter().cloned().chain(in_every_run(&self.in_runs))
    }

    /// Returns the lists whose order is ignored.
    pub(crate) fn unordered(&self) -> impl Iterator<Item = String> {
        in_every_run(&self.unordered_in_runs)
    }

    pub(crate) fn is_about(&self, area: &str, entry: &Entry) -> bool {
        let when = &self.when;
        let content_type = entry.response_headers.as_ref().and_then(|headers| headers.get("Content-Type"));
        let body = entry.response_body.as_deref().unwrap_or_default();
        let named = |name: &String| match name.strip_suffix('*') {
            Some(start) => entry.name.starts_with(start),
            None => entry.name == *name,
        };
        when.area.as_ref().is_none_or(|wanted| wanted == area)
            && (when.names.is_empty() || when.names.iter().any(named))
            && when.method.as_ref().is_none_or(|method| *method == entry.method)
            && when.path_prefix.as_ref().is_none_or(|start| entry.path.starts_with(start))
            && when.path_suffix.as_ref().is_none_or(|end| entry.route().ends_with(end))
            && when.path_contains.as_ref().is_none_or(|part| entry.path.contains(part))
            && (when.status.is_none() || when.status == entry.status)
            && when
                .content_type
                .as_ref()
                .is_none_or(|wanted| content_type.is_some_and(|got| got.starts_with(wanted)))
            && when.body.as_ref().is_none_or(|wanted| wanted.trim() == body.trim())
            && when.body_contains.as_ref().is_none_or(|part| body.contains(part))
            && (!when.several_documents || entry.is_several_documents())
            && when.no_answer == entry.status.is_none()
    }

    /// Returns the expected response. `actual` fills in the parts that are ignored.
    pub(crate) fn expected(&self, original: &Answer, actual: &Answer) -> Answer {
        let expect = &self.expect;
        let mut answer = original.clone();
        if let Some(status) = expect.status {
            answer.status = status;
        }
        if expect.statuses.contains(&actual.status) {
            answer.status = actual.status;
        }
        // An empty content type matches any.
        match expect.content_type.as_deref() {
            Some("") => drop(answer.headers.remove("content-type")),
            Some(wanted) => drop(answer.headers.insert("content-type".to_owned(), wanted.to_owned())),
            None => {}
        }
        if let Some(body) = &expect.body {
            answer.body.clone_from(body);
        }
        let sent = parsed(actual);
        let is_good = match expect.body_is {
            Some(BodyIs::Error) => sent["code"] == actual.status && sent["error"].is_string(),
            Some(BodyIs::Text) => sent.is_string(),
            Some(BodyIs::Resource) => sent["type"].is_string() && sent["spec"].is_object(),
            Some(BodyIs::List) => sent["count"].is_u64() && sent["items"].is_array(),
            Some(BodyIs::Any) => {
                actual.body.is_empty() || serde_json::from_str::<Value>(&actual.body).is_ok()
            }
            Some(BodyIs::Page) => actual.body.starts_with("<!doctype html>"),
            Some(BodyIs::First) => {
                answer.body = first_document(&answer.body);
                false
            }
            None => expect.is_partly_given() && expect.is_shown_by(&sent) && expect.stands_in(&actual.body),
        };
        if is_good {
            answer.body.clone_from(&actual.body);
        }
        answer
    }
}

impl Expect {
    /// Whether only parts of the body are given.
    fn is_partly_given(&self) -> bool {
        !self.shows.is_empty() || self.error_begins.is_some() || self.body_contains.is_some()
    }

    fn stands_in(&self, body: &str) -> bool {
        self.body_contains.as_ref().is_none_or(|part| body.contains(part))
    }

    fn is_shown_by(&self, sent: &Value) -> bool {
        let error = sent["error"].as_str().or(sent.as_str()).unwrap_or_default();
        self.error_begins.as_ref().is_none_or(|start| error.starts_with(start))
            && self.shows.iter().all(|(at, value)| sent.pointer(at).unwrap_or(&Value::Null) == value)
    }
}

/// Parses a body in JSON or YAML; null if it is text.
fn parsed(answer: &Answer) -> Value {
    let is_yaml =
        answer.headers.get("content-type").is_some_and(|content_type| content_type.contains("yaml"));
    if is_yaml {
        serde_saphyr::from_str(&answer.body).unwrap_or_default()
    } else {
        serde_json::from_str(&answer.body).unwrap_or_default()
    }
}

impl Known {
    /// Removes ignored items from a response.
    pub(crate) fn narrowed(&self, answer: &Answer) -> Answer {
        let mut answer = answer.clone();
        if let (false, Ok(mut items)) =
            (self.ignore.is_empty(), serde_json::from_str::<Vec<Value>>(&answer.body))
        {
            items.retain(|item| !self.ignore.iter().any(|kind| item["type"] == **kind));
            answer.body = Value::Array(items).to_string();
        }
        answer
    }
}

/// Returns the first of several JSON documents.
fn first_document(body: &str) -> String {
    serde_json::Deserializer::from_str(body)
        .into_iter::<Value>()
        .next()
        .and_then(Result::ok)
        .map_or_else(|| body.to_owned(), |first| first.to_string())
}
