//! The API described to programs, in the form of `OpenAPI` 3.1, from one table.

use axum::Json;
use axum::response::Html;
use qualitytrace_core::definition::Kind;
use serde_json::{Map, Value, json};

use super::resources::collection;

/// One route: method, path, what it does, the status of success, further status.
type Route = (&'static str, &'static str, &'static str, u16, &'static [u16]);

/// Every route that is not one of the resources'.
const ROUTES: &[Route] = &[
    ("get", "/healthz", "Whether the server is alive", 200, &[]),
    ("get", "/api/healthz", "Whether the server is alive", 200, &[]),
    ("get", "/readyz", "Whether the store answers", 200, &[]),
    ("get", "/api/version.json", "The version of the server", 200, &[]),
    ("get", "/api/ingest/status", "What became of everything that was delivered", 200, &[]),
    ("post", "/api/tests/import", "Take in an exported run with its test", 200, &[400, 422]),
    ("get", "/api/tests/{id}/definition", "The specs of a test", 200, &[404]),
    ("get", "/api/tests/{id}/version/{version}", "A version of a test", 200, &[400, 404]),
    ("get", "/api/tests/{id}/run", "Runs of a test, newest first", 200, &[400, 404]),
    ("post", "/api/tests/{id}/run", "Start a run", 200, &[400, 404, 422]),
    ("get", "/api/tests/{id}/run/{number}", "A run", 200, &[400, 404]),
    ("patch", "/api/tests/{id}/run/{number}", "Report about a run", 200, &[400, 404, 422]),
    ("delete", "/api/tests/{id}/run/{number}", "Remove a run with all that belongs to it", 204, &[400, 404]),
    ("post", "/api/tests/{id}/run/{number}/rerun", "Judge the trace of a run again", 200, &[400, 404]),
    ("post", "/api/tests/{id}/run/{number}/stop", "End a run", 200, &[400]),
    (
        "post",
        "/api/tests/{id}/run/{number}/skipPolling",
        "Judge a run with the spans that are here",
        200,
        &[400],
    ),
    ("put", "/api/tests/{id}/run/{number}/dry-run", "Try specs out on a run", 200, &[400, 404, 422]),
    ("get", "/api/tests/{id}/run/{number}/select", "The spans that a selector picks", 200, &[400, 404, 422]),
    (
        "post",
        "/api/tests/{id}/run/{number}/search-spans",
        "The spans that have a word",
        200,
        &[400, 404, 422],
    ),
    ("get", "/api/tests/{id}/run/{number}/junit.xml", "A run as JUnit XML", 200, &[400, 404]),
    ("get", "/api/tests/{id}/run/{number}/export", "A run with its test", 200, &[400, 404]),
    ("get", "/api/tests/{id}/run/{number}/series", "The series that a run is one of", 200, &[400, 404]),
    ("get", "/api/tests/{id}/run/{number}/events", "What happened to a run", 200, &[400]),
    (
        "get",
        "/api/tests/{id}/run/{number}/events/stream",
        "What happens to a run, as it happens",
        200,
        &[400, 404],
    ),
    ("get", "/api/testsuites/{id}/version/{version}", "A version of a suite", 200, &[400, 404]),
    ("get", "/api/testsuites/{id}/run", "Runs of a suite, newest first", 200, &[400, 404]),
    ("post", "/api/testsuites/{id}/run", "Start a run of a suite", 200, &[400, 404, 422]),
    ("get", "/api/testsuites/{id}/run/{number}", "A run of a suite", 200, &[400, 404]),
    (
        "delete",
        "/api/testsuites/{id}/run/{number}",
        "Remove a run of a suite with all that belongs to it",
        204,
        &[400, 404],
    ),
    ("post", "/api/testsuites/{id}/run/{number}/stop", "End a run of a suite", 200, &[400]),
    ("get", "/api/testsuites/{id}/run/{number}/events", "What happened to a run of a suite", 200, &[400]),
    (
        "get",
        "/api/testsuites/{id}/run/{number}/events/stream",
        "What happens to a run of a suite, as it happens",
        200,
        &[400, 404],
    ),
    ("get", "/api/resources", "Tests and suites, newest first", 200, &[400]),
    ("post", "/api/expressions/resolve", "The value of an expression", 200, &[400, 404]),
    ("post", "/api/config/connection", "Try a data store out", 200, &[400, 422]),
    ("get", "/api/config/connection/otlp", "What has arrived over OTLP", 200, &[]),
    ("post", "/api/config/connection/otlp/reset", "Count arrivals from here on", 200, &[]),
    ("get", "/api/wizard", "How far the set-up has come", 200, &[]),
    ("put", "/api/wizard", "Note how far the set-up has come", 200, &[400]),
    ("get", "/api/traces", "Traces, newest first, by filters", 200, &[400]),
    ("get", "/api/traces/{id}", "A trace: own JSON, OTLP JSON or Jaeger JSON", 200, &[400, 404]),
    ("get", "/api/services", "Who sends traces, when last, how late", 200, &[]),
];

