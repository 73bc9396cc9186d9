//! Traces as they arrived.

use axum::Json;
use axum::extract::{Path, State};
use qualitytrace_core::id::TraceId;

use super::App;
use super::answer::Problem;
use crate::wire;

/// A trace, as a list of spans in the order of its tree.
pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<wire::Trace>, Problem> {
    let id: TraceId = id
        .parse()
        .map_err(|error: qualitytrace_core::id::ParseIdError| Problem::bad_request(error.to_string()))?;
    let trace = app.source.load(id).await?;
    if trace.spans().is_empty() {
        return Err(Problem::not_found(format!("no span of trace {id} is here")));
    }
    Ok(Json(wire::Trace::from(&trace)))
}
