//! The `OpenAPI` 3.1 description of the API, generated from the operations of the registered routes and the types that
//! are read and written.

mod page;
mod schemas;

use std::collections::BTreeSet;

use axum::extract::State;
use axum::response::Html;
use http::Method;
use serde_json::{Map, Value, json};

use super::error::Error;
use super::resources::sorts;
use super::{App, ROUTES};
use crate::http::access::Scope;
use crate::http::routes::Route;
use crate::http::routes::operation::{Content, Operation, of};
use schemas::Schemas;

/// Serves the description.
pub(super) async fn document() -> axum::Json<Value> {
    axum::Json(openapi())
}

/// What stands at the root for clients that are no browsers, and for browsers where the page is not built in.
pub(super) async fn home(State(app): State<App>) -> Html<String> {
    let absent = app.config.get().page.absent.map_or_else(String::new, |why| {
        format!(
            "<p>The page is not built in: {}. With Node installed, <code>cargo build --release</code> builds it in.</p>",
            page::escaped(why)
        )
    });
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Qualitytrace</title>\
         <body style=\"font-family:sans-serif\"><h1>Qualitytrace</h1>\
         <p>The server is up. <a href=\"api/docs\">Its API</a> · <a href=\"api/tests\">its tests</a></p>{absent}</html>"
    ))
}

/// Serves the description as an HTML page.
pub(super) async fn page() -> Html<String> {
    Html(page::rendered(&openapi()))
}

/// Builds the `OpenAPI` document.
pub(crate) fn openapi() -> Value {
    let mut paths = Paths { schemas: Schemas::new(), found: Map::new(), ids: BTreeSet::new() };
    for route in ROUTES.iter() {
        paths.add(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Qualitytrace", "version": env!("CARGO_PKG_VERSION") },
        // A server without tokens admits every client.
        "security": [{}, { "token": [] }],
        "paths": paths.found,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": paths.schemas.all(),
        },
    })
}

/// The operations described so far.
struct Paths {
    schemas: Schemas,
    found: Map<String, Value>,
    /// The ids of operations that are taken.
    ids: BTreeSet<String>,
}

impl Paths {
    /// Adds a route, unless it is hidden.
    fn add(&mut self, route: &Route) {
        let Some(operation) = &route.operation else { return };
        let path = operation.path.unwrap_or(&route.path);
        let method = route.method.as_ref().unwrap_or(&Method::GET).as_str().to_ascii_lowercase();
        let described = self.operation(&method, path, route.wanted.scope(), operation);
        let entry = self.found.entry(path.to_owned()).or_insert_with(|| json!({}));
        entry[method] = described;
    }

    fn operation(&mut self, method: &str, path: &str, scope: Option<Scope>, operation: &Operation) -> Value {
        let mut responses: Map<String, Value> = Map::new();
        for (status, content) in &operation.answers {
            let mut response = json!({ "description": reason(*status) });
            let content_types = self.schemas.content(content);
            if !content_types.is_empty() {
                response["content"] = content_types.into();
            }
            if matches!(content, Content::Counted(_)) {
                let header = json!({ "description": "How many there are on all pages", "schema": { "type": "integer" } });
                response["headers"] = json!({ "X-Total-Count": header });
            }
            responses.insert(status.to_string(), response);
        }
        let refused = self.schemas.content(&Content::Json(of::<Error>));
        let mut may_answer = |status: u16| {
            let refused = json!({ "description": reason(status), "content": refused });
            responses.entry(status.to_string()).or_insert(refused);
        };
        if scope.is_some() {
            for status in [401, 403, 421, 429, 503] {
                may_answer(status);
            }
        }
        if path.contains('{') || !operation.queries.is_empty() {
            may_answer(400);
        }
        if operation.body.is_some() {
            may_answer(413);
            may_answer(415);
        }
        if operation.is_of_tenant {
            may_answer(400);
            responses["400"]["content"]["text/plain; charset=utf-8"] =
                json!({ "schema": { "type": "string" } });
        }
        let mut out = json!({
            "operationId": self.id(method, path),
            "summary": operation.summary,
            "parameters": parameters(path, operation),
            "responses": responses,
        });
        out["security"] = match scope {
            None => json!([]),
            Some(scope) => json!([{}, { "token": [scope.as_str()] }]),
        };
        if let Some(body) = &operation.body {
            out["requestBody"] = json!({ "required": true, "content": self.schemas.body(body) });
        }
        out
    }

    /// The id of an operation. Two paths may differ in `/api` alone: then the second one says so.
    fn id(&mut self, method: &str, path: &str) -> String {
        let short = operation_id(method, path, false);
        let id = if self.ids.contains(&short) { operation_id(method, path, true) } else { short };
        self.ids.insert(id.clone());
        id
    }
}

/// `get /api/tests/{id}/run` becomes `getTestsIdRun`; with `api` as a word of it, `getApiTestsIdRun`.
fn operation_id(method: &str, path: &str, has_api: bool) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| has_api || *word != "api");
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    words.filter_map(capital).fold(method.to_owned(), |id, word| id + &word)
}

fn parameters(path: &str, operation: &Operation) -> Vec<Value> {
    let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": parameter(name, true) }));
    let queries = operation.queries.iter();
    let queries = queries.map(|name| {
        let schema = match operation.lists.filter(|_| *name == "sortBy") {
            Some(kind) => json!({ "enum": sorts(kind).iter().map(|(word, _)| *word).collect::<Vec<_>>() }),
            None => parameter(name, false),
        };
        json!({ "name": name, "in": "query", "schema": schema })
    });
    let tenant = operation.is_of_tenant.then(|| {
        json!({ "name": "X-Tracetest-TenantID", "in": "header", "schema": { "anyOf": [{ "type": "string", "format": "uuid" }, { "const": "" }] } })
    });
    let augmented = operation.is_augmentable.then(|| {
        json!({ "name": "X-Tracetest-Augmented", "in": "header", "schema": { "enum": ["true", "false"] } })
    });
    let expected = operation.is_conditional.then(|| {
        let about = "The versions, as of `ETag`, one of which must be the stored one; else the answer is 409";
        let schema = json!({ "type": "string", "pattern": r#"^(\*|"[0-9]{1,18}"(, "[0-9]{1,18}")*)$"# });
        json!({ "name": "If-Match", "in": "header", "description": about, "schema": schema })
    });
    in_path.chain(queries).chain(tenant).chain(augmented).chain(expected).collect()
}

/// The schema of a parameter.
fn parameter(name: &str, is_in_path: bool) -> Value {
    match name {
        "take" | "skip" | "after" => json!({ "type": "integer", "minimum": 0, "maximum": i32::MAX }),
        "number" | "version" => {
            json!({ "type": "integer", "minimum": u8::from(is_in_path), "maximum": i32::MAX })
        }
        "strict" => json!({ "type": "boolean" }),
        "sortDirection" => {
            json!({ "type": "string", "description": "`asc`; anything else means descending" })
        }
        _ if is_in_path => json!({ "type": "string", "minLength": 1 }),
        _ => json!({ "type": "string" }),
    }
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_routes_share_an_operation() {
        let described = ROUTES.iter().filter(|route| route.operation.is_some()).count();
        let document = openapi();
        let paths = document["paths"].as_object().unwrap();
        let operations: usize = paths.values().map(|methods| methods.as_object().unwrap().len()).sum();
        assert_eq!(operations, described);
    }

    /// Collects every schema that is referenced below `value`.
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
}
