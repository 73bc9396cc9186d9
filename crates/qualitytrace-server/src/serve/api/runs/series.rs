//! The series that a run is part of.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;

use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Content, of, operation};
use crate::runner::RunId;
use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::path::Path;
use crate::serve::api::query::Query;
use crate::serve::api::run_error::{BAD_REQUEST, NOT_FOUND, RunApiError, count, number};
use crate::serve::api::tenant::Tenant;
use crate::wire::request::RunRequest;
use crate::wire::series::Series;

/// How long a response is held back while there is nothing new (long polling).
const POLL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AfterParameter {
    after: String,
}

/// Returns the route of series.
pub(in crate::serve::api) fn routes() -> Routes<App> {
    let answers = [(200, Content::Json(of::<Series>)), BAD_REQUEST, NOT_FOUND];
    let described = operation("The series that a run is one of", answers).asking(&["after"]);
    Routes::new().get("/api/tests/{id}/run/{number}/series", RequiredAccess::Look, series, described)
}

/// Returns the series of a run. With `?after=N`, waits for a while until it has more than N runs or has ended.
async fn series(
    State(app): State<App>,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    Query(AfterParameter { after }): Query<AfterParameter>,
) -> Result<Response, RunApiError> {
    let wait = !after.is_empty();
    let after = count("after", &after)?;
    let (test, run) = (tenant.scoped(&test), number(&run)?);
    let stored = app.store.run(&test, run).await?.ok_or_else(RunApiError::missing)?;
    let asked = RunRequest::of(&stored);
    let place = asked.series.ok_or_else(RunApiError::missing)?;
    let first = RunId { test, number: place.first_run(run) };
    let mut changes = app.runner.follow(first.clone());
    let deadline = tokio::time::Instant::now() + POLL_TIMEOUT;
    loop {
        changes.mark_unchanged();
        let body = app.store.series(&first.test, first.number).await?.ok_or_else(RunApiError::missing)?;
        let series: Series = serde_json::from_str(&body)
            .map_err(|source| crate::storage::store::Error::Document { what: "series of runs", source })?;
        let is_news =
            series.outcome.is_some() || u64::try_from(series.runs.len()).is_ok_and(|runs| runs > after);
        let is_late = tokio::time::Instant::now() >= deadline;
        if !wait || is_news || is_late {
            return Ok(plain_json(StatusCode::OK, &series));
        }
        let _ = tokio::time::timeout_at(deadline, changes.changed()).await;
    }
}
