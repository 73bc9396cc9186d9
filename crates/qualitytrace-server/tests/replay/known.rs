//! Deliberate differences from the original, each with its reason: data, read from one file.

use serde::Deserialize;

use super::entry::{Answer, Entry};

const FILE: &str = include_str!("../golden/differences/differences.json");

/// A deliberate difference.
#[derive(Debug, Deserialize)]
pub(crate) struct Known {
    /// Why ours is otherwise.
    pub(crate) reason: String,
    #[serde(default)]
    when: When,
    #[serde(default)]
    expect: Expect,
    /// Further paths to leave out.
    #[serde(default)]
    pub(crate) mask: Vec<String>,
    /// Items of a list that are left out on both sides, by their `type`.
    #[serde(default)]
    ignore: Vec<String>,
}

/// The entries that it is about; what is not given does not matter.
#[derive(Debug, Default, Deserialize)]
struct When {
    area: Option<String>,
    /// A trailing `*` stands for anything.
    #[serde(default)]
    names: Vec<String>,
    method: Option<String>,
    path_prefix: Option<String>,
    path_suffix: Option<String>,
    status: Option<u16>,
    content_type: Option<String>,
    body: Option<String>,
    body_contains: Option<String>,
    /// The original sent several documents.
    #[serde(default)]
    several_documents: bool,
    /// The original closed the connection.
    #[serde(default)]
    no_answer: bool,
}

/// The answer that is expected instead; what is not given stays.
#[derive(Debug, Default, Deserialize)]
struct Expect {
    status: Option<u16>,
    /// One of several.
    #[serde(default)]
    statuses: Vec<u16>,
    content_type: Option<String>,
    body: Option<String>,
    body_is: Option<BodyIs>,
}

/// What is said of a body instead of the body itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum BodyIs {
    /// `{code, error}`, with any text.
    #[serde(rename = "an error")]
    Error,
    #[serde(rename = "any JSON")]
    Json,
    /// The first of several.
    #[serde(rename = "the first document")]
    First,
    #[serde(rename = "anything")]
    Anything,
}

/// Every deliberate difference.
pub(crate) fn all() -> Result<Vec<Known>, String> {
    serde_json::from_str(FILE).map_err(|error| format!("the list of differences cannot be read: {error}"))
}

impl Known {
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

    /// The answer to expect after all. `actual` fills in what may be anything.
    pub(crate) fn expected(&self, original: &Answer, actual: &Answer) -> Answer {
        let expect = &self.expect;
        let mut answer = original.clone();
        if let Some(status) = expect.status {
            answer.status = status;
        }
        if expect.statuses.contains(&actual.status) {
            answer.status = actual.status;
        }
        // An empty one says that any will do.
        match expect.content_type.as_deref() {
            Some("") => drop(answer.headers.remove("content-type")),
            Some(wanted) => drop(answer.headers.insert("content-type".to_owned(), wanted.to_owned())),
            None => {}
        }
        if let Some(body) = &expect.body {
            answer.body.clone_from(body);
        }
        let sent = serde_json::from_str::<serde_json::Value>(&actual.body);
        let is_error = |body: &serde_json::Value| body["code"] == actual.status && body["error"].is_string();
        match expect.body_is {
            Some(BodyIs::Error) if !sent.as_ref().is_ok_and(is_error) => {
                r#"{"code": "the status", "error": "a sentence"}"#.clone_into(&mut answer.body);
            }
            Some(BodyIs::Json) if sent.is_err() => {}
            Some(BodyIs::Error | BodyIs::Json | BodyIs::Anything) => answer.body.clone_from(&actual.body),
            Some(BodyIs::First) => answer.body = first_document(&answer.body),
            None => {}
        }
        answer
    }
}

impl Known {
    /// The answer without the items that do not count.
    pub(crate) fn narrowed(&self, answer: &Answer) -> Answer {
        let mut answer = answer.clone();
        if let (false, Ok(mut items)) =
            (self.ignore.is_empty(), serde_json::from_str::<Vec<serde_json::Value>>(&answer.body))
        {
            items.retain(|item| !self.ignore.iter().any(|kind| item["type"] == **kind));
            answer.body = serde_json::Value::Array(items).to_string();
        }
        answer
    }
}

/// The first of several JSON documents.
fn first_document(body: &str) -> String {
    serde_json::Deserializer::from_str(body)
        .into_iter::<serde_json::Value>()
        .next()
        .and_then(Result::ok)
        .map_or_else(|| body.to_owned(), |first| first.to_string())
}
