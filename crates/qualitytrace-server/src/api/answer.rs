//! Answers other than success.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::{runner, store};

/// A request that could not be served.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    message: String,
}

impl Problem {
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
        }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            message: message.into(),
        }
    }

    fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error, "a request failed");
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: error.to_string(),
        }
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
        let body = serde_json::json!({ "code": self.status.as_u16(), "error": self.message });
        (self.status, Json(body)).into_response()
    }
}
