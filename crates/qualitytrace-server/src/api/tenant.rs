//! Whose things a request is about.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use crate::store;

/// The headers that name a tenant.
const HEADERS: [&str; 2] = ["x-tracetest-tenantid", "x-qualitytrace-tenantid"];

/// The tenant of a request; empty for none.
#[derive(Debug, Clone, Default)]
pub(super) struct Tenant(String);

impl Tenant {
    /// As the store knows it.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// An id as the store knows it.
    pub(super) fn scoped(&self, id: &str) -> String {
        store::scoped(&self.0, &sayable(id))
    }
}

/// A text that can be asked for in every database. Not every one knows NUL, and nothing that is stored has one: what
/// stands for it is not found either.
pub(super) fn sayable(text: &str) -> String {
    text.replace('\0', "\u{1}")
}

impl<S: Sync> FromRequestParts<S> for Tenant {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let Some(header) = HEADERS.iter().find_map(|name| parts.headers.get(*name)) else {
            return Ok(Self::default());
        };
        let text = header.to_str().unwrap_or_default();
        if is_uuid(text) {
            return Ok(Self(text.to_lowercase()));
        }
        Err((StatusCode::BAD_REQUEST, format!("invalid tenant id: `{text}` is not a UUID")).into_response())
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}
