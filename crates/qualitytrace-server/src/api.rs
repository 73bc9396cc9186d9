//! The REST API: routes, and what they answer with.

mod answer;
mod health;
mod negotiation;
mod resources;
mod runs;
mod tenant;
mod traces;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::LOCATION;
use http::{StatusCode, Uri};
use qualitytrace_core::time::Timestamp;
use tower_http::compression::CompressionLayer;

use crate::ingest::Ingest;
use crate::runner::Runner;
use crate::source::Source;
use crate::store::Store;

/// What the handlers work with.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) source: Source,
    pub(crate) runner: Arc<Runner>,
    /// When the server started.
    pub(crate) started: Timestamp,
    /// The largest body, in bytes.
    pub(crate) body_limit: usize,
}

/// Every route of the API.
pub(crate) fn routes(app: App) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/api/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/api/{version}", get(health::version))
        .route("/api/ingest/status", get(health::ingest))
        .merge(resources::routes())
        .route("/api/tests/{id}/run", post(runs::start))
        .route("/api/tests/{id}/run/{number}", get(runs::get))
        .route("/api/tests/{id}/run/{number}/events/stream", get(runs::stream))
        .route("/api/traces/{id}", get(traces::get))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(app.body_limit))
        .layer(CompressionLayer::new())
        .with_state(app)
}

async fn method_not_allowed(request: Request) -> Response {
    let message = format!("{} is not allowed on {}", request.method(), request.uri().path());
    answer::Problem { status: StatusCode::METHOD_NOT_ALLOWED, message }.into_response()
}

/// What is answered where there is nothing: a redirection when the path has a slash too many, else 404.
pub(crate) fn not_found(uri: &Uri) -> Response {
    let path = uri.path();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let tidy = format!("/{}", parts.join("/"));
    if tidy != path && tidy.starts_with("/api/") {
        let target = uri.query().map_or_else(|| tidy.clone(), |query| format!("{tidy}?{query}"));
        return (StatusCode::MOVED_PERMANENTLY, [(LOCATION, target)]).into_response();
    }
    answer::Problem::not_found(format!("there is nothing at {path}")).into_response()
}
