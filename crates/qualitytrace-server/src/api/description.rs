//! The `OpenAPI` 3.1 description of the API, generated from one table of routes, the kinds of resources, and the
//! types that are read and written.

mod page;
mod routes;
mod schemas;

use axum::response::Html;
use qualitytrace_core::definition::Kind;
use serde_json::{Map, Value, json};

use super::NEEDS;
use super::error::Error;
use super::legacy::hosted;
use super::legacy_error::Said;
use super::resources::{collection, sorts};
use Content::{Json, Negotiated, Nothing};
use http::Method;
use routes::{ROUTES, Route};

use crate::access::Wanted;
use crate::routes as registered;
use schemas::{Body, Content, Schemas, of};

/// Serves the description.
pub(super) async fn document() -> axum::Json<Value> {
    axum::Json(openapi())
}

/// The page at the root for browsers, also used by health checks of containers.
pub(super) async fn home() -> Html<&'static str> {
    Html(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Qualitytrace</title>\
         <body style=\"font-family:sans-serif\"><h1>Qualitytrace</h1>\
         <p>The server is up. <a href=\"api/docs\">Its API</a> · <a href=\"api/tests\">its tests</a></p></html>",
    )
}

/// Serves the description as an HTML page.
pub(super) async fn page() -> Html<String> {
    Html(page::rendered(&openapi()))
}

