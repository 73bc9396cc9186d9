//! Content negotiation: the format of request bodies and of responses.

use axum::body::Body;
use axum::response::Response;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use qualitytrace_core::definition::{Format, to_yaml};
use serde_json::{Value, json};

use crate::wire::time::NEVER;

/// A format of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Yaml,
    YamlStream,
}

/// A format, under the media type that the client named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Media {
    pub(super) form: Form,
    pub(super) name: &'static str,
}

/// Every supported media type.
pub(super) const MEDIA: [Media; 6] = [
    Media { form: Form::Json, name: "application/json" },
    Media { form: Form::Yaml, name: "text/yaml" },
    Media { form: Form::Yaml, name: "application/yaml" },
    Media { form: Form::Yaml, name: "application/x-yaml" },
    Media { form: Form::Yaml, name: "text/x-yaml" },
    Media { form: Form::YamlStream, name: "text/yaml-stream" },
];

impl Media {
    /// Plain JSON.
    pub(super) const JSON: Self = MEDIA[0];

    /// The format of a content type; `None` when it is not supported.
    pub(super) fn of_content_type(content_type: &str) -> Option<Self> {
        let (name, _) = weighed(content_type);
        let ends = |end: &str| name.len() > end.len() && name.to_ascii_lowercase().ends_with(end);
        named(name).or_else(|| match () {
            () if name.eq_ignore_ascii_case("text/json") || ends("+json") => Some(Self::JSON),
            () if ends("+yaml") => Some(MEDIA[2]),
            () => None,
        })
    }

    /// The format of the request body: its content type, else the accepted one, else JSON.
    pub(super) fn of_body(headers: &HeaderMap) -> Self {
        sent(headers).or_else(|| wanted(headers)).unwrap_or(MEDIA[0])
    }

    /// The format of the response: the accepted one, else that of the request, else JSON.
    pub(super) fn of_answer(headers: &HeaderMap) -> Self {
        wanted(headers).or_else(|| sent(headers)).unwrap_or(MEDIA[0])
    }

    /// The definition format of the body.
    pub(super) fn format(self) -> Format {
        match self.form {
            Form::Json => Format::Json,
            Form::Yaml | Form::YamlStream => Format::Yaml,
        }
    }

    /// A response with this body.
    pub(super) fn answer(self, status: StatusCode, body: &Value) -> Response {
        self.response(status, self.written(body))
    }

    /// A response without a body.
    pub(super) fn empty(self, status: StatusCode) -> Response {
        self.response(status, String::new())
    }

    /// A list response: in a YAML stream each item is a document of its own.
    pub(super) fn list(self, count: u64, items: &[Value]) -> Response {
        let body = match self.form {
            Form::YamlStream => {
                items.iter().flat_map(|item| ["---\n".to_owned(), self.written(item)]).collect()
            }
            Form::Json | Form::Yaml => self.written(&serde_json::json!({ "count": count, "items": items })),
        };
        self.response(StatusCode::OK, body)
    }

    fn written(self, body: &Value) -> String {
        match self.form {
            Form::Json => body.to_string(),
            Form::Yaml | Form::YamlStream => to_yaml(&without_blanks(body)),
        }
    }

    fn response(self, status: StatusCode, body: String) -> Response {
        let content_type = content_type(self.name, &body);
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}

/// The content type of a text. Clients take `text/...` for Latin-1 without a charset; plain ASCII is the same in
/// both, and existing clients expect the type alone.
pub(super) fn content_type(name: &'static str, body: &str) -> HeaderValue {
    if name.starts_with("text/") && !body.is_ascii() {
        let told = HeaderValue::try_from(format!("{name}; charset=utf-8"));
        return told.unwrap_or_else(|_| HeaderValue::from_static(name));
    }
    HeaderValue::from_static(name)
}

/// The YAML form that clients expect: no blank trigger, no zero time, and empty lists instead of null.
fn without_blanks(value: &Value) -> Value {
    match value {
        Value::Object(entries) => entries
            .iter()
            .filter(|(key, value)| !(key.as_str() == "trigger" && **value == json!({ "type": "" })))
            .filter(|(key, value)| !(key.as_str() == "time" && **value == NEVER))
            .map(|(key, value)| {
                let is_list = matches!(
                    key.as_str(),
                    "values" | "steps" | "addresses" | "tips" | "requiredGates" | "plugins"
                );
                (key.clone(), if is_list && value.is_null() { json!([]) } else { without_blanks(value) })
            })
            .collect(),
        Value::Array(items) => items.iter().map(without_blanks).collect(),
        other => other.clone(),
    }
}

fn sent(headers: &HeaderMap) -> Option<Media> {
    Media::of_content_type(text(headers, &CONTENT_TYPE)?)
}

/// The supported media type with the highest weight; the first of equals.
fn wanted(headers: &HeaderMap) -> Option<Media> {
    let mut best: Option<(Media, f32)> = None;
    for range in headers.get_all(ACCEPT) {
        for (name, weight) in range.to_str().unwrap_or_default().split(',').map(weighed) {
            let Some(media) = named(name).filter(|_| weight > 0.0) else {
                continue;
            };
            if best.is_none_or(|(_, best)| weight > best) {
                best = Some((media, weight));
            }
        }
    }
    best.map(|(media, _)| media)
}

fn named(name: &str) -> Option<Media> {
    MEDIA.into_iter().find(|media| media.name.eq_ignore_ascii_case(name))
}

/// Parses `text/yaml; q=0.5` into name and weight; other parameters are ignored.
fn weighed(range: &str) -> (&str, f32) {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(key, _)| key.trim().eq_ignore_ascii_case("q"))
        .and_then(|(_, value)| value.trim().parse().ok());
    (name, weight.unwrap_or(1.0))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, content_type: &str, answer: &str) {
        let mut headers = HeaderMap::new();
        for (name, value) in [(ACCEPT, accept), (CONTENT_TYPE, content_type)] {
            if !value.is_empty() {
                headers.insert(name, value.parse().unwrap());
            }
        }
        assert_eq!(Media::of_answer(&headers).name, answer, "{accept} / {content_type}");
    }

    #[test]
    fn the_answer_has_the_form_that_is_liked_best() {
        check("", "", "application/json");
        check("*/*", "text/yaml", "text/yaml");
        check("application/xml", "", "application/json");
        check("text/yaml, application/json;q=0.5", "", "text/yaml");
        check("text/yaml;q=0.4, application/json;q=0.5", "", "application/json");
        check("application/json;q=0", "text/yaml; charset=utf-8", "text/yaml");
        check("TEXT/YAML; charset=utf-8", "application/json", "text/yaml");
        check("text/yaml-stream", "", "text/yaml-stream");
    }
}
