//! The tags of tests, for filters.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::error::ApiError;
use super::tenant::Tenant;
use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Content, of, operation};
use crate::storage::store::TagCount;

/// The most tags in a response.
const MOST: u64 = 1_000;

/// Returns the route.
pub(super) fn routes() -> Routes<App> {
    Routes::new().get(
        "/api/tags",
        RequiredAccess::Look,
        list,
        operation("The tags of tests, by name", [(200, Content::Json(of::<Tags>))]),
    )
}

/// The tags of tests.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tags {
    items: Vec<Tag>,
}

/// A tag of tests.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tag {
    name: String,
    /// The number of tests that have it.
    tests: u64,
}

async fn list(State(app): State<App>, tenant: Tenant) -> Result<Json<Tags>, ApiError> {
    let tags = app.store.tags(tenant.as_str(), MOST).await?;
    let tag = |TagCount { tag: name, tests }| Tag { name, tests };
    Ok(Json(Tags { items: tags.into_iter().map(tag).collect() }))
}
