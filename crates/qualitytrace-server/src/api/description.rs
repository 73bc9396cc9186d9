//! The API described to programs, in the form of `OpenAPI` 3.1: from one table of routes, the kinds of resources, and
//! the schemas of what is sent.

mod routes;

use axum::Json;
use axum::response::Html;
use qualitytrace_core::definition::Kind;
use serde_json::{Map, Value, json};

use super::negotiation::NAMES;
use super::resources::collection;
use routes::{Content, ROUTES, Route};

/// The schemas of bodies and answers.
const SCHEMAS: &str = include_str!("description/schemas.json");

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
    for route in ROUTES {
        add(route.method, route.path, operation(route));
    }
    let schemas: Value = serde_json::from_str(SCHEMAS).unwrap_or_default();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Qualitytrace", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// The routes of one kind of resource.
fn resource(kind: Kind, add: &mut impl FnMut(&str, &str, Value)) {
    let name = kind.as_str();
    let all = format!("/api/{}", collection(kind));
    let one = format!("{all}/{{id}}");
    let (wrong, missing) = ((400, negotiated("Error")), (404, Value::Null));
    let (shown, listed) = (|status: u16| (status, negotiated(name)), negotiated(&format!("{name}List")));
    let page = ["take", "skip", "query", "sortBy", "sortDirection"];
    let mut put = |method: &str, path: &str, what: &str, answers: &[(u16, Value)], queries: &[&str]| {
        let mut operation = described(path, &format!("{what} {name}"), answers, queries);
        if matches!(method, "post" | "put") {
            let schema = json!({ "schema": reference(name) });
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": schema, "text/yaml": schema } });
        }
        add(method, path, operation);
    };
    put("get", &all, "List: ", &[(200, listed), wrong.clone()], &page);
    put("post", &all, "Create a", &[shown(201), wrong.clone()], &["strict"]);
    put("put", &all, "Create or change a", &[shown(200), shown(201), wrong.clone()], &["strict"]);
    put("get", &one, "Read a", &[shown(200), wrong.clone(), missing.clone()], &[]);
    put("put", &one, "Change a", &[shown(200), wrong.clone(), missing.clone()], &["strict"]);
    let gone = if kind.is_singleton() { (405, negotiated("Error")) } else { (204, Value::Null) };
    put("delete", &one, "Remove a", &[gone, wrong, missing], &[]);
    let text = json!({ "schema": { "type": ["string", "object"] } });
    let source = json!({ "text/yaml": text, "application/json": text });
    let answers = [(200, source), (400, json_content("Text")), (404, json_content("Text"))];
    put("get", &format!("{one}/source"), "As its user wrote it: a", &answers, &["version"]);
}

/// A route that stands in the table.
fn operation(route: &Route) -> Value {
    let content = |content: &Content| match content {
        Content::Nothing => Value::Null,
        Content::Json(schema) => json_content(schema),
        Content::Other(media) => json!({ (*media): { "schema": { "type": "string" } } }),
        Content::Negotiated(schema) => negotiated(schema),
    };
    let answers: Vec<(u16, Value)> =
        route.answers.iter().map(|(status, answer)| (*status, content(answer))).collect();
    let mut out = described(route.path, route.summary, &answers, route.queries);
    if let Some(body) = route.body {
        out["requestBody"] = json!({ "required": true, "content": json_content(body) });
    }
    out
}

fn described(path: &str, summary: &str, answers: &[(u16, Value)], queries: &[&str]) -> Value {
    let mut responses = Map::new();
    for (status, content) in answers {
        let mut response = json!({ "description": reason(*status) });
        if !content.is_null() {
            response["content"] = content.clone();
        }
        responses.insert(status.to_string(), response);
    }
    let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": parameter(name, true) }))
        .chain(
            queries
                .iter()
                .map(|name| json!({ "name": name, "in": "query", "schema": parameter(name, false) })),
        )
        .collect();
    let mut out = json!({ "summary": summary.trim(), "responses": responses });
    if !parameters.is_empty() {
        out["parameters"] = parameters.into();
    }
    out
}

/// What a parameter can be.
fn parameter(name: &str, is_in_path: bool) -> Value {
    match name {
        "take" | "skip" | "after" => json!({ "type": "integer", "minimum": 0 }),
        "number" | "version" => json!({ "type": "integer", "minimum": u8::from(is_in_path) }),
        "strict" => json!({ "type": "boolean" }),
        "sortDirection" => json!({ "type": "string", "enum": ["asc", "desc"] }),
        _ if is_in_path => json!({ "type": "string", "minLength": 1 }),
        _ => json!({ "type": "string" }),
    }
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn json_content(schema: &str) -> Value {
    json!({ "application/json": { "schema": reference(schema) } })
}

/// JSON and YAML under all their names.
fn negotiated(schema: &str) -> Value {
    NAMES.iter().map(|name| ((*name).to_owned(), json!({ "schema": reference(schema) }))).collect()
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every schema that is referred to below `value`.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(entries) => {
                found.extend(entries.get("$ref").and_then(Value::as_str).map(ToOwned::to_owned));
                entries.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_schema_that_is_referred_to_is_there_and_every_schema_is_referred_to() {
        let document = openapi();
        let mut found = Vec::new();
        references(&document, &mut found);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let known: Vec<String> = schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
        let unknown: Vec<_> = found.iter().filter(|name| !known.contains(name)).collect();
        let unused: Vec<_> = known.iter().filter(|name| !found.contains(name)).collect();
        assert!(unknown.is_empty() && unused.is_empty(), "unknown {unknown:?}, unused {unused:?}");
    }

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
