//! The description of every route that does not belong to a kind of resource: parameters, body and responses.

use qualitytrace_core::definition::Kind;

use super::schemas::{Body, Content, of};
use crate::api::answer::Success;
use crate::api::audit::Changes;
use crate::api::error::Error;
use crate::api::health::{Delivered, Health, Version};
use crate::api::legacy::connection::Arrivals;
use crate::api::legacy::everything::Listed;
use crate::api::legacy::export::Exported;
use crate::api::legacy::expressions::{Expression, Resolved};
use crate::api::legacy::probe::{DryRun, FoundSpans, Search, Selected};
use crate::api::legacy::versions::{TestVersion, VersionSpec};
use crate::api::legacy::wizard::Wizard;
use crate::api::legacy_error::Said;
use crate::api::runs::RunInformation;
use crate::api::traces::{Services, Traces};
use crate::wire::legacy::RunEvent;
use crate::wire::legacy::connection::Connection;
use crate::wire::run::{Results, Run};
use crate::wire::series::Series;
use crate::wire::suite::{self, SuiteRun};
use crate::wire::trace::Trace;

/// The description of one route.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// The summary.
    pub(super) summary: &'static str,
    pub(super) body: Option<Body>,
    /// Its responses by status, beside those that any route may return.
    pub(super) answers: &'a [(u16, Content)],
    /// The query parameters.
    pub(super) queries: &'a [&'a str],
    /// Whether its data is separate for each tenant.
    pub(super) is_of_tenant: bool,
    /// The kind of resource that it lists.
    pub(super) lists: Option<Kind>,
    /// Whether it returns more on request.
    pub(super) augmented: bool,
}

use Content::{Counted, Json, Nothing, Other};

/// Errors of the legacy part of the API.
const BAD: (u16, Content) = (400, Json(of::<Said>));
const MISSING: (u16, Content) = (404, Json(of::<Said>));
const UNFIT: (u16, Content) = (422, Json(of::<Said>));
const BUSY: (u16, Content) = (429, Json(of::<Said>));
/// Errors of the newer part of the API.
const WRONG: (u16, Content) = (400, Json(of::<Error>));
const ABSENT: (u16, Content) = (404, Json(of::<Error>));
const UNREADY: (u16, Content) = (503, Json(of::<Error>));

pub(super) const fn get<'a>(
    path: &'static str,
    summary: &'static str,
    answers: &'a [(u16, Content)],
) -> Route<'a> {
    let (is_of_tenant, lists, augmented) = (true, None, false);
    Route { method: "get", path, summary, body: None, answers, queries: &[], is_of_tenant, lists, augmented }
}

const fn post<'a>(path: &'static str, summary: &'static str, answers: &'a [(u16, Content)]) -> Route<'a> {
    Route { method: "post", ..get(path, summary, answers) }
}

impl<'a> Route<'a> {
    pub(super) const fn taking(self, body: Body) -> Self {
        Self { body: Some(body), ..self }
    }

    pub(super) const fn by(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    pub(super) const fn asking(self, queries: &'a [&'a str]) -> Self {
        Self { queries, ..self }
    }

    /// Marks a paginated list of resources of this kind.
    pub(super) const fn listing(self, kind: Kind) -> Self {
        Self { lists: Some(kind), queries: &["take", "skip", "query", "sortBy", "sortDirection"], ..self }
    }

    /// Marks a route that is the same for all tenants.
    pub(super) const fn for_all(self) -> Self {
        Self { is_of_tenant: false, ..self }
    }
}

const RUN: &str = "/api/tests/{id}/run/{number}";

