//! Middleware of every request: assigns a request id, checks origin, token and content type, and runs changes to
//! completion.

mod origin;

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::error::ApiError;
use super::negotiation::Media;
use crate::base::body::discard;
use crate::base::compute;
use crate::base::request::{ConnectInfo, REQUEST_ID};
use crate::config::Live;
use crate::http::access::throttle::Throttle;
use crate::http::access::{AccessError, Fingerprint, RequiredAccess, bearer, token};
use crate::http::routes::Needed;
use origin::OriginError;

/// A longer request id is not adopted.
const LONGEST_ID: usize = 128;
/// How many bytes of the body are received from a refused client.
const STRANGERS_BYTES: u64 = 1 << 20;

/// The state of the middleware. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    config: Live,
    throttle: Arc<Throttle>,
}

impl Guard {
    /// Guards a server with this configuration.
    pub(crate) fn new(config: Live) -> Self {
        Self { config, throttle: Arc::default() }
    }

    /// Checks a token that a client sends in a body, like one in a header. Returns the response to a wrong one.
    pub(super) fn refuses(&self, token: &str, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<Response> {
        self.check(token, peer).err().map(|refused| refusal(headers, refused))
    }

    /// Counts and logs a wrong token where none is needed. Returns the response to a client that has sent too many.
    pub(super) fn throttles(
        &self,
        token: &str,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Option<Response> {
        match self.check(token, peer) {
            Err(refused @ AccessError::Throttled(_)) => Some(refusal(headers, refused)),
            Ok(()) | Err(AccessError::NoToken | AccessError::Unknown | AccessError::Scope(_)) => None,
        }
    }

    fn check(&self, token: &str, peer: Option<IpAddr>) -> Result<(), AccessError> {
        let access = &self.config.get().safety.access;
        self.throttle.check(access, RequiredAccess::Look, Some(&Fingerprint::of(token)), peer)
    }
}

/// What a client was admitted for, and by which token: open streams and sockets recheck it.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    config: Live,
    wanted: RequiredAccess,
    token: Option<Fingerprint>,
}

impl Grant {
    /// Waits until the client would no longer be admitted.
    pub(super) async fn withdrawn(self) {
        let Self { config, wanted, token } = &self;
        let is_refused =
            |access: &crate::http::access::Access| access.check_fingerprint(*wanted, token.as_ref()).is_err();
        config.wait_for(|config| is_refused(&config.safety.access)).await;
    }
}

/// Gives every request an id: its own if valid, else a random one. The response carries it.
pub(crate) async fn assign_request_id(mut request: Request, next: Next) -> Response {
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

/// Whether a request id is safe to write to a log line.
fn is_id(id: &HeaderValue) -> bool {
    (1..=LONGEST_ID).contains(&id.len())
        && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte))
}

/// Refuses requests from pages of other origins, and requests for a host name that is not ours. Tells browsers to keep
/// responses from such pages, too: a browser does not always say where a request comes from.
pub(crate) async fn check_origin(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let local = parts.extensions.get::<ConnectInfo>().and_then(|info| info.local);
    let checked = origin::check(&parts, needed(&parts.extensions).wanted, &guard.config.get(), local);
    let mut response = match checked {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(misdirected) => {
            discard(body, STRANGERS_BYTES).await;
            let status = match misdirected {
                OriginError::Origin => StatusCode::FORBIDDEN,
                OriginError::Host => StatusCode::MISDIRECTED_REQUEST,
            };
            ApiError { status, message: misdirected.message().to_owned() }.into_response()
        }
    };
    for (name, value) in origin::KEPT_FROM_OTHERS {
        // A page may have a policy of its own.
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Refuses clients without the required access. A stream ends when its token is withdrawn.
pub(crate) async fn authenticate(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let wanted = needed(request.extensions()).wanted;
    // A page of another origin may deliver spans, but not with the cookie of a page of ours.
    let token = match wanted {
        RequiredAccess::Deliver => bearer(request.headers()).map(Fingerprint::of),
        RequiredAccess::Health
        | RequiredAccess::Look
        | RequiredAccess::Stream
        | RequiredAccess::Change
        | RequiredAccess::Session => token(request.headers()).map(|token| Fingerprint::of(&token)),
    };
    let peer = request.extensions().get::<ConnectInfo>().map(|info| info.peer);
    let checked = guard.throttle.check(&guard.config.get().safety.access, wanted, token.as_ref(), peer);
    if let Err(refused) = checked {
        let (parts, body) = request.into_parts();
        discard(body, STRANGERS_BYTES).await;
        return refusal(&parts.headers, refused);
    }
    if wanted != RequiredAccess::Stream {
        return next.run(request).await;
    }
    let grant = Grant { config: guard.config, wanted, token };
    request.extensions_mut().insert(grant.clone());
    let response = next.run(request).await;
    // A socket has left HTTP by then, and rechecks by itself.
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(grant.withdrawn()))))
}

