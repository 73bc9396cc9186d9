//! Path parameters of the API.

use axum::extract::{FromRequestParts, Path as Strict};
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// An extractor of path parameters with errors of the API's shape.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let found = Strict::from_request_parts(parts, state).await.map(|Strict(parameters)| Self(parameters));
        found.map_err(|_| {
            let path = parts.uri.path();
            ApiError::bad_request(format!(
                "the path `{path}` is no text once its `%` are decoded; encode UTF-8"
            ))
        })
    }
}
