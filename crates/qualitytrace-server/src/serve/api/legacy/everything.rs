//! The combined list of tests and suites.

use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, StatusCode};
use qualitytrace_core::definition::Kind;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::memory::Memory;
use crate::serve::api::query::Query;
use crate::serve::api::resources::{Parameters, augmented_specs};
use crate::serve::api::run_error::RunApiError;
use crate::serve::api::tenant::Tenant;

/// A test or a suite.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct ListedResource {
    /// `test` or `testsuite`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The augmented `spec` of the resource.
    item: Value,
}

/// Lists tests and suites in one order.
pub(in crate::serve::api) async fn list(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Query(parameters): Query<Parameters>,
) -> Result<Response, RunApiError> {
    let listing = parameters.of_everything(&tenant)?;
    let kinds = [Kind::Test, Kind::TestSuite];
    let page = app.store.list(&kinds, &listing).await?;
    memory.hold_texts(page.bytes).await?;
    let (mut tests, mut suites, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, stored) in app.store.load(&page).await? {
        kinds.push(kind);
        if kind == Kind::Test { &mut tests } else { &mut suites }.push(stored);
    }
    let mut tests = augmented_specs(&app, &memory, Kind::Test, tests).await?.into_iter();
    let mut suites = augmented_specs(&app, &memory, Kind::TestSuite, suites).await?.into_iter();
    let listed = |kind: &Kind| match kind {
        Kind::Test => Some(ListedResource { kind: "test", item: tests.next()? }),
        _ => Some(ListedResource { kind: "testsuite", item: suites.next()? }),
    };
    let items: Vec<ListedResource> = kinds.iter().filter_map(listed).collect();
    let mut response = plain_json(StatusCode::OK, &items);
    response.headers_mut().insert("x-total-count", HeaderValue::from(page.count));
    Ok(response)
}
