//! The events of a run under their names in Tracetest's API, and its JUnit report.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::run_error::{RunApiError, number};
use crate::serve::api::runs::{LoadedRun, read_events};
use crate::serve::api::tenant::Tenant;
use crate::wire::legacy;

/// Returns the events of a run, under the names that clients know.
pub(in crate::serve::api) async fn events(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let number = number(&run)?;
    memory.hold_texts(app.store.run_size(&tenant.scoped(&test), number).await?).await?;
    let events = app.store.events(&tenant.scoped(&test), number, 0).await?;
    Ok(plain_json(StatusCode::OK, &legacy::catalogue(&test, number, &read_events(&events))))
}

/// Returns a run as JUnit XML.
pub(in crate::serve::api) async fn junit(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let found = LoadedRun::load(&app, &memory, &tenant, &test, number(&run)?).await?;
    let definition = found.test(&app).await?;
    let text = legacy::junit(&definition.name, &found.shown());
    Ok(([(CONTENT_TYPE, "application/xml; charset=UTF-8")], text).into_response())
}
