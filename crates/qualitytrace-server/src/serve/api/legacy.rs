//! Routes that only Tracetest's own clients use: its web interface, and programs written against its API.

mod connection;
mod everything;
pub(super) mod export;
mod expressions;
pub(super) mod hosted;
mod probe;
mod run;
mod socket;
mod versions;
mod wizard;

use qualitytrace_core::definition::Kind;

use super::App;
use super::run_error::{BAD_REQUEST, NOT_FOUND, UNPROCESSABLE};
use crate::http::access::RequiredAccess::{Change, Look, Stream};
use crate::http::routes::Routes;
use crate::http::routes::operation::Content::{Counted, Json, Other, Spec};
use crate::http::routes::operation::{Body, hidden, of, operation};
use crate::wire::legacy::RunEvent;
use crate::wire::legacy::connection::Connection;
use crate::wire::run::Results;

/// Returns the routes of tests.
pub(super) fn test_routes() -> Routes<App> {
    Routes::new()
        .get(
            "/api/tests/{id}/definition",
            Look,
            versions::specs,
            operation(
                "The specs of a test",
                [(200, Json(of::<Vec<versions::VersionSpec>>)), BAD_REQUEST, NOT_FOUND],
            ),
        )
        .get(
            "/api/tests/{id}/version/{version}",
            Look,
            versions::version,
            operation(
                "A version of a test",
                [(200, Json(of::<versions::TestVersion>)), BAD_REQUEST, NOT_FOUND],
            ),
        )
}

/// Returns the routes of one run of a test.
pub(super) fn run_routes() -> Routes<App> {
    let of_run = |rest: &str| format!("/api/tests/{{id}}/run/{{number}}/{rest}");
    Routes::new()
        .put(
            &of_run("dry-run"),
            Look,
            probe::dry_run,
            operation(
                "Evaluate specs on a run, without storing them",
                [(200, Json(of::<Results>)), BAD_REQUEST, NOT_FOUND, UNPROCESSABLE],
            )
            .taking(Body::Json(of::<probe::DryRun>)),
        )
        .get(
            &of_run("select"),
            Look,
            probe::select_spans,
            operation(
                "The spans that a selector selects",
                [(200, Json(of::<probe::Selected>)), BAD_REQUEST, NOT_FOUND, UNPROCESSABLE],
            )
            .asking(&["query"]),
        )
        .post(
            &of_run("search-spans"),
            Look,
            probe::search_spans,
            operation(
                "The spans that match a search text or a selector",
                [(200, Json(of::<probe::FoundSpans>)), BAD_REQUEST, NOT_FOUND, UNPROCESSABLE],
            )
            .taking(Body::Json(of::<probe::Search>)),
        )
        .get(
            &of_run("junit.xml"),
            Look,
            run::junit,
            operation("A run as JUnit XML", [(200, Other("application/xml")), BAD_REQUEST, NOT_FOUND]),
        )
        .get(
            &of_run("export"),
            Look,
            export::export,
            operation("A run with its test", [(200, Json(of::<export::Exported>)), BAD_REQUEST, NOT_FOUND]),
        )
        .get(
            &of_run("events"),
            Look,
            run::events,
            operation("The events of a run", [(200, Json(of::<Vec<RunEvent>>)), BAD_REQUEST]),
        )
}

/// Returns the routes of suites, under their current name, which is described, and their former one.
pub(super) fn suite_routes() -> Routes<App> {
    Routes::new()
        .get(
            "/api/testsuites/{id}/version/{version}",
            Look,
            versions::suite_version,
            operation("A version of a suite", [(200, Spec(Kind::TestSuite)), BAD_REQUEST, NOT_FOUND]),
        )
        .get("/api/transactions/{id}/version/{version}", Look, versions::suite_version, hidden())
}

/// Returns the other routes.
pub(super) fn routes() -> Routes<App> {
    let wizard = (200, Json(of::<wizard::Wizard>));
    Routes::new()
        .get(
            "/api/resources",
            Look,
            everything::list,
            operation(
                "Tests and suites, newest first",
                [(200, Counted(of::<Vec<everything::ListedResource>>)), BAD_REQUEST],
            )
            .listing(Kind::Test),
        )
        .post(
            "/api/expressions/resolve",
            Look,
            expressions::resolve_expression,
            operation(
                "The value of an expression",
                [(200, Json(of::<expressions::Resolved>)), BAD_REQUEST, NOT_FOUND],
            )
            .taking(Body::Json(of::<expressions::Expression>)),
        )
        .post(
            "/api/config/connection",
            Change,
            connection::test,
            operation(
                "Test the connection to a data store",
                [(200, Json(of::<Connection>)), BAD_REQUEST, UNPROCESSABLE],
            )
            .taking(Body::Spec(Kind::DataStore)),
        )
        .get(
            "/api/config/connection/otlp",
            Look,
            connection::otlp,
            operation("What has arrived over OTLP", [(200, Json(of::<connection::Arrivals>))]).for_all(),
        )
        .post(
            "/api/config/connection/otlp/reset",
            Change,
            connection::reset,
            operation("Reset the OTLP counters", [(200, Json(of::<()>))]).for_all(),
        )
        .get("/api/wizard", Look, wizard::get, operation("The progress of the set-up", [wizard]))
        .put(
            "/api/wizard",
            Change,
            wizard::put,
            operation("Store the progress of the set-up", [wizard, BAD_REQUEST])
                .taking(Body::Json(of::<wizard::Wizard>)),
        )
        .get("/ws", Stream, socket::open, hidden())
}
