//! The text of a definition as the user wrote it.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use qualitytrace_core::definition::{self, Format, Kind};
use serde::Deserialize;

use crate::serve::api::App;
use crate::serve::api::negotiation::content_type;
use crate::serve::api::path::Path;
use crate::serve::api::precondition::with_version;
use crate::serve::api::query::Query;
use crate::serve::api::run_error::{RunApiError, count};
use crate::serve::api::tenant::Tenant;
use crate::storage::store::CURRENT;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::serve::api) struct Version {
    version: String,
}

/// Returns a definition as the user wrote it, comments included, with secrets redacted; the latest version by
/// default.
pub(super) async fn source(
    kind: Kind,
    State(app): State<App>,
    tenant: Tenant,
    Path(id): Path<String>,
    Query(asked): Query<Version>,
) -> Result<Response, RunApiError> {
    let version = count("version", &asked.version)?;
    // Server settings have a fixed id.
    let id = if kind == Kind::Config { CURRENT } else { &id };
    let stored = app.store.definition(kind, &tenant.scoped(id), (version > 0).then_some(version)).await?;
    let stored = stored.ok_or_else(RunApiError::missing)?;
    let format = stored.format();
    let name = match format {
        Format::Json => "application/json",
        Format::Yaml => "text/yaml",
    };
    let shown = definition::secrets::masked_throughout(&stored.definition, format, kind).into_owned();
    let response = ([(CONTENT_TYPE, content_type(name, &shown))], shown).into_response();
    Ok(with_version(response, stored.version))
}
