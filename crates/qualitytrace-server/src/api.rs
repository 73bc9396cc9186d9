//! The REST API: routes, and what they answer with.

mod answer;
mod health;
mod runs;
mod tests;
mod traces;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post, put};

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
}

/// Every route of the API.
pub(crate) fn routes(app: App) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/api/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/api/version.json", get(health::version))
        .route("/api/ingest/status", get(health::ingest))
        .route("/api/tests", put(tests::put).post(tests::put))
        .route("/api/tests/{id}/run", post(runs::start))
        .route("/api/tests/{id}/run/{number}", get(runs::get))
        .route("/api/tests/{id}/run/{number}/events/stream", get(runs::stream))
        .route("/api/traces/{id}", get(traces::get))
        .with_state(app)
}
