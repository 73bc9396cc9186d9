//! Routes that only Tracetest's own clients use: its web interface, and programs written against its API.

pub(super) mod connection;
pub(super) mod everything;
pub(super) mod export;
pub(super) mod expressions;
pub(super) mod hosted;
pub(super) mod probe;
mod run;
mod socket;
pub(super) mod versions;
pub(super) mod wizard;

use super::App;
use crate::access::Wanted;
use crate::routes::Routes;

/// Returns these routes.
pub(super) fn routes() -> Routes<App> {
    use Wanted::{Change, Look, Stream};
    let of_run = |rest: &str| format!("/api/tests/{{id}}/run/{{number}}/{rest}");
    Routes::new()
        .get("/api/tests/{id}/definition", Look, versions::specs)
        .get("/api/tests/{id}/version/{version}", Look, versions::version)
        .get("/api/testsuites/{id}/version/{version}", Look, versions::suite_version)
        .get("/api/transactions/{id}/version/{version}", Look, versions::suite_version)
        .put(&of_run("dry-run"), Look, probe::dry_run)
        .get(&of_run("select"), Look, probe::select_spans)
        .post(&of_run("search-spans"), Look, probe::search_spans)
        .get(&of_run("events"), Look, run::events)
        .get(&of_run("junit.xml"), Look, run::junit)
        .get(&of_run("export"), Look, export::export)
        .get("/api/resources", Look, everything::list)
        .post("/api/expressions/resolve", Look, expressions::resolve_expression)
        .post("/api/config/connection", Change, connection::test)
        .get("/api/config/connection/otlp", Look, connection::otlp)
        .post("/api/config/connection/otlp/reset", Change, connection::reset)
        .get("/api/wizard", Look, wizard::get)
        .put("/api/wizard", Change, wizard::put)
        .get("/ws", Stream, socket::open)
        .merge(hosted::routes())
}
