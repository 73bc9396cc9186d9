//! The tenant of a request.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use crate::storage::store;

/// The headers that name a tenant.
const HEADERS: [&str; 2] = ["x-tracetest-tenantid", "x-qualitytrace-tenantid"];

/// The tenant of a request; empty for none.
#[derive(Debug, Clone, Default)]
pub(super) struct Tenant(String);

impl Tenant {
    /// The tenant as the store knows it.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The stored id of a resource of this tenant.
    pub(super) fn scoped(&self, id: &str) -> String {
        store::scoped(&self.0, &without_nul(id))
    }
}

/// Replaces NUL, which not every database accepts. No stored text has one, so the replacement is not found either.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{1}")
}

impl<S: Sync> FromRequestParts<S> for Tenant {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let Some(header) = HEADERS.iter().find_map(|name| parts.headers.get(*name)) else {
            return Ok(Self::default());
        };
        let text = header.to_str().unwrap_or_default();
        if text.is_empty() {
            return Ok(Self::default());
        }
        uuid(text)
            .map(Self)
            .ok_or_else(|| (StatusCode::BAD_REQUEST, format!("invalid tenant id: {text}")).into_response())
    }
}

/// Normalizes a UUID; `None` when it is invalid.
fn uuid(text: &str) -> Option<String> {
    uuid::Uuid::try_parse(text).ok().map(|uuid| uuid.to_string())
}
