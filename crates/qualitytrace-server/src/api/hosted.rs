//! Routes of the original's hosted service: they are there, look at what they are sent, and say that they cannot be had.

use axum::Router;
use axum::body::Bytes;
use axum::extract::RawPathParams;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::App;
use super::answer::plain_json;
use super::query::Query;
use super::refusal::{Refusal, body, integer};

/// A path, what can be done with it, and which fields have to be there in what is sent.
pub(super) struct Route {
    pub(super) path: &'static str,
    pub(super) methods: &'static [Method],
    required: &'static [&'static str],
}

const fn route(path: &'static str, methods: &'static [Method], required: &'static [&'static str]) -> Route {
    Route { path, methods, required }
}

pub(super) const ROUTES: [Route; 13] = [
    route("/api/rungroups", &[Method::GET, Method::POST], &["id"]),
    route("/api/rungroups/{id}", &[Method::GET], &[]),
    route("/api/environments", &[Method::GET, Method::POST, Method::PUT], &[]),
    route("/api/environments/{id}", &[Method::GET, Method::PUT, Method::DELETE], &[]),
    route("/api/invites", &[Method::GET, Method::POST, Method::PUT], &["spec"]),
    route("/api/invites/{id}", &[Method::GET, Method::PUT, Method::DELETE], &["spec"]),
    route("/api/tokens", &[Method::GET, Method::POST, Method::PUT], &["id", "name", "role"]),
    route("/api/tokens/{id}", &[Method::PUT, Method::DELETE], &["id", "name", "role"]),
    route("/api/monitors/{id}/run", &[Method::GET, Method::POST], &[]),
    route("/api/monitors/{id}/run/{number}", &[Method::GET, Method::DELETE], &[]),
    route("/api/monitors/{id}/version/{version}", &[Method::GET], &[]),
    route("/api/monitors/alerts", &[Method::POST], &[]),
    route("/api/runs", &[Method::GET], &[]),
];

pub(super) fn routes() -> Router<App> {
    ROUTES.iter().fold(Router::new(), |router, route| {
        let answer = move |method: Method, path: RawPathParams, page: Query<Page>, sent: Bytes| async move {
            checked(route, &method, &path, &page.0, &sent)?;
            Ok::<Response, Refusal>(plain_json(StatusCode::PAYMENT_REQUIRED, &()))
        };
        let methods = route.methods.iter().filter_map(|method| MethodFilter::try_from(method.clone()).ok());
        match methods.reduce(MethodFilter::or) {
            Some(methods) => router.route(route.path, on(methods, answer)),
            None => router,
        }
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
) -> Result<(), Refusal> {
    let numbers = path.iter().filter(|(name, _)| ["number", "version"].contains(name)).map(|(_, text)| text);
    for text in numbers.chain([page.take.as_str(), page.skip.as_str()]) {
        integer(text)?;
    }
    if ![Method::POST, Method::PUT].contains(method) {
        return Ok(());
    }
    let sent: Map<String, Value> = body(sent)?;
    let is_there = |name: &&&str| sent.get(**name).is_some_and(|value| *value != "" && !value.is_null());
    match route.required.iter().find(|name| !is_there(name)) {
        Some(name) => Err(Refusal::unprocessable(format!("required field '{name}' is zero value."))),
        None => Ok(()),
    }
}
