//! The REST API: routes, and what they answer with.

mod answer;
mod connection;
mod definitions;
mod description;
pub(crate) mod door;
mod everything;
mod expressions;
mod health;
mod hosted;
mod negotiation;
mod query;
mod refusal;
mod resources;
mod runs;
mod socket;
mod suites;
mod tenant;
pub(crate) mod traces;
mod wizard;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::middleware::{from_extractor, map_response};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{any, get, post, put};
use http::header::{ALLOW, LOCATION};
use http::{HeaderValue, Method, StatusCode, Uri};
use qualitytrace_core::time::Timestamp;
use tower_http::compression::CompressionLayer;

use crate::config::Live;
use crate::ingest::Ingest;
use crate::runner::Runner;
use crate::source::Source;
use crate::store::Store;
use tenant::Tenant;

/// What the handlers work with.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) source: Source,
    pub(crate) runner: Arc<Runner>,
    /// When the server started.
    pub(crate) started: Timestamp,
    /// Spans that had arrived when a user last began to count them.
    pub(crate) otlp_mark: Arc<AtomicU64>,
    /// The configuration of the moment.
    pub(crate) config: Live,
    /// What lists say about traces.
    pub(crate) digests: Arc<traces::Digests>,
}

/// Every route of the API.
pub(crate) fn routes(app: App) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/api/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/api/{version}", any(health::version))
        .route("/", get(description::home))
        .route("/api/ingest/status", get(health::ingest))
        .merge(resources::routes())
        .merge(test_routes())
        .merge(suites::routes())
        .route("/api/resources", get(everything::list))
        .route("/api/expressions/resolve", post(expressions::resolve_expression))
        .route("/api/config/connection", post(connection::test))
        .route("/api/config/connection/otlp", get(connection::otlp))
        .route("/api/config/connection/otlp/reset", post(connection::reset))
        .route("/api/wizard", get(wizard::get).put(wizard::put))
        .merge(hosted::routes())
        .route("/api/openapi.json", get(description::document))
        .route("/api/docs", get(description::page))
        .route("/ws", get(socket::open))
        .route("/api/traces", get(traces::list))
        .route("/api/services", get(traces::services))
        .route("/api/traces/{id}", get(traces::get))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_extractor::<Tenant>())
        .layer(map_response(answer::said_in_json))
        .layer(CompressionLayer::new())
        .with_state(app)
}

/// Tests and their runs.
fn test_routes() -> Router<App> {
    Router::new()
        .route("/api/tests/{id}", post(post_to_test))
        .route("/api/tests/{id}/definition", get(definitions::specs))
        .route("/api/tests/{id}/version/{version}", get(definitions::version))
        .route("/api/tests/{id}/run", get(runs::list).post(runs::start))
        .route("/api/tests/{id}/run/{number}", get(runs::get).patch(runs::patch).delete(runs::delete))
        .route("/api/tests/{id}/run/{number}/rerun", post(runs::rerun))
        .route("/api/tests/{id}/run/{number}/stop", post(runs::stop))
        .route("/api/tests/{id}/run/{number}/skipPolling", post(runs::skip_polling))
        .route("/api/tests/{id}/run/{number}/dry-run", put(runs::probe::dry_run))
        .route("/api/tests/{id}/run/{number}/select", get(runs::probe::select_spans))
        .route("/api/tests/{id}/run/{number}/search-spans", post(runs::probe::search_spans))
        .route("/api/tests/{id}/run/{number}/junit.xml", get(runs::junit))
        .route("/api/tests/{id}/run/{number}/export", get(runs::export::export))
        .route("/api/tests/{id}/run/{number}/series", get(runs::series::series))
        .route("/api/tests/{id}/run/{number}/events", get(runs::events))
        .route("/api/tests/{id}/run/{number}/events/stream", get(runs::stream))
}

/// `import` is a word of the API where something is posted to it; elsewhere it is an id like any other.
async fn post_to_test(app: State<App>, tenant: Tenant, Path(id): Path<String>, sent: Bytes) -> Response {
    if id == "import" {
        return runs::export::import(app, tenant, sent).await.into_response();
    }
    but_allowed("GET,HEAD,PUT,DELETE", not_allowed(&Method::POST, &format!("/api/tests/{id}")))
}

async fn method_not_allowed(request: Request) -> Response {
    not_allowed(request.method(), request.uri().path())
}

/// Says which methods there are instead, where the router cannot know it.
fn but_allowed(methods: &'static str, mut response: Response) -> Response {
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

fn not_allowed(method: &Method, path: &str) -> Response {
    let message = format!("{method} is not allowed on {path}");
    answer::Problem { status: StatusCode::METHOD_NOT_ALLOWED, message }.into_response()
}

/// What is answered where there is nothing: a redirection when the path has a slash too many, else 404.
/// `asked` is the path with what the server was told to stand below.
pub(crate) fn not_found(method: &Method, uri: &Uri, asked: &Uri) -> Response {
    let path = uri.path();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let tidy = format!("/{}", parts.join("/"));
    if tidy != path && tidy.starts_with("/api/") {
        let prefix = asked.path().strip_suffix(path).unwrap_or_default();
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let target = format!("{prefix}{tidy}{query}");
        // A slash too many at the end is said in words to whoever reads, too many elsewhere is not.
        if path.contains("//") || !matches!(*method, Method::GET | Method::HEAD) {
            return (StatusCode::MOVED_PERMANENTLY, [(LOCATION, target)]).into_response();
        }
        let page = format!("<a href=\"{}\">Moved Permanently</a>.\n\n", target.replace('&', "&amp;"));
        return (StatusCode::MOVED_PERMANENTLY, [(LOCATION, target)], Html(page)).into_response();
    }
    answer::Problem::not_found(format!("there is nothing at {path}")).into_response()
}
