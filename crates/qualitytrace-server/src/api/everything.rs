//! Tests and suites in one list.

use axum::extract::{Query, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode};
use qualitytrace_core::definition::Kind;
use serde_json::{Value, json};

use super::App;
use super::answer::plain_json;
use super::refusal::Refusal;
use super::resources::{Parameters, augmented_spec};
use super::tenant::Tenant;
use crate::store::Listing;

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
    let mut items: Vec<Value> = Vec::new();
    for (kind, item) in found.into_iter().skip(skip.unwrap_or(usize::MAX)).take(take.unwrap_or(usize::MAX)) {
        let word = if kind == Kind::Test { "test" } else { "testsuite" };
        items.push(json!({ "type": word, "item": augmented_spec(&app, kind, item).await? }));
    }
    let mut response = plain_json(StatusCode::OK, &items.into());
    response.headers_mut().insert("x-total-count", HeaderValue::from(count));
    Ok(response)
}
