//! The REST API: routes and shared state.

mod answer;
mod audit;
mod compare;
mod description;
mod error;
mod health;
mod import;
mod info;
mod json_body;
mod language;
mod legacy;
pub(crate) mod memory;
pub(crate) mod middleware;
mod negotiation;
mod path;
mod precondition;
mod query;
mod resources;
mod run_error;
mod runs;
mod session;
mod suites;
mod tags;
mod tenant;
pub(crate) mod traces;
mod trigger;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::{from_extractor, from_fn_with_state, map_response};
use axum::response::{Html, IntoResponse, Response};
use http::header::{ALLOW, LOCATION};
use http::{HeaderValue, Method, StatusCode, Uri};
use qualitytrace_core::time::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::config::Live;
use crate::http::access::RequiredAccess;
use crate::http::routes::operation::Content::{Counted, Events, Json, Nothing, Other};
use crate::http::routes::operation::{Body, Content, of, operation};
use crate::http::routes::{Route, Routes};
use crate::receive::ingest::Ingest;
use crate::receive::source::Source;
use crate::runner::Runner;
use crate::storage::store::Store;
use crate::wire;
use crate::wire::run::Run;
use answer::Success;
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
    /// Becomes true when the server stops: streams without an end of their own end then.
    pub(crate) stopped: watch::Receiver<bool>,
    /// Checks tokens.
    pub(crate) guard: middleware::Guard,
    /// Cached digests of traces for lists.
    pub(crate) digests: Arc<traces::Digests>,
}

/// Traces are sent while they arrive: a quick level of gzip takes a third of the time of the usual one.
const COMPRESSION: CompressionLevel = CompressionLevel::Precise(2);

/// Returns every route of the API.
pub(crate) fn routes(app: App) -> Routes {
    table()
        .method_not_allowed(&method_not_allowed)
        .layer(from_fn_with_state(app.clone(), audit::record))
        .layer(from_extractor::<Tenant>())
        .layer(map_response(error::said_in_json))
        .layer(CompressionLayer::new().quality(COMPRESSION))
        .with_state(app)
}

/// Every route with its description.
static ROUTES: LazyLock<Vec<Route>> =
    LazyLock::new(|| [table().list(), crate::observability::table().list()].concat());

/// Every route with its handler, its required access level and its description, in the order of the description.
/// Routes that start, store or remove something require `Change`, whatever their method; read-only routes do not.
fn table() -> Routes<App> {
    Routes::new()
        .merge(resources::routes())
        .merge(import::routes())
        .merge(server_routes())
        .merge(session::routes())
        .merge(info::routes())
        .merge(test_routes())
        .merge(legacy::suite_routes())
        .merge(runs::verdict::routes())
        .merge(runs::series::routes())
        .merge(runs::all_runs::routes())
        .merge(tags::routes())
        .merge(compare::routes())
        .merge(suites::routes())
        .merge(trigger::routes())
        .merge(legacy::routes())
        .merge(trace_routes())
        .merge(language::routes())
        .merge(legacy::hosted::routes())
}

/// Routes about the server itself.
fn server_routes() -> Routes<App> {
    use RequiredAccess::{Health, Look};
    use error::{BAD_REQUEST, UNAVAILABLE};
    let page = Other("text/html");
    let health = Json(of::<health::Health>);
    let alive = operation("Whether the server is alive", [(200, health)]).for_all();
    Routes::new()
        .get("/", Look, description::home, operation("A page with links", [(200, page)]).for_all())
        .get("/healthz", Health, health::alive, alive.clone())
        .get("/api/healthz", Health, health::alive, alive)
        .get(
            "/readyz",
            Health,
            health::ready,
            operation("Whether the store answers", [(200, health), UNAVAILABLE]).for_all(),
        )
        .any(
            "/api/{version}",
            Look,
            health::version,
            operation("The version of the server", [(200, Json(of::<health::Version>))])
                .for_all()
                .documented_as("/api/version.json"),
        )
        .get(
            "/api/openapi.json",
            Look,
            description::document,
            operation("This description", [(200, Json(of::<Map<String, Value>>))]).for_all(),
        )
        .get(
            "/api/docs",
            Look,
            description::page,
            operation("This description as a page", [(200, page)]).for_all(),
        )
        .get(
            "/api/ingest/status",
            Look,
            health::ingest,
            operation("The counters of all received telemetry", [(200, Json(of::<health::Delivered>))])
                .for_all(),
        )
        .get(
            "/api/audit",
            Look,
            audit::list,
            operation("The audit log, newest first", [(200, Json(of::<audit::Changes>)), BAD_REQUEST])
                .asking(&["take", "before"])
                .for_all(),
        )
}

