//! Liveness, readiness, version and ingest counters.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Json;
use axum::extract::{OriginalUri, Request, State};
use axum::response::Response;
use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::answer::plain_json;
use super::error::ApiError;
use super::path::Path;

/// The health of the server.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Health {
    status: &'static str,
}

pub(super) async fn alive() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// The server is ready when the store can be read and written.
pub(super) async fn ready(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    let answer = match app.store.retained_bytes().await {
        Ok(_) => app.store.check_writable().await,
        Err(error) => Err(error),
    };
    let unready = |error| ApiError { status: StatusCode::SERVICE_UNAVAILABLE, ..ApiError::from(error) };
    answer.map(|()| Json(Health { status: "ready" })).map_err(unready)
}

/// The version of the server.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Version {
    version: &'static str,
    /// `oss`.
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Serves `version.json`; any other extension works, too.
pub(super) async fn version(
    Path(file): Path<String>,
    OriginalUri(asked): OriginalUri,
    request: Request,
) -> Response {
    if !file.starts_with("version.") {
        return super::not_found(request.method(), request.uri(), &asked);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return super::but_allowed("GET,HEAD", super::method_not_allowed(request).await);
    }
    plain_json(StatusCode::OK, &Version { version: env!("CARGO_PKG_VERSION"), kind: "oss" })
}

/// Counters of everything that was delivered.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Delivered {
    spans: DeliveredSpans,
    logs: DeliveredLogs,
    metric_points: u64,
    refused_requests: RefusedRequests,
    retained_bytes: u64,
    retained_bytes_limit: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeliveredSpans {
    stored: u64,
    rejected: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeliveredLogs {
    stored: u64,
    without_trace: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RefusedRequests {
    busy: u64,
    full: u64,
    failed: u64,
    invalid: u64,
}

pub(super) async fn ingest(State(app): State<App>) -> Json<Delivered> {
    let counters = app.ingest.counters();
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Json(Delivered {
        spans: DeliveredSpans {
            stored: read(&counters.spans_stored),
            rejected: read(&counters.spans_rejected),
        },
        logs: DeliveredLogs {
            stored: read(&counters.logs_stored),
            without_trace: read(&counters.logs_unbound),
        },
        metric_points: read(&counters.metric_points),
        refused_requests: RefusedRequests {
            busy: read(&counters.refused_busy),
            full: read(&counters.refused_full),
            failed: read(&counters.refused_failed),
            invalid: read(&counters.refused_invalid),
        },
        retained_bytes: app.ingest.retained_bytes(),
        retained_bytes_limit: app.ingest.limits().retained_bytes,
    })
}