pub(super) const ROUTES: &[Route<'static>] = &[
    get("/", "A page with links", &[(200, Other("text/html"))]).for_all(),
    get("/healthz", "Whether the server is alive", &[(200, Json(of::<Health>))]).for_all(),
    get("/api/healthz", "Whether the server is alive", &[(200, Json(of::<Health>))]).for_all(),
    get("/readyz", "Whether the store answers", &[(200, Json(of::<Health>)), UNREADY]).for_all(),
    get("/api/version.json", "The version of the server", &[(200, Json(of::<Version>))]).for_all(),
    get(
        "/api/openapi.json",
        "This description",
        &[(200, Json(of::<serde_json::Map<String, serde_json::Value>>))],
    )
    .for_all(),
    get("/api/docs", "This description as a page", &[(200, Other("text/html"))]).for_all(),
    get("/api/ingest/status", "The counters of all received telemetry", &[(200, Json(of::<Delivered>))])
        .for_all(),
    get("/api/audit", "The audit log, newest first", &[(200, Json(of::<Changes>)), WRONG])
        .asking(&["take", "before"])
        .for_all(),
    post(
        "/api/tests/import",
        "Import an exported run with its test",
        &[(200, Json(of::<Exported>)), BAD, UNFIT],
    )
    .taking(Body::Shown(of::<Exported>)),
    get(
        "/api/tests/{id}/definition",
        "The specs of a test",
        &[(200, Json(of::<Vec<VersionSpec>>)), BAD, MISSING],
    ),
    get(
        "/api/tests/{id}/version/{version}",
        "A version of a test",
        &[(200, Json(of::<TestVersion>)), BAD, MISSING],
    ),
    get(
        "/api/tests/{id}/run",
        "Runs of a test, newest first",
        &[(200, Counted(of::<Vec<Run>>)), BAD, MISSING],
    )
    .asking(&["take", "skip"]),
    post("/api/tests/{id}/run", "Start a run", &[(200, Json(of::<Run>)), BAD, MISSING, UNFIT, BUSY])
        .taking(Body::Json(of::<RunInformation>)),
    get(RUN, "A run", &[(200, Json(of::<Run>)), BAD, MISSING]),
    get(RUN, "Report about a run", &[(200, Json(of::<Run>)), BAD, MISSING, UNFIT])
        .by("patch")
        .taking(Body::Shown(of::<Run>)),
    get(RUN, "Remove a run with its events and traces", &[(204, Nothing), BAD, MISSING]).by("delete"),
    post(
        "/api/tests/{id}/run/{number}/rerun",
        "Judge the trace of a run again",
        &[(200, Json(of::<Run>)), BAD, MISSING],
    ),
    post(
        "/api/tests/{id}/run/{number}/stop",
        "End a run and its series",
        &[(200, Json(of::<Success>)), BAD, MISSING],
    ),
    post(
        "/api/tests/{id}/run/{number}/skipPolling",
        "Judge a run with the spans that are here",
        &[(200, Json(of::<Success>)), BAD, MISSING],
    ),
    get(
        "/api/tests/{id}/run/{number}/dry-run",
        "Evaluate specs on a run, without storing them",
        &[(200, Json(of::<Results>)), BAD, MISSING, UNFIT],
    )
    .by("put")
    .taking(Body::Json(of::<DryRun>)),
    get(
        "/api/tests/{id}/run/{number}/select",
        "The spans that a selector selects",
        &[(200, Json(of::<Selected>)), BAD, MISSING, UNFIT],
    )
    .asking(&["query"]),
    post(
        "/api/tests/{id}/run/{number}/search-spans",
        "The spans that match a search text or a selector",
        &[(200, Json(of::<FoundSpans>)), BAD, MISSING, UNFIT],
    )
    .taking(Body::Json(of::<Search>)),
    get(
        "/api/tests/{id}/run/{number}/junit.xml",
        "A run as JUnit XML",
        &[(200, Other("application/xml")), BAD, MISSING],
    ),
    get(
        "/api/tests/{id}/run/{number}/export",
        "A run with its test",
        &[(200, Json(of::<Exported>)), BAD, MISSING],
    ),
    get(
        "/api/tests/{id}/run/{number}/events",
        "The events of a run",
        &[(200, Json(of::<Vec<RunEvent>>)), BAD],
    ),
    get(
        "/api/tests/{id}/run/{number}/events/stream",
        "The events of a run, as a stream",
        &[(200, Content::Events), BAD, MISSING],
    )
    .asking(&["after"]),
    get(
        "/api/testsuites/{id}/version/{version}",
        "A version of a suite",
        &[(200, Content::Spec(Kind::TestSuite)), BAD, MISSING],
    ),
    get(
        "/api/tests/{id}/run/{number}/series",
        "The series that a run is one of",
        &[(200, Json(of::<Series>)), BAD, MISSING],
    )
    .asking(&["after"]),
    get(
        "/api/testsuites/{id}/run",
        "Runs of a suite, newest first",
        &[(200, Counted(of::<Vec<SuiteRun>>)), BAD, MISSING],
    )
    .asking(&["take", "skip"]),
    post(
        "/api/testsuites/{id}/run",
        "Start a run of a suite",
        &[(200, Json(of::<SuiteRun>)), BAD, MISSING, UNFIT, BUSY],
    )
    .taking(Body::Json(of::<RunInformation>)),
    get(
        "/api/testsuites/{id}/run/{number}",
        "A run of a suite",
        &[(200, Json(of::<SuiteRun>)), BAD, MISSING],
    ),
    get(
        "/api/testsuites/{id}/run/{number}",
        "Remove a run of a suite with the runs of its steps",
        &[(204, Nothing), BAD, MISSING],
    )
    .by("delete"),
    post(
        "/api/testsuites/{id}/run/{number}/stop",
        "End a run of a suite",
        &[(200, Json(of::<Success>)), BAD, MISSING],
    ),
    get(
        "/api/testsuites/{id}/run/{number}/events",
        "The events of a run of a suite",
        &[(200, Json(of::<Vec<suite::Event>>)), BAD],
    ),
    get(
        "/api/testsuites/{id}/run/{number}/events/stream",
        "The events of a run of a suite, as a stream",
        &[(200, Content::Events), BAD, MISSING],
    )
    .asking(&["after"]),
    get("/api/resources", "Tests and suites, newest first", &[(200, Counted(of::<Vec<Listed>>)), BAD])
        .listing(Kind::Test),
    post(
        "/api/expressions/resolve",
        "The value of an expression",
        &[(200, Json(of::<Resolved>)), BAD, MISSING],
    )
    .taking(Body::Json(of::<Expression>)),
    post(
        "/api/config/connection",
        "Test the connection to a data store",
        &[(200, Json(of::<Connection>)), BAD, UNFIT],
    )
    .taking(Body::Spec(Kind::DataStore)),
    get("/api/config/connection/otlp", "What has arrived over OTLP", &[(200, Json(of::<Arrivals>))])
        .for_all(),
    post("/api/config/connection/otlp/reset", "Reset the OTLP counters", &[(200, Json(of::<()>))]).for_all(),
    get("/api/wizard", "The progress of the set-up", &[(200, Json(of::<Wizard>))]),
    get("/api/wizard", "Store the progress of the set-up", &[(200, Json(of::<Wizard>)), BAD])
        .by("put")
        .taking(Body::Json(of::<Wizard>)),
    get("/api/traces", "Traces, newest first, by filters", &[(200, Json(of::<Traces>)), WRONG])
        .asking(&[
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
        ])
        .for_all(),
    get(
        "/api/traces/{id}",
        "A trace: own JSON, OTLP JSON or Jaeger JSON",
        &[(200, Content::Trace(of::<Trace>)), WRONG, ABSENT],
    )
    .for_all(),
    get(
        "/api/services",
        "The services that send telemetry, and their delays",
        &[(200, Json(of::<Services>))],
    )
    .for_all(),
];