/// Routes of tests and their runs.
fn test_routes() -> Routes<App> {
    use RequiredAccess::{Change, Look, Stream};
    use legacy::export::Exported;
    use run_error::{BAD_REQUEST, NOT_FOUND, TOO_MANY_REQUESTS, UNPROCESSABLE};
    let (runs, run) = ("/api/tests/{id}/run", "/api/tests/{id}/run/{number}");
    let of_run = |rest: &str| format!("{run}/{rest}");
    let (shows, succeeds) = ((200, Json(of::<Run>)), (200, Json(of::<Success>)));
    Routes::new()
        .post(
            "/api/tests/{id}",
            Change,
            post_to_test,
            operation(
                "Import an exported run with its test",
                [(200, Json(of::<Exported>)), BAD_REQUEST, UNPROCESSABLE],
            )
            .taking(Body::Shown(of::<Exported>))
            .documented_as("/api/tests/import"),
        )
        .merge(legacy::test_routes())
        .get(
            runs,
            Look,
            runs::list,
            operation(
                "Runs of a test, newest first",
                [(200, Counted(of::<Vec<Run>>)), BAD_REQUEST, NOT_FOUND],
            )
            .asking(&["take", "skip"]),
        )
        .post(
            runs,
            Change,
            runs::start,
            operation("Start a run", [shows, BAD_REQUEST, NOT_FOUND, UNPROCESSABLE, TOO_MANY_REQUESTS])
                .taking(Body::Json(of::<runs::RunInformation>)),
        )
        .get(run, Look, runs::get, operation("A run", [shows, BAD_REQUEST, NOT_FOUND]).asking(&["without"]))
        .patch(
            run,
            Change,
            runs::patch,
            operation("Report about a run", [shows, BAD_REQUEST, NOT_FOUND, UNPROCESSABLE])
                .taking(Body::Shown(of::<Run>)),
        )
        .delete(
            run,
            Change,
            runs::delete,
            operation("Remove a run with its events and traces", [(204, Nothing), BAD_REQUEST, NOT_FOUND]),
        )
        .post(
            &of_run("rerun"),
            Change,
            runs::rerun,
            operation("Judge the trace of a run again", [shows, BAD_REQUEST, NOT_FOUND]),
        )
        .post(
            &of_run("stop"),
            Change,
            runs::stop,
            operation("End a run and its series", [succeeds, BAD_REQUEST, NOT_FOUND]),
        )
        .post(
            &of_run("skipPolling"),
            Change,
            runs::skip_polling,
            operation("Judge a run with the spans that are here", [succeeds, BAD_REQUEST, NOT_FOUND]),
        )
        .merge(legacy::run_routes())
        .get(
            &of_run("events/stream"),
            Stream,
            runs::stream,
            operation("The events of a run, as a stream", [(200, Events), BAD_REQUEST, NOT_FOUND])
                .asking(&["after", "short", "owed"]),
        )
}

