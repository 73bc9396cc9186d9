//! Every route of the API that does not belong to a kind of resource: what it takes and what it answers with.

/// One route.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// What it does.
    pub(super) summary: &'static str,
    /// The schema of its body.
    pub(super) body: Option<&'static str>,
    /// The status and what comes with it.
    pub(super) answers: &'static [(u16, Content)],
    /// The parameters of its query.
    pub(super) queries: &'static [&'static str],
}

/// What an answer holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// Nothing.
    Nothing,
    /// JSON of this schema.
    Json(&'static str),
    /// Another type of text.
    Other(&'static str),
    /// JSON or YAML of this schema, as the client asks.
    Negotiated(&'static str),
}

use Content::{Json, Negotiated, Nothing, Other};

/// What the older half of the API says when something is wrong.
const BAD: (u16, Content) = (400, Json("Text"));
const MISSING: (u16, Content) = (404, Json("Text"));
const UNFIT: (u16, Content) = (422, Json("MissingVariables"));
/// What the newer half says.
const WRONG: (u16, Content) = (400, Json("Error"));
const ABSENT: (u16, Content) = (404, Json("Error"));

const fn get(path: &'static str, summary: &'static str, answers: &'static [(u16, Content)]) -> Route {
    Route { method: "get", path, summary, body: None, answers, queries: &[] }
}

const fn post(path: &'static str, summary: &'static str, answers: &'static [(u16, Content)]) -> Route {
    Route { method: "post", ..get(path, summary, answers) }
}

impl Route {
    const fn taking(self, body: &'static str) -> Self {
        Self { body: Some(body), ..self }
    }

    const fn by(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    const fn asking(self, queries: &'static [&'static str]) -> Self {
        Self { queries, ..self }
    }
}

const RUN: &str = "/api/tests/{id}/run/{number}";

pub(super) const ROUTES: &[Route] = &[
    get("/", "A page with links", &[(200, Other("text/html"))]),
    get("/healthz", "Whether the server is alive", &[(200, Json("Status"))]),
    get("/api/healthz", "Whether the server is alive", &[(200, Json("Status"))]),
    get("/readyz", "Whether the store answers", &[(200, Json("Status"))]),
    get("/api/version.json", "The version of the server", &[(200, Json("Version"))]),
    get("/api/openapi.json", "This description", &[(200, Json("Description"))]),
    get("/api/docs", "This description as a page", &[(200, Other("text/html"))]),
    get("/api/ingest/status", "What became of everything that was delivered", &[(200, Json("Ingest"))]),
    post(
        "/api/tests/import",
        "Take in an exported run with its test",
        &[(200, Json("Exported")), BAD, UNFIT],
    )
    .taking("Exported"),
    get("/api/tests/{id}/definition", "The specs of a test", &[(200, Json("Specs")), BAD, MISSING]),
    get(
        "/api/tests/{id}/version/{version}",
        "A version of a test",
        &[(200, Json("TestVersion")), BAD, MISSING],
    ),
    get("/api/tests/{id}/run", "Runs of a test, newest first", &[(200, Json("Runs")), BAD, MISSING])
        .asking(&["take", "skip"]),
    post("/api/tests/{id}/run", "Start a run", &[(200, Json("Run")), BAD, MISSING, UNFIT])
        .taking("RunInformation"),
    get(RUN, "A run", &[(200, Json("Run")), BAD, MISSING]),
    get(RUN, "Report about a run", &[(200, Json("Run")), BAD, MISSING, UNFIT])
        .by("patch")
        .taking("RunReport"),
    get(RUN, "Remove a run with all that belongs to it", &[(204, Nothing), BAD, MISSING]).by("delete"),
    post(
        "/api/tests/{id}/run/{number}/rerun",
        "Judge the trace of a run again",
        &[(200, Json("Run")), BAD, MISSING],
    ),
    post("/api/tests/{id}/run/{number}/stop", "End a run", &[(200, Json("Success")), BAD]),
    post(
        "/api/tests/{id}/run/{number}/skipPolling",
        "Judge a run with the spans that are here",
        &[(200, Json("Success")), BAD],
    ),
    get(
        "/api/tests/{id}/run/{number}/dry-run",
        "Try specs out on a run",
        &[(200, Json("Results")), BAD, MISSING, UNFIT],
    )
    .by("put")
    .taking("DryRun"),
    get(
        "/api/tests/{id}/run/{number}/select",
        "The spans that a selector picks",
        &[(200, Json("Selected")), BAD, MISSING, UNFIT],
    )
    .asking(&["query"]),
    post(
        "/api/tests/{id}/run/{number}/search-spans",
        "The spans that have a word",
        &[(200, Json("Found")), BAD, MISSING, UNFIT],
    )
    .taking("Search"),
    get(
        "/api/tests/{id}/run/{number}/junit.xml",
        "A run as JUnit XML",
        &[(200, Other("application/xml")), BAD, MISSING],
    ),
    get(
        "/api/tests/{id}/run/{number}/export",
        "A run with its test",
        &[(200, Json("Exported")), BAD, MISSING],
    ),
    get("/api/tests/{id}/run/{number}/events", "What happened to a run", &[(200, Json("Events")), BAD]),
    get(
        "/api/tests/{id}/run/{number}/events/stream",
        "What happens to a run, as it happens",
        &[(200, Other("text/event-stream")), BAD, MISSING],
    )
    .asking(&["after"]),
    get(
        "/api/testsuites/{id}/version/{version}",
        "A version of a suite",
        &[(200, Negotiated("TestSuiteSpec")), BAD, MISSING],
    ),
    get(
        "/api/tests/{id}/run/{number}/series",
        "The series that a run is one of",
        &[(200, Json("Series")), BAD, MISSING],
    )
    .asking(&["after"]),
    get(
        "/api/testsuites/{id}/run",
        "Runs of a suite, newest first",
        &[(200, Json("SuiteRuns")), BAD, MISSING],
    )
    .asking(&["take", "skip"]),
    post(
        "/api/testsuites/{id}/run",
        "Start a run of a suite",
        &[(200, Json("SuiteRun")), BAD, MISSING, UNFIT],
    )
    .taking("RunInformation"),
    get("/api/testsuites/{id}/run/{number}", "A run of a suite", &[(200, Json("SuiteRun")), BAD, MISSING]),
    get(
        "/api/testsuites/{id}/run/{number}",
        "Remove a run of a suite with all that belongs to it",
        &[(204, Nothing), BAD, MISSING],
    )
    .by("delete"),
    post("/api/testsuites/{id}/run/{number}/stop", "End a run of a suite", &[(200, Json("Success")), BAD]),
    get(
        "/api/testsuites/{id}/run/{number}/events",
        "What happened to a run of a suite",
        &[(200, Json("SuiteEvents")), BAD],
    ),
    get(
        "/api/testsuites/{id}/run/{number}/events/stream",
        "What happens to a run of a suite, as it happens",
        &[(200, Other("text/event-stream")), BAD, MISSING],
    )
    .asking(&["after"]),
    get("/api/resources", "Tests and suites, newest first", &[(200, Json("Resources")), BAD]).asking(&[
        "take",
        "skip",
        "query",
        "sortBy",
        "sortDirection",
    ]),
    post("/api/expressions/resolve", "The value of an expression", &[(200, Json("Resolved")), BAD, MISSING])
        .taking("Expression"),
    post("/api/config/connection", "Try a data store out", &[(200, Json("Connection")), BAD, UNFIT])
        .taking("DataStoreSpec"),
    get("/api/config/connection/otlp", "What has arrived over OTLP", &[(200, Json("Arrivals"))]),
    post("/api/config/connection/otlp/reset", "Count arrivals from here on", &[(200, Json("Nothing"))]),
    get("/api/wizard", "How far the set-up has come", &[(200, Json("Wizard"))]),
    get("/api/wizard", "Note how far the set-up has come", &[(200, Json("Wizard")), BAD])
        .by("put")
        .taking("Wizard"),
    get("/api/traces", "Traces, newest first, by filters", &[(200, Json("Traces")), WRONG]).asking(&[
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
    ]),
    get(
        "/api/traces/{id}",
        "A trace: own JSON, OTLP JSON or Jaeger JSON",
        &[(200, Json("Trace")), WRONG, ABSENT],
    ),
    get("/api/services", "Who sends traces, when last, how late", &[(200, Json("Services"))]),
];