/// Parameters in queries, by route.
const QUERIES: &[(&str, &[&str])] = &[
    ("/api/tests/{id}/run", &["take", "skip"]),
    ("/api/tests/{id}/run/{number}/select", &["query"]),
    ("/api/tests/{id}/run/{number}/series", &["after"]),
    ("/api/tests/{id}/run/{number}/events/stream", &["after"]),
    ("/api/testsuites/{id}/run", &["take", "skip"]),
    ("/api/testsuites/{id}/run/{number}/events/stream", &["after"]),
    ("/api/resources", &["take", "skip", "query", "sortBy", "sortDirection"]),
    (
        "/api/traces",
        &[
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
        ],
    ),
];

/// The description.
pub(super) async fn document() -> Json<Value> {
    Json(openapi())
}

/// What a browser finds at the root, and what health checks of containers ask for.
pub(super) async fn home() -> Html<&'static str> {
    Html(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Qualitytrace</title>\
         <body style=\"font-family:sans-serif\"><h1>Qualitytrace</h1>\
         <p>The server is up. <a href=\"api/docs\">Its API</a> · <a href=\"api/tests\">its tests</a></p></html>",
    )
}

/// The description as a page: every route with what it does.
pub(super) async fn page() -> Html<String> {
    let document = openapi();
    let mut rows = String::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let (method, summary) =
                (method.to_uppercase(), operation["summary"].as_str().unwrap_or_default());
            let row = [method.as_str(), path, summary].map(|cell| format!("<td>{cell}</td>")).concat();
            rows.extend(["<tr>", &row, "</tr>"]);
        }
    }
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Qualitytrace API</title>\
         <style>body{{font:15px system-ui;margin:2rem}}td{{padding:.2rem 1rem .2rem 0}}</style>\
         <h1>Qualitytrace API</h1><p>For programs: <a href=\"openapi.json\">openapi.json</a></p>\
         <table>{rows}</table></html>\n"
    ))
}

/// The description as a document.
pub(crate) fn openapi() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut add = |method: &str, path: &str, operation: Value| {
        let entry = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        entry[method] = operation;
    };
    for kind in Kind::ALL {
        resource(kind, &mut add);
    }
    for (method, path, summary, status, further) in ROUTES {
        let queries = QUERIES.iter().find(|(of, _)| of == path).map_or(&[][..], |(_, queries)| queries);
        add(method, path, operation(method, path, summary, &[*status], further, queries));
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Qualitytrace", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": {
            "Error": { "type": "object", "required": ["code", "error"], "properties": {
                "code": { "type": "integer" }, "error": { "type": "string" } } },
        } },
    })
}

/// The routes of one kind of resource.
fn resource(kind: Kind, add: &mut impl FnMut(&str, &str, Value)) {
    let name = kind.as_str();
    let all = format!("/api/{}", collection(kind));
    let one = format!("{all}/{{id}}");
    let page = ["take", "skip", "query", "sortBy", "sortDirection"];
    let mut put = |method: &str, path: &str, what: &str, good: &[u16], bad: &[u16], queries: &[&str]| {
        add(method, path, operation(method, path, &format!("{what} {name}"), good, bad, queries));
    };
    put("get", &all, "List: ", &[200], &[400], &page);
    put("post", &all, "Create a", &[201], &[400], &["strict"]);
    put("put", &all, "Create or change a", &[200, 201], &[400], &["strict"]);
    put("get", &one, "Read a", &[200], &[404], &[]);
    put("put", &one, "Change a", &[200], &[400, 404], &["strict"]);
    let (gone, not) = if kind.is_singleton() { (405, 404) } else { (204, 404) };
    put("delete", &one, "Remove a", &[gone], &[not], &[]);
    put("get", &format!("{one}/source"), "As its user wrote it: a", &[200], &[400, 404], &["version"]);
}

fn operation(method: &str, path: &str, summary: &str, good: &[u16], bad: &[u16], queries: &[&str]) -> Value {
    let mut responses = Map::new();
    for status in good.iter().chain(bad) {
        responses.insert(status.to_string(), json!({ "description": reason(*status) }));
    }
    let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let text = json!({ "type": "string" });
    let parameters: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text }))
        .chain(queries.iter().map(|name| json!({ "name": name, "in": "query", "schema": text })))
        .collect();
    let mut out = json!({ "summary": summary.trim(), "responses": responses });
    if !parameters.is_empty() {
        out["parameters"] = parameters.into();
    }
    let has_body = matches!(method, "put" | "patch")
        || method == "post"
            && !["/stop", "/skipPolling", "/rerun", "/reset"].iter().any(|end| path.ends_with(end));
    if has_body {
        out["requestBody"] = json!({ "content": { "application/json": { "schema": { "type": "object" } } } });
    }
    out
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_description_is_the_one_that_is_served() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let served = format!("{}\n", serde_json::to_string_pretty(&openapi()).unwrap());
        if std::env::var_os("QUALITYTRACE_UPDATE").is_some() {
            std::fs::write(path, &served).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == served,
            "docs/openapi.json is out of date; set QUALITYTRACE_UPDATE=1 and run this test again"
        );
    }
}