/// Routes of traces and of the services that send them.
fn trace_routes() -> Routes<App> {
    use RequiredAccess::Look;
    use error::{BAD_REQUEST, NOT_FOUND};
    let filters = &[
        "service",
        "name",
        "status",
        "minDuration",
        "maxDuration",
        "attribute",
        "from",
        "to",
        "take",
        "next",
    ];
    Routes::new()
        .get(
            "/api/traces",
            Look,
            traces::list,
            operation("Traces, newest first, by filters", [(200, Json(of::<traces::Traces>)), BAD_REQUEST])
                .asking(filters)
                .for_all(),
        )
        .get(
            "/api/traces/stream",
            RequiredAccess::Stream,
            traces::live::stream,
            operation("Arrivals of all traces, as a stream", [(200, Events), BAD_REQUEST])
                .asking(&["after"])
                .for_all(),
        )
        .get(
            "/api/traces/{id}",
            Look,
            traces::get,
            operation(
                "A trace: own JSON, OTLP JSON or Jaeger JSON",
                [(200, Content::Trace(of::<wire::trace::Trace>)), BAD_REQUEST, NOT_FOUND],
            )
            .for_all(),
        )
        .get(
            "/api/traces/{id}/columns",
            Look,
            traces::columns::of_trace,
            operation(
                "A trace as columns, in the order of arrival",
                [(200, Json(of::<wire::columns::Columns>)), BAD_REQUEST, NOT_FOUND],
            )
            .asking(&["from", "revision"])
            .for_all(),
        )
        .get(
            "/api/tests/{id}/run/{number}/trace/columns",
            Look,
            traces::columns::of_run,
            operation(
                "The trace of a run as columns: the trigger, then spans in the order of arrival",
                [(200, Json(of::<wire::columns::Columns>)), BAD_REQUEST, NOT_FOUND],
            )
            .asking(&["from", "revision"]),
        )
        .get(
            "/api/traces/{id}/spans/{span}",
            Look,
            traces::span::of_trace,
            operation(
                "One span in full, with its log records",
                [(200, Json(of::<wire::span::SpanDetail>)), BAD_REQUEST, NOT_FOUND],
            )
            .for_all(),
        )
        .get(
            "/api/tests/{id}/run/{number}/spans/{span}",
            Look,
            traces::span::of_run,
            operation(
                "One span of a run in full; the trigger is one of them",
                [(200, Json(of::<wire::span::SpanDetail>)), BAD_REQUEST, NOT_FOUND],
            ),
        )
        .merge(traces::files::routes())
        .merge(trace_computations())
        .get(
            "/api/services",
            Look,
            traces::services,
            operation(
                "The services that send telemetry, and their delays",
                [(200, Json(of::<traces::Services>))],
            )
            .for_all(),
        )
}

/// Routes that compute something on a trace and store nothing.
fn trace_computations() -> Routes<App> {
    use RequiredAccess::Look;
    use error::{BAD_REQUEST, NOT_FOUND, UNPROCESSABLE};
    use traces::{dry_run, select};
    let of_run = |rest: &str| format!("/api/tests/{{id}}/run/{{number}}/{rest}");
    let (selected, selection) = ((200, Json(of::<select::Selected>)), Body::Json(of::<select::Selection>));
    let (tried, trial) = ((200, Json(of::<dry_run::DryRunResult>)), Body::Json(of::<dry_run::DryRunRequest>));
    Routes::new()
        .post(
            "/api/traces/{id}/select",
            Look,
            select::of_trace,
            operation("Select spans of a trace", [selected, BAD_REQUEST, NOT_FOUND])
                .taking(selection)
                .for_all(),
        )
        .post(
            &of_run("select"),
            Look,
            select::of_run,
            operation("Select spans of a run", [selected, BAD_REQUEST, NOT_FOUND, UNPROCESSABLE])
                .taking(selection),
        )
        .post(
            "/api/traces/{id}/dry-run",
            Look,
            dry_run::of_trace,
            operation("Evaluate specs and outputs on a trace", [tried, BAD_REQUEST, NOT_FOUND])
                .taking(trial)
                .for_all(),
        )
        .post(
            &of_run("dry-run"),
            Look,
            dry_run::of_run,
            operation("Evaluate specs and outputs on a run", [tried, BAD_REQUEST, NOT_FOUND, UNPROCESSABLE])
                .taking(trial),
        )
        .put(
            "/api/tests/{id}/dry-run",
            Look,
            dry_run::of_test,
            operation(
                "Evaluate specs and outputs on the latest runs of a test",
                [(200, Json(of::<dry_run::TriedRuns>)), BAD_REQUEST],
            )
            .taking(trial)
            .asking(&["runs"]),
        )
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