/// The access that the request needs. A request that bypassed the routes is treated as a change.
fn needed(extensions: &http::Extensions) -> Needed {
    let unknown = Needed { wanted: RequiredAccess::Change, is_registered: false, measures_body: false };
    extensions.get().copied().unwrap_or(unknown)
}

/// Refuses bodies that are neither JSON nor YAML, and those with a content encoding.
pub(crate) async fn check_content_type(request: Request, next: Next) -> Response {
    let reads_body = needed(request.extensions()).is_registered && !request.method().is_safe();
    if reads_body && !request.body().is_end_stream() {
        let refused = encoded(request.headers()).or_else(|| (!is_text(request.headers())).then(not_text));
        if let Some(refused) = refused {
            discard(request.into_body(), STRANGERS_BYTES).await;
            return refused;
        }
    }
    next.run(request).await
}

/// The response to an encoded body.
fn encoded(headers: &HeaderMap) -> Option<Response> {
    let is_plain = |coding: &HeaderValue| {
        coding.is_empty() || coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity")
    };
    if headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return None;
    }
    let message = "the body has a Content-Encoding, which is not read here; send it as it is".to_owned();
    let problem = ApiError { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, message };
    let mut response = problem.into_response();
    response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Some(response)
}

/// Whether a body is JSON or YAML. A program may omit the content type; a browser omits it where a page of another
/// origin sends a request without a preflight.
fn is_text(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter().filter(|kind| !kind.is_empty()).peekable();
    if types.peek().is_none() {
        return !headers.contains_key(ORIGIN);
    }
    types.all(|kind| kind.to_str().is_ok_and(|kind| Media::of_content_type(kind).is_some()))
}

fn not_text() -> Response {
    let message =
        "the body is neither JSON nor YAML by its Content-Type; send `application/json` or `text/yaml`";
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    ApiError { status, message: message.to_owned() }.into_response()
}

/// Hands a request to the thread pool for requests. A change runs to completion even if its client disconnects:
/// half of a change is no change. Everything else ends with its client.
pub(crate) async fn run_to_completion(request: Request, next: Next) -> Response {
    let answered = match needed(request.extensions()).wanted {
        // Health checks do not wait for other requests.
        RequiredAccess::Health => return next.run(request).await,
        RequiredAccess::Change => compute::run_to_completion(next.run(request)).await,
        _ => compute::run(next.run(request)).await,
    };
    answered.unwrap_or_else(|_| {
        let message = "the request was broken off; the log of the server says why".to_owned();
        ApiError { status: StatusCode::INTERNAL_SERVER_ERROR, message }.into_response()
    })
}

/// Whether a request is a change.
pub(super) fn is_change(request: &Request) -> bool {
    needed(request.extensions()).wanted == RequiredAccess::Change
}

fn refusal(headers: &HeaderMap, refused: AccessError) -> Response {
    let message = refused.message();
    let (status, grpc, error) = match refused {
        AccessError::NoToken => (StatusCode::UNAUTHORIZED, "16", ""),
        AccessError::Unknown => (StatusCode::UNAUTHORIZED, "16", ", error=\"invalid_token\""),
        AccessError::Throttled(_) => (StatusCode::TOO_MANY_REQUESTS, "8", ", error=\"invalid_token\""),
        AccessError::Scope(_) => (StatusCode::FORBIDDEN, "7", ", error=\"insufficient_scope\""),
    };
    let is_grpc =
        headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        let headers =
            [("content-type", "application/grpc"), ("grpc-status", grpc), ("grpc-message", &message)];
        return headers.into_response();
    }
    let mut response = ApiError { status, message }.into_response();
    let challenge = format!("Bearer realm=\"qualitytrace\"{error}");
    if let Ok(challenge) = HeaderValue::from_str(&challenge) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    if let AccessError::Throttled(seconds) = refused {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
