//! What happens to every request before anything else: it gets an id, its token is looked at, its body is received, and if
//! it changes something it is seen through.

use axum::body::{Body, HttpBody as _};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::answer::Problem;
use crate::access::{Refused, Wanted};
use crate::body::discard;
use crate::config::Live;
use crate::watch::REQUEST_ID;

/// A longer name of a request is not taken over.
const LONGEST_ID: usize = 128;
/// How much is received of somebody who is not let in.
const STRANGERS_BYTES: u64 = 1 << 20;
/// Paths that are open to everybody.
pub(super) const HEALTH: [&str; 3] = ["/healthz", "/api/healthz", "/readyz"];
/// What OTLP is delivered to.
const OTLP: [&str; 4] = ["/v1/traces", "/v1/metrics", "/v1/logs", "/opentelemetry.proto.collector."];
/// Ends of paths that change nothing although their method says so.
const LOOKS: [&str; 3] = ["/expressions/resolve", "/search-spans", "/dry-run"];

/// Gives every request an id: its own if it has one, else one made up. The answer carries it.
pub(crate) async fn name(mut request: Request, next: Next) -> Response {
    let given = request.headers().get(&REQUEST_ID).filter(|id| is_id(id)).cloned();
    let id = given.unwrap_or_else(|| {
        let id = format!("{:032x}", rand::random::<u128>());
        HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static("unnamed"))
    });
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// What may stand in a log line without misleading its reader.
fn is_id(id: &HeaderValue) -> bool {
    (1..=LONGEST_ID).contains(&id.len())
        && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte))
}

/// Refuses whoever may not have what is wanted.
pub(crate) async fn check(State(config): State<Live>, request: Request, next: Next) -> Response {
    let wanted = wanted(request.method(), request.uri().path());
    match config.get().safety.access.check(wanted, token(request.headers())) {
        Ok(()) => next.run(request).await,
        Err(refused) => {
            let (parts, body) = request.into_parts();
            discard(body, STRANGERS_BYTES).await;
            refusal(&parts.headers, refused)
        }
    }
}

/// Receives the body, no larger than the configuration of the moment allows: half of a request is no request.
pub(crate) async fn receive(State(config): State<Live>, request: Request, next: Next) -> Response {
    let limit = config.get().limits.body_bytes;
    let (parts, body) = request.into_parts();
    if body.size_hint().lower() > limit {
        discard(body, limit).await;
        return too_large(limit);
    }
    let room = usize::try_from(limit).unwrap_or(usize::MAX);
    match Limited::new(body, room).collect().await {
        Ok(body) => {
            let mut request = Request::from_parts(parts, Body::from(body.to_bytes()));
            DefaultBodyLimit::max(room).apply(&mut request);
            next.run(request).await
        }
        Err(error) if error.is::<LengthLimitError>() => too_large(limit),
        Err(error) => {
            let message = format!("the body of the request ends too early: {error}");
            Problem { status: StatusCode::BAD_REQUEST, message }.into_response()
        }
    }
}

fn too_large(limit: u64) -> Response {
    let message =
        format!("the body is larger than {limit} bytes (limits.bodyBytes); send less, or raise the limit");
    Problem { status: StatusCode::PAYLOAD_TOO_LARGE, message }.into_response()
}

/// Carries out what changes something even if its client goes away meanwhile: half of a change is no change.
pub(crate) async fn see_through(request: Request, next: Next) -> Response {
    if wanted(request.method(), request.uri().path()) != Wanted::Change {
        return next.run(request).await;
    }
    tokio::spawn(next.run(request)).await.unwrap_or_else(|_| {
        let message = "the request was broken off; the log of the server says why".to_owned();
        Problem { status: StatusCode::INTERNAL_SERVER_ERROR, message }.into_response()
    })
}

fn wanted(method: &Method, path: &str) -> Wanted {
    if HEALTH.contains(&path) {
        return Wanted::Health;
    }
    if OTLP.iter().any(|start| path.starts_with(start)) {
        // Browsers ask without a token whether they may ask with one.
        return if method == Method::OPTIONS { Wanted::Health } else { Wanted::Deliver };
    }
    let looks = method.is_safe() || LOOKS.iter().any(|end| path.ends_with(end));
    if looks { Wanted::Look } else { Wanted::Change }
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn refusal(headers: &HeaderMap, refused: Refused) -> Response {
    let message = refused.message();
    let (status, grpc, error) = match refused {
        Refused::NoToken => (StatusCode::UNAUTHORIZED, "16", ""),
        Refused::Unknown => (StatusCode::UNAUTHORIZED, "16", ", error=\"invalid_token\""),
        Refused::Scope(_) => (StatusCode::FORBIDDEN, "7", ", error=\"insufficient_scope\""),
    };
    let is_grpc =
        headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        let headers =
            [("content-type", "application/grpc"), ("grpc-status", grpc), ("grpc-message", &message)];
        return headers.into_response();
    }
    let mut response = Problem { status, message }.into_response();
    let challenge = format!("Bearer realm=\"qualitytrace\"{error}");
    if let Ok(challenge) = HeaderValue::from_str(&challenge) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_follows_from_method_and_path() {
        for (method, path, expected) in [
            (Method::GET, "/readyz", Wanted::Health),
            (Method::GET, "/api/tests", Wanted::Look),
            (Method::POST, "/api/tests", Wanted::Change),
            (Method::POST, "/api/expressions/resolve", Wanted::Look),
            (Method::PUT, "/api/tests/a/run/1/dry-run", Wanted::Look),
            (Method::POST, "/v1/traces", Wanted::Deliver),
            (Method::OPTIONS, "/v1/traces", Wanted::Health),
            (Method::GET, "/metrics", Wanted::Look),
            (Method::GET, "/ws", Wanted::Look),
        ] {
            assert_eq!(wanted(&method, path), expected, "{method} {path}");
        }
    }
}