/// Builds the `OpenAPI` document.
pub(crate) fn openapi() -> Value {
    let mut paths = Paths { schemas: Schemas::new(), found: Map::new() };
    for kind in Kind::ALL {
        paths.resource(kind);
    }
    for route in ROUTES {
        paths.add(route.method, route.path, route.summary, route);
    }
    for hosted in hosted::ROUTES {
        paths.hosted(&hosted);
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

/// A route whose path and summary depend on the kind of resource.
fn get(answers: &[(u16, Content)]) -> Route<'_> {
    routes::get("", "", answers)
}

/// The operations described so far.
struct Paths {
    schemas: Schemas,
    found: Map<String, Value>,
}

impl Paths {
    fn add(&mut self, method: &str, path: &str, summary: &str, route: &Route) {
        let operation = self.operation(path, summary, route);
        let entry = self.found.entry(path.to_owned()).or_insert_with(|| json!({}));
        entry[method] = operation;
    }

    /// Adds the routes of one kind of resource.
    fn resource(&mut self, kind: Kind) {
        let name = kind.as_str();
        let (all, one) = (format!("/api/{}", collection(kind)), format!("/api/{}/{{id}}", collection(kind)));
        let shows = Content::Resource(kind);
        let (wrong, missing) = ((400, Negotiated(of::<Error>)), (404, Nothing));
        let gone = if kind.is_singleton() { (405, Negotiated(of::<Error>)) } else { (204, Nothing) };
        let changed = Body::Resource(kind);
        let mut add = |path: &str, what: &str, route: &Route| {
            let augmented = route.method == "get" && matches!(kind, Kind::Test | Kind::TestSuite);
            self.add(route.method, path, &format!("{what} {name}"), &Route { augmented, ..*route });
        };
        let strict = &["strict"];
        add(&all, "List:", &get(&[(200, Content::Resources(kind)), wrong]).listing(kind));
        add(&all, "Create:", &get(&[(201, shows), wrong]).by("post").taking(changed).asking(strict));
        let stored = [(200, shows), (201, shows), wrong];
        add(&all, "Create or change:", &get(&stored).by("put").taking(changed).asking(strict));
        add(&one, "Read:", &get(&[(200, shows), wrong, missing]));
        let stored = [(200, shows), wrong, missing];
        add(&one, "Change:", &get(&stored).by("put").taking(changed).asking(strict));
        add(&one, "Remove:", &get(&[gone, wrong, missing]).by("delete"));
        let said = Json(of::<Said>);
        let source = [(200, Content::Source), (400, said), (404, said)];
        add(&format!("{one}/source"), "Source text:", &get(&source).asking(&["version"]));
    }

    /// Adds a route that only the original's hosted service has.
    fn hosted(&mut self, hosted: &hosted::Route) {
        let said = Json(of::<Said>);
        let answers = [(402, Json(of::<()>)), (400, said), (422, said)];
        let stub =
            routes::get(hosted.path, "Exists only in the original's hosted service", &answers).for_all();
        for method in hosted.methods {
            let route = match *method {
                Method::POST => stub.by("post").taking(Body::Json(of::<Map<String, Value>>)),
                Method::PUT => stub.by("put").taking(Body::Json(of::<Map<String, Value>>)),
                Method::DELETE => stub.by("delete"),
                _ => stub,
            };
            self.add(route.method, hosted.path, stub.summary, &route);
        }
    }

    fn operation(&mut self, path: &str, summary: &str, route: &Route) -> Value {
        let mut responses: Map<String, Value> = Map::new();
        for (status, content) in route.answers {
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
        let refused = self.schemas.content(&Json(of::<Error>));
        let mut may_answer = |status: u16| {
            let refused = json!({ "description": reason(status), "content": refused });
            responses.entry(status.to_string()).or_insert(refused);
        };
        let scope = needed(route.method, path).scope();
        if scope.is_some() {
            for status in [401, 403, 421, 429, 503] {
                may_answer(status);
            }
        }
        if path.contains('{') || !route.queries.is_empty() {
            may_answer(400);
        }
        if route.body.is_some() {
            may_answer(413);
            may_answer(415);
        }
        if route.is_of_tenant {
            may_answer(400);
            responses["400"]["content"]["text/plain; charset=utf-8"] =
                json!({ "schema": { "type": "string" } });
        }
        let mut out = json!({
            "operationId": operation_id(route.method, path),
            "summary": summary,
            "parameters": parameters(path, route),
            "responses": responses,
        });
        out["security"] = match scope {
            None => json!([]),
            Some(scope) => json!([{}, { "token": [scope.as_str()] }]),
        };
        if let Some(body) = &route.body {
            out["requestBody"] = json!({ "required": true, "content": self.schemas.body(body) });
        }
        out
    }
}

/// The access that an operation needs, as its route was registered. A fixed word may stand where the route has a
/// parameter.
fn needed(method: &str, path: &str) -> Wanted {
    let fits = |route: &&registered::Route| {
        let known = route.path.split('/').map(Some).chain(std::iter::repeat(None));
        let parts = path.split('/').count().max(route.path.split('/').count());
        let is_same = |(known, part): (Option<&str>, &str)| {
            known.is_some_and(|known| known == part || known.starts_with('{'))
        };
        parts == path.split('/').count()
            && known.zip(path.split('/')).all(is_same)
            && route.method.as_ref().is_none_or(|known| known.as_str().eq_ignore_ascii_case(method))
    };
    let exact = NEEDS.iter().filter(fits).max_by_key(|route| route.path == path);
    exact.map_or(Wanted::Change, |route| route.wanted)
}

/// `get /api/tests/{id}/run` becomes `getTestsIdRun`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| *word != "api");
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    words.filter_map(capital).fold(method.to_owned(), |id, word| id + &word)
}

fn parameters(path: &str, route: &Route) -> Vec<Value> {
    let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": parameter(name, true) }));
    let queries = route.queries.iter();
    let queries = queries.map(|name| {
        let schema = match route.lists.filter(|_| *name == "sortBy") {
            Some(kind) => json!({ "enum": sorts(kind).iter().map(|(word, _)| *word).collect::<Vec<_>>() }),
            None => parameter(name, false),
        };
        json!({ "name": name, "in": "query", "schema": schema })
    });
    let tenant = route.is_of_tenant.then(|| {
        json!({ "name": "X-Tracetest-TenantID", "in": "header", "schema": { "anyOf": [{ "type": "string", "format": "uuid" }, { "const": "" }] } })
    });
    let augmented = route.augmented.then(|| {
        json!({ "name": "X-Tracetest-Augmented", "in": "header", "schema": { "enum": ["true", "false"] } })
    });
    in_path.chain(queries).chain(tenant).chain(augmented).collect()
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
