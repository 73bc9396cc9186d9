//! The older half of the API: bodies are JSON and nothing else, and what is wrong is a JSON text.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{Problem, plain_json};
use crate::{runner, store};

/// What clients read where something is missing.
const MISSING: &str = "sql: no rows in result set";

/// Seconds after which a client that was refused for want of room may try again.
const RETRY_AFTER: u64 = 1;

/// A request that could not be served: a JSON text, or another JSON document.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    body: Value,
    /// Seconds after which it may be tried again.
    retry_after: Option<u64>,
}

impl Refusal {
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message.into())
    }

    pub(super) fn unprocessable(body: impl Into<Value>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, body)
    }

    pub(super) fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, MISSING)
    }

    pub(super) fn new(status: StatusCode, body: impl Into<Value>) -> Self {
        Self { status, body: body.into(), retry_after: None }
    }

    /// Too much is asked for now.
    fn busy(message: &str) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let body = json!({ "code": status.as_u16(), "error": message });
        Self { status, body, retry_after: Some(RETRY_AFTER) }
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::new(problem.status, problem.message)
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        Problem::from(error).into()
    }
}

impl From<runner::Error> for Refusal {
    fn from(error: runner::Error) -> Self {
        match error {
            runner::Error::Gone { .. } => Self::missing(),
            runner::Error::QueueFull { .. } => Self::busy(&error.to_string()),
            other => Problem::from(other).into(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = plain_json(self.status, &self.body);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// A body, with every key known.
pub(super) fn body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    if body.is_empty() {
        return Err(Refusal::bad_request("EOF"));
    }
    serde_json::from_slice(body).map_err(|error| {
        let text = error.to_string();
        let unknown = text.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        match unknown {
            Some(name) => Refusal::bad_request(format!("json: unknown field \"{name}\"")),
            None if error.is_eof() => Refusal::bad_request("unexpected EOF"),
            None => Refusal::bad_request(text),
        }
    })
}

/// A number in a path or a query; an empty one is 0.
pub(super) fn number(text: &str) -> Result<u64, Refusal> {
    if text.is_empty() {
        return Ok(0);
    }
    let wrong = |why: &str| Refusal::bad_request(format!("strconv.ParseInt: parsing \"{text}\": {why}"));
    let number: i64 = text.parse().map_err(|_| wrong("invalid syntax"))?;
    u64::try_from(number).map_err(|_| wrong("value out of range"))
}
