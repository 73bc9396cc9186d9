//! Routes of the original's hosted service: they are there, and say that they cannot be had.

use axum::Router;
use axum::response::Response;
use axum::routing::any;
use http::StatusCode;

use super::App;
use super::answer::plain_json;

pub(super) const ROUTES: [&str; 16] = [
    "/api/rungroups",
    "/api/rungroups/{*rest}",
    "/api/environments",
    "/api/environments/{*rest}",
    "/api/environmenttokens",
    "/api/environmenttokens/{*rest}",
    "/api/organizations",
    "/api/organizations/{*rest}",
    "/api/invites",
    "/api/invites/{*rest}",
    "/api/tokens",
    "/api/tokens/{*rest}",
    "/api/monitors/{id}/run",
    "/api/monitors/{id}/run/{*rest}",
    "/api/monitors/{id}/version/{version}",
    "/api/monitors/alerts",
];

pub(super) fn routes() -> Router<App> {
    ROUTES.iter().fold(Router::new(), |router, path| router.route(path, any(payment_required)))
}

async fn payment_required() -> Response {
    plain_json(StatusCode::PAYMENT_REQUIRED, &())
}
