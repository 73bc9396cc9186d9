//! Request bodies of our own routes: a JSON object without unknown fields.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use super::App;
use super::error::ApiError;

/// An extractor of a JSON object, whatever its content type.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let broken = |error| ApiError::bad_request(format!("the body cannot be received: {error}"));
        let sent = Bytes::from_request(request, app).await.map_err(broken)?;
        // Serde would accept an array for a struct with its fields in order.
        if !sent.trim_ascii_start().starts_with(b"{") {
            return Err(ApiError::bad_request("the body must be a JSON object"));
        }
        let wrong = |error| ApiError::bad_request(format!("the body is not what this route takes: {error}"));
        serde_json::from_slice(&sent).map(Self).map_err(wrong)
    }
}
