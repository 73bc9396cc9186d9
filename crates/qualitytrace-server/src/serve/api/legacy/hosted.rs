//! Routes of the original's hosted service: they validate the request and answer 402.

use axum::body::Bytes;
use axum::extract::RawPathParams;
use axum::response::Response;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::Content::Json;
use crate::http::routes::operation::{Body, of, operation};
use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::query::Query;
use crate::serve::api::run_error::{BAD_REQUEST, RunApiError, UNPROCESSABLE, body, integer};

/// A path, its methods, and the shape of its body.
struct Route {
    path: &'static str,
    methods: &'static [Method],
    sent: Option<&'static Shape>,
}

/// The keys that an object may have, and those that it must have.
struct Shape {
    known: &'static [&'static str],
    required: &'static [&'static str],
    /// The shape of `spec`.
    spec: Option<&'static Shape>,
}

const RUN_GROUP: Shape =
    Shape { known: &["id", "createdAt", "status", "summary", "metadata"], required: &["id"], spec: None };
const ENVIRONMENT: Shape = in_spec(&Shape {
    known: &[
        "id",
        "name",
        "description",
        "labels",
        "createdAt",
        "updatedAt",
        "isLocal",
        "userID",
        "organizationID",
        "agentApiKey",
        "resources",
    ],
    required: &[],
    spec: None,
});
const INVITE: Shape = in_spec(&Shape {
    known: &["id", "role", "to", "createdAt", "sentAt", "type", "status", "returnTo", "environments"],
    required: &["id", "role", "to"],
    spec: None,
});
const TOKEN: Shape = Shape {
    known: &["id", "name", "isRevoked", "role", "userID", "duration", "issuedAt", "expiresAt", "updatedAt"],
    required: &["id", "name", "role"],
    spec: None,
};
const MONITOR_RUN: Shape =
    Shape { known: &["metadata", "runGroupId", "runType", "variables"], required: &[], spec: None };
const ALERT: Shape = Shape { known: &["id", "type", "webhook", "events"], required: &[], spec: None };

const fn in_spec(spec: &'static Shape) -> Shape {
    Shape { known: &["type", "spec"], required: &[], spec: Some(spec) }
}

const fn route(path: &'static str, methods: &'static [Method], sent: Option<&'static Shape>) -> Route {
    Route { path, methods, sent }
}

const ROUTES: [Route; 12] = [
    route("/api/rungroups", &[Method::GET, Method::POST], Some(&RUN_GROUP)),
    route("/api/rungroups/{id}", &[Method::GET], None),
    route("/api/environments", &[Method::GET, Method::POST, Method::PUT], Some(&ENVIRONMENT)),
    route("/api/environments/{id}", &[Method::GET, Method::PUT, Method::DELETE], Some(&ENVIRONMENT)),
    route("/api/invites", &[Method::GET, Method::POST, Method::PUT], Some(&INVITE)),
    route("/api/invites/{id}", &[Method::GET, Method::PUT, Method::DELETE], Some(&INVITE)),
    route("/api/tokens", &[Method::GET, Method::POST, Method::PUT], Some(&TOKEN)),
    route("/api/tokens/{id}", &[Method::PUT, Method::DELETE], None),
    route("/api/monitors/{id}/run", &[Method::GET, Method::POST], Some(&MONITOR_RUN)),
    route("/api/monitors/{id}/run/{number}", &[Method::GET, Method::DELETE], None),
    route("/api/monitors/{id}/version/{version}", &[Method::GET], None),
    route("/api/monitors/alerts", &[Method::POST], Some(&ALERT)),
];

/// Returns these routes.
pub(in crate::serve::api) fn routes() -> Routes<App> {
    let answers = [(402, Json(of::<()>)), BAD_REQUEST, UNPROCESSABLE];
    let stub = operation("Exists only in the original's hosted service", answers).for_all();
    let described = |method: &Method| match *method {
        Method::POST | Method::PUT => stub.clone().taking(Body::Json(of::<Map<String, Value>>)),
        _ => stub.clone(),
    };
    ROUTES.iter().fold(Routes::new(), |routes, route| {
        let answer = move |method: Method, path: RawPathParams, page: Query<Page>, sent: Bytes| async move {
            checked(route, &method, &path, &page.0, &sent)?;
            Ok::<Response, RunApiError>(plain_json(StatusCode::PAYMENT_REQUIRED, &()))
        };
        route.methods.iter().fold(routes, |routes, method| {
            let wanted = if method.is_safe() { RequiredAccess::Look } else { RequiredAccess::Change };
            routes.on(method, route.path, wanted, answer, described(method))
        })
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Page {
    take: String,
    skip: String,
}

fn checked(
    route: &Route,
    method: &Method,
    path: &RawPathParams,
    page: &Page,
    sent: &[u8],
) -> Result<(), RunApiError> {
    let numbers = path.iter().filter(|(name, _)| ["number", "version"].contains(name)).map(|(_, text)| text);
    for text in numbers.chain([page.take.as_str(), page.skip.as_str()]) {
        integer(text)?;
    }
    let Some(shape) = route.sent.filter(|_| [Method::POST, Method::PUT].contains(method)) else {
        return Ok(());
    };
    let sent: Map<String, Value> = body(sent)?;
    if let Some(name) = shape.unknown(&sent) {
        return Err(RunApiError::unknown_field(name));
    }
    match shape.lacking(&sent) {
        Some(name) => Err(RunApiError::unprocessable(format!("required field '{name}' is zero value."))),
        None => Ok(()),
    }
}

impl Shape {
    /// The first unknown key.
    fn unknown<'a>(&self, sent: &'a Map<String, Value>) -> Option<&'a str> {
        sent.iter().find_map(|(name, value)| {
            if !self.known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                return Some(name.as_str());
            }
            let spec = self.spec.filter(|_| name == "spec")?;
            spec.unknown(value.as_object()?)
        })
    }

    /// The first required key that is missing.
    fn lacking(&self, sent: &Map<String, Value>) -> Option<&'static str> {
        let is_there = |name: &str| sent.get(name).is_some_and(|value| *value != "" && !value.is_null());
        let lacked = self.required.iter().copied().find(|name| !is_there(name));
        lacked.or_else(|| match sent.get("spec").and_then(Value::as_object) {
            Some(spec) => self.spec?.lacking(spec),
            None => self.spec?.lacking(&Map::new()),
        })
    }
}
