//! Errors of the API, and the framework's errors in their form.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{self, CONTENT_TYPE};
use schemars::JsonSchema;
use serde::Serialize;

use super::negotiation::Media;
use crate::http::routes::operation::{Answer, Content, of};
use crate::runner;
use crate::storage::store;

/// The longest error text of the framework.
const LONGEST_WORDS: usize = 64 * 1024;

/// `Retry-After` for requests that were refused for lack of memory or of a database, in seconds.
pub(super) const RETRY_AFTER: u64 = 1;

/// An error response: `{code, error}`.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl ApiError {
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, message: message.into() }
    }

    /// An error of our own side, temporary or permanent.
    fn internal(error: &(dyn std::error::Error + 'static), temporary: Option<&str>) -> Self {
        tracing::error!(error, "a request failed");
        if let Some(message) = temporary {
            return Self { status: StatusCode::SERVICE_UNAVAILABLE, message: message.to_owned() };
        }
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, message: error.to_string() }
    }

    /// The error in the format that the client accepts.
    pub(super) fn in_form(&self, media: Media) -> Response {
        self.timed(media.answer(self.status, &serde_json::to_value(self.said()).unwrap_or_default()))
    }

    /// Seconds after which the client may retry.
    pub(super) fn retry_after(&self) -> Option<u64> {
        (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY_AFTER)
    }

    fn timed(&self, mut response: Response) -> Response {
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    fn said(&self) -> Error<'_> {
        Error { code: self.status.as_u16(), error: &self.message }
    }
}

/// The error of a request that could not be served.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Error<'a> {
    /// The status.
    pub(super) code: u16,
    /// The error message.
    pub(super) error: &'a str,
}

/// Error responses of operations.
pub(super) const BAD_REQUEST: Answer = (400, Content::Json(of::<Error>));
pub(super) const NOT_FOUND: Answer = (404, Content::Json(of::<Error>));
pub(super) const UNAUTHORIZED: Answer = (401, Content::Json(of::<Error>));
pub(super) const CONFLICT: Answer = (409, Content::Json(of::<Error>));
pub(super) const UNPROCESSABLE: Answer = (422, Content::Json(of::<Error>));
pub(super) const UNAVAILABLE: Answer = (503, Content::Json(of::<Error>));

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        Self::internal(&error, error.temporary_message())
    }
}

impl From<runner::Error> for ApiError {
    fn from(error: runner::Error) -> Self {
        Self::internal(&error, error.temporary_message())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.timed((self.status, Json(self.said())).into_response())
    }
}

/// Middleware that turns the framework's plain-text errors into the API's JSON.
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
        return ApiError { status, message: "the request cannot be read".to_owned() }.into_response();
    };
    let message = String::from_utf8_lossy(&text).into_owned();
    // Clients expect this text as it is.
    if message.starts_with("invalid tenant id") {
        return (status, message).into_response();
    }
    ApiError { status, message }.into_response()
}
