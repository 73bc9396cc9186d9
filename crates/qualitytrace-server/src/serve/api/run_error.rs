//! Errors and request bodies of the API of tests, suites and their runs, as clients of Tracetest expect them: bodies are
//! JSON only, and an error is a JSON string.

use std::num::{IntErrorKind, ParseIntError};

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::plain_json;
use super::error::{ApiError, RETRY_AFTER};
use crate::http::routes::operation::{Answer, Content, of};
use crate::runner;
use crate::storage::store;

/// The error text that legacy clients expect for a missing row.
const MISSING: &str = "sql: no rows in result set";

/// An error response of the API of tests, suites and their runs.
#[derive(Debug)]
pub(super) struct RunApiError {
    status: StatusCode,
    body: ErrorBody,
    /// Seconds after which the client may retry.
    retry_after: Option<u64>,
}

/// The body of an error: a text, or an object with more detail.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Refusal")]
pub(super) enum ErrorBody {
    /// The error message.
    Text(String),
    /// The status and the error message, as in the newer API.
    Error { code: u16, error: String },
    /// Missing variables.
    #[serde(rename_all = "camelCase")]
    Missing { missing_variables: Vec<MissingVariables> },
}

/// Error responses of operations.
pub(super) const BAD_REQUEST: Answer = (400, Content::Json(of::<ErrorBody>));
pub(super) const NOT_FOUND: Answer = (404, Content::Json(of::<ErrorBody>));
pub(super) const UNPROCESSABLE: Answer = (422, Content::Json(of::<ErrorBody>));
pub(super) const TOO_MANY_REQUESTS: Answer = (429, Content::Json(of::<ErrorBody>));

/// The variables that a test lacks.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MissingVariables {
    pub(super) test_id: String,
    pub(super) variables: Vec<MissingVariable>,
}

/// A missing variable.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MissingVariable {
    pub(super) key: String,
    /// Its value in the latest run, if it had one that is no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default_value: Option<String>,
    /// `secret`, if it was one in the latest run: its value must be sent as one again.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
}

impl From<String> for ErrorBody {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ErrorBody {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl RunApiError {
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message.into())
    }

    pub(super) fn unprocessable(body: impl Into<ErrorBody>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, body)
    }

    pub(super) fn lacking(missing_variables: Vec<MissingVariables>) -> Self {
        Self::unprocessable(ErrorBody::Missing { missing_variables })
    }

    pub(super) fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, MISSING)
    }

    /// Whether the error is that something does not exist.
    pub(super) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(super) fn new(status: StatusCode, body: impl Into<ErrorBody>) -> Self {
        Self { status, body: body.into(), retry_after: None }
    }

    /// An unknown key, in the words that clients expect.
    pub(super) fn unknown_field(name: &str) -> Self {
        Self::bad_request(format!("json: unknown field \"{name}\""))
    }

    /// An error after which the client may retry.
    fn later(status: StatusCode, error: String) -> Self {
        let body = ErrorBody::Error { code: status.as_u16(), error };
        Self { status, body, retry_after: Some(RETRY_AFTER) }
    }
}

impl From<RunApiError> for ApiError {
    fn from(error: RunApiError) -> Self {
        let message = match error.body {
            ErrorBody::Text(message) | ErrorBody::Error { error: message, .. } => message,
            ErrorBody::Missing { .. } => "variables are missing".to_owned(),
        };
        Self { status: error.status, message }
    }
}

impl From<ApiError> for RunApiError {
    fn from(problem: ApiError) -> Self {
        match problem.retry_after() {
            Some(_) => Self::later(problem.status, problem.message),
            None => Self::new(problem.status, problem.message),
        }
    }
}

impl From<store::Error> for RunApiError {
    fn from(error: store::Error) -> Self {
        ApiError::from(error).into()
    }
}

impl From<runner::Error> for RunApiError {
    fn from(error: runner::Error) -> Self {
        match error {
            runner::Error::Gone { .. } | runner::Error::Lost => Self::missing(),
            runner::Error::QueueFull { .. } => Self::later(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
            other => ApiError::from(other).into(),
        }
    }
}

impl IntoResponse for RunApiError {
    fn into_response(self) -> Response {
        let mut response = plain_json(self.status, &self.body);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Parses a request body; unknown keys are refused.
pub(super) fn body<T: DeserializeOwned>(body: &[u8]) -> Result<T, RunApiError> {
    // Serde would accept an array for a struct with its fields in order.
    let (body, other) = match body.trim_ascii() {
        [] => return Err(RunApiError::bad_request("EOF")),
        b"null" => (&b"{}"[..], None),
        [b'[', ..] => (body, Some("array")),
        [b'"', ..] => (body, Some("string")),
        [b't' | b'f', ..] => (body, Some("bool")),
        [b'-' | b'0'..=b'9', ..] => (body, Some("number")),
        _ => (body, None),
    };
    if let Some(other) = other {
        return Err(RunApiError::bad_request(format!(
            "json: cannot unmarshal {other}, an object is expected"
        )));
    }
    let read = serde_json::from_slice(body).or_else(|error| {
        // It is unknown which of the two is meant.
        if error.to_string().starts_with("duplicate field") {
            return Err(error);
        }
        // Some clients send null for absent fields.
        let bare = serde_json::from_slice(body).map(without_nulls).and_then(serde_json::from_value);
        bare.map_err(|_| error)
    });
    read.map_err(|error| {
        let text = error.to_string();
        let unknown = text.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        match unknown {
            Some(name) => RunApiError::unknown_field(name),
            None if error.is_eof() => RunApiError::bad_request("unexpected EOF"),
            None => RunApiError::bad_request(text),
        }
    })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => {
            items.into_iter().filter(|value| !value.is_null()).map(without_nulls).collect()
        }
        other => other,
    }
}

/// Parses a number in a path. A negative one becomes 0, which names nothing.
pub(super) fn number(text: &str) -> Result<u64, RunApiError> {
    Ok(u64::try_from(integer(text)?).unwrap_or(0))
}

/// Parses a count in a query.
pub(super) fn count(name: &str, text: &str) -> Result<u64, RunApiError> {
    let wrong = |_| RunApiError::bad_request(format!("cannot process request: {name} must not be negative"));
    u64::try_from(integer(text)?).map_err(wrong)
}

/// Parses an integer in the range that clients know; an empty text is 0.
pub(super) fn integer(text: &str) -> Result<i32, RunApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|error: ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        RunApiError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": {why}"))
    })
}
