//! The REST API: routes and shared state.

mod answer;
mod audit;
mod description;
mod error;
mod health;
mod legacy;
mod legacy_error;
pub(crate) mod memory;
pub(crate) mod middleware;
mod negotiation;
mod path;
mod query;
mod resources;
mod runs;
mod suites;
mod tenant;
pub(crate) mod traces;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::{from_extractor, from_fn_with_state, map_response};
use axum::response::{Html, IntoResponse, Response};
use http::header::{ALLOW, LOCATION};
use http::{HeaderValue, Method, StatusCode, Uri};
use qualitytrace_core::time::Timestamp;
use tower_http::compression::CompressionLayer;

use crate::access::Wanted;
use crate::config::Live;
use crate::ingest::Ingest;
use crate::routes::{Route, Routes};
use crate::runner::Runner;
use crate::source::Source;
use crate::store::Store;
use memory::Memory;
use path::Path;
use tenant::Tenant;

/// The shared state of the handlers.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) source: Source,
    pub(crate) runner: Arc<Runner>,
    /// When the server started.
    pub(crate) started: Timestamp,
    /// Spans that had arrived when a user last reset the counter.
    pub(crate) otlp_mark: Arc<AtomicU64>,
    /// The live configuration.
    pub(crate) config: Live,
    /// The memory budget of requests and responses.
    pub(crate) memory: memory::Shared,
    /// Cached digests of traces for lists.
    pub(crate) digests: Arc<traces::Digests>,
}

/// Returns every route of the API.
pub(crate) fn routes(app: App) -> Routes {
    table()
        .method_not_allowed(&method_not_allowed)
        .layer(from_fn_with_state(app.clone(), audit::record))
        .layer(from_extractor::<Tenant>())
        .layer(map_response(error::said_in_json))
        .layer(CompressionLayer::new())
        .with_state(app)
}

/// The access level that each route requires.
static NEEDS: LazyLock<Vec<Route>> = LazyLock::new(|| table().list());

/// Every route with its handler and its required access level. Routes that start, store or remove something require
/// `Change`, whatever their method; read-only routes do not.
fn table() -> Routes<App> {
    use Wanted::{Health, Look};
    Routes::new()
        .get("/healthz", Health, health::alive)
        .get("/api/healthz", Health, health::alive)
        .get("/readyz", Health, health::ready)
        .any("/api/{version}", Look, health::version)
        .get("/", Look, description::home)
        .get("/api/ingest/status", Look, health::ingest)
        .merge(resources::routes())
        .merge(test_routes())
        .merge(suites::routes())
        .merge(legacy::routes())
        .get("/api/openapi.json", Look, description::document)
        .get("/api/docs", Look, description::page)
        .get("/api/traces", Look, traces::list)
        .get("/api/services", Look, traces::services)
        .get("/api/audit", Look, audit::list)
        .get("/api/traces/{id}", Look, traces::get)
}

/// Routes of tests and their runs.
fn test_routes() -> Routes<App> {
    use Wanted::{Change, Look, Stream};
    let run = "/api/tests/{id}/run/{number}";
    let of = |rest: &str| format!("{run}/{rest}");
    Routes::new()
        .post("/api/tests/{id}", Change, post_to_test)
        .get("/api/tests/{id}/run", Look, runs::list)
        .post("/api/tests/{id}/run", Change, runs::start)
        .get(run, Look, runs::get)
        .patch(run, Change, runs::patch)
        .delete(run, Change, runs::delete)
        .post(&of("rerun"), Change, runs::rerun)
        .post(&of("stop"), Change, runs::stop)
        .post(&of("skipPolling"), Change, runs::skip_polling)
        .get(&of("series"), Look, runs::series::series)
        .get(&of("events/stream"), Stream, runs::stream)
}

/// `POST` to `import` imports a run; for other methods `import` is an id like any other.
async fn post_to_test(
    app: State<App>,
    memory: Memory,
    tenant: Tenant,
    Path(id): Path<String>,
    sent: Bytes,
) -> Response {
    if id == "import" {
        return legacy::export::import(app, memory, tenant, sent).await.into_response();
    }
    but_allowed("GET,HEAD,PUT,DELETE", not_allowed(&Method::POST, &format!("/api/tests/{id}")))
}

async fn method_not_allowed(request: Request) -> Response {
    not_allowed(request.method(), request.uri().path())
}

/// Adds the `Allow` header where the router cannot know the methods.
fn but_allowed(methods: &'static str, mut response: Response) -> Response {
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

fn not_allowed(method: &Method, path: &str) -> Response {
    let message = format!("{method} is not allowed on {path}");
    error::ApiError { status: StatusCode::METHOD_NOT_ALLOWED, message }.into_response()
}

/// The response for an unknown path: a redirect when the path has surplus slashes, else 404. `asked` is the path
/// with the prefix that the server is configured to be served under.
pub(crate) fn not_found(method: &Method, uri: &Uri, asked: &Uri) -> Response {
    let path = uri.path();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let tidy = format!("/{}", parts.join("/"));
    if tidy != path && tidy.starts_with("/api/") {
        let prefix = asked.path().strip_suffix(path).unwrap_or_default();
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let target = format!("{prefix}{tidy}{query}");
        // Only a GET or HEAD with a surplus slash at the end gets a page with a link.
        if path.contains("//") || !matches!(*method, Method::GET | Method::HEAD) {
            return (StatusCode::MOVED_PERMANENTLY, [(LOCATION, target)]).into_response();
        }
        let page = format!("<a href=\"{}\">Moved Permanently</a>.\n\n", target.replace('&', "&amp;"));
        return (StatusCode::MOVED_PERMANENTLY, [(LOCATION, target)], Html(page)).into_response();
    }
    error::ApiError::not_found(format!("there is nothing at {path}")).into_response()
}
