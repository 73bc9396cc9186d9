//! Answers other than success, in the two ways in which the API says them.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::negotiation::Media;
use crate::{runner, store};

/// Bytes of what the framework says.
const LONGEST_WORDS: usize = 64 * 1024;

/// A request that could not be served: `{code, error}`.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, message: message.into() }
    }

    fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error, "a request failed");
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, message: error.to_string() }
    }

    /// The answer in the form that the client asked for.
    pub(super) fn in_form(&self, media: Media) -> Response {
        let body = json!({ "code": self.status.as_u16(), "error": self.message });
        media.answer(self.status, &body)
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        Self::internal(&error)
    }
}

impl From<runner::Error> for Problem {
    fn from(error: runner::Error) -> Self {
        Self::internal(&error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({ "code": self.status.as_u16(), "error": self.message });
        (self.status, Json(body)).into_response()
    }
}

/// JSON as the older half of the API writes it: with a new line at the end.
pub(super) fn plain_json(status: StatusCode, body: &Value) -> Response {
    let headers = [(CONTENT_TYPE, "application/json; charset=UTF-8")];
    (status, headers, format!("{body}\n")).into_response()
}

/// What the framework says in plain words about a request that it cannot read, in the form that clients expect.
pub(super) async fn said_in_json(response: Response) -> Response {
    let is_plain = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|content_type| content_type.as_bytes().starts_with(b"text/plain"));
    let status = response.status();
    if !is_plain || !status.is_client_error() {
        return response;
    }
    let Ok(text) = axum::body::to_bytes(response.into_body(), LONGEST_WORDS).await else {
        return Problem { status, message: "the request cannot be read".to_owned() }.into_response();
    };
    let message = String::from_utf8_lossy(&text).into_owned();
    // Clients know this one as it is.
    if message.starts_with("invalid tenant id") {
        return (status, message).into_response();
    }
    Problem { status, message }.into_response()
}
