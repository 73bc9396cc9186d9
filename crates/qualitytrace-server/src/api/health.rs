//! Is it alive, is it ready, what is it, what did it take in.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::App;
use super::answer::{Problem, plain_json};

pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Ready means that the store answers.
pub(super) async fn ready(State(app): State<App>) -> Result<Json<Value>, Problem> {
    app.store.retained_bytes().await?;
    Ok(Json(json!({ "status": "ready" })))
}

/// `version.json`; the ending means nothing.
pub(super) async fn version(Path(file): Path<String>, request: Request) -> Response {
    if !file.starts_with("version.") {
        return super::not_found(request.uri());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return super::method_not_allowed(request).await;
    }
    let body = json!({ "version": env!("CARGO_PKG_VERSION"), "type": "oss" });
    plain_json(StatusCode::OK, &body)
}

/// What became of everything that was ever delivered.
pub(super) async fn ingest(State(app): State<App>) -> Json<Value> {
    let counters = app.ingest.counters();
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Json(json!({
        "spans": { "stored": read(&counters.spans_stored), "rejected": read(&counters.spans_rejected) },
        "logs": { "stored": read(&counters.logs_stored), "withoutTrace": read(&counters.logs_unbound) },
        "metricPoints": read(&counters.metric_points),
        "refusedRequests": {
            "busy": read(&counters.refused_busy),
            "full": read(&counters.refused_full),
            "failed": read(&counters.refused_failed),
            "invalid": read(&counters.refused_invalid),
        },
        "retainedBytes": app.ingest.retained_bytes(),
        "retainedBytesLimit": app.ingest.limits().retained_bytes,
    }))
}
