//! Tests and suites in one list.

use axum::extract::{Query, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode};
use qualitytrace_core::definition::Kind;
use qualitytrace_core::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::App;
use super::answer::plain_json;
use super::refusal::Refusal;
use super::resources::{Parameters, augmented_specs};
use super::tenant::Tenant;
use crate::store::{Listing, StoredResource};

/// A test or a suite.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    /// `test` or `testsuite`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What stands under `spec` elsewhere, augmented.
    item: Value,
}

/// A page of tests and suites, newest first.
pub(super) async fn list(
    State(app): State<App>,
    tenant: Tenant,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Refusal> {
    let asked = parameters.listing(Kind::Test, &tenant)?;
    let all = Listing { take: asked.take.saturating_add(asked.skip), skip: 0, ..asked };
    let mut count = 0;
    let mut found = Vec::new();
    for kind in [Kind::Test, Kind::TestSuite] {
        let page = app.store.list(&Listing { kind, ..all }).await?;
        count += page.count;
        found.extend(page.items.into_iter().map(|item| (kind, item)));
    }
    found.sort_by_key(|(_, item)| std::cmp::Reverse(item.created));
    let (skip, take) = (usize::try_from(asked.skip), usize::try_from(asked.take));
    let page = found.into_iter().skip(skip.unwrap_or(usize::MAX)).take(take.unwrap_or(usize::MAX));
    let mut items: Vec<(Timestamp, Listed)> = Vec::new();
    let (tests, suites): (Vec<_>, Vec<_>) = page.partition(|(kind, _)| *kind == Kind::Test);
    for (of, kind, stored) in [(Kind::Test, "test", tests), (Kind::TestSuite, "testsuite", suites)] {
        let stored: Vec<StoredResource> = stored.into_iter().map(|(_, stored)| stored).collect();
        let created: Vec<Timestamp> = stored.iter().map(|stored| stored.created).collect();
        let specs = augmented_specs(&app, of, stored).await?;
        let shown = specs.into_iter().map(|item| Listed { kind, item });
        items.extend(created.into_iter().zip(shown));
    }
    items.sort_by_key(|(created, _)| std::cmp::Reverse(*created));
    let items: Vec<Listed> = items.into_iter().map(|(_, item)| item).collect();
    let mut response = plain_json(StatusCode::OK, &items);
    response.headers_mut().insert("x-total-count", HeaderValue::from(count));
    Ok(response)
}
