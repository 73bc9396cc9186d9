//! Sessions of pages: the token of a browser, in a cookie that no script can read.
//!
//! Nothing is kept of a session: the cookie is the token, and ends with it.

use axum::Json;
use axum::extract::{FromRequest as _, OriginalUri, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{ORIGIN, SET_COOKIE};
use http::{HeaderMap, StatusCode, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::error::{BAD_REQUEST, UNAUTHORIZED};
use super::json_body::JsonBody;
use crate::base::request::ConnectInfo;
use crate::http::access::RequiredAccess::Session;
use crate::http::access::{COOKIE, token};
use crate::http::routes::Routes;
use crate::http::routes::operation::Content::{Json as JsonOf, Nothing};
use crate::http::routes::operation::{Body, of, operation};

/// What a page needs to know about its access.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Session")]
struct SessionAccess {
    /// Whether this server asks for a token.
    required: bool,
    /// The scope that the client holds: `full`, `read` or `ingest`; null without a valid token.
    scope: Option<&'static str>,
}

/// A token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSession")]
struct Login {
    token: String,
}

/// Routes of sessions. They need no token, but a page of ours.
pub(super) fn routes() -> Routes<App> {
    let path = "/api/session";
    Routes::new()
        .get(
            path,
            Session,
            held,
            operation(
                "Whether a token is required, and which scope is held",
                [(200, JsonOf(of::<SessionAccess>))],
            )
            .for_all(),
        )
        .post(
            path,
            Session,
            begin,
            operation("Keep a token in the cookie of a page", [(204, Nothing), BAD_REQUEST, UNAUTHORIZED])
                .taking(Body::Json(of::<Login>))
                .for_all(),
        )
        .delete(path, Session, end, operation("Drop the cookie", [(204, Nothing)]).for_all())
}

/// Tells the scope of a token. Wrong ones count as anywhere else: who guesses is logged, and soon told to wait.
async fn held(State(app): State<App>, request: Request) -> Response {
    let headers = request.headers();
    let peer = request.extensions().get::<ConnectInfo>().map(|info| info.peer);
    let sent = token(headers);
    if let Some(refused) = sent.as_deref().and_then(|token| app.guard.throttles(token, headers, peer)) {
        return refused;
    }
    let access = &app.config.get().safety.access;
    let scope = access.scope_of(sent.as_deref()).map(crate::http::access::Scope::as_str);
    Json(SessionAccess { required: !access.tokens.is_empty(), scope }).into_response()
}

async fn begin(State(app): State<App>, OriginalUri(asked): OriginalUri, request: Request) -> Response {
    let headers = request.headers().clone();
    let peer = request.extensions().get::<ConnectInfo>().map(|info| info.peer);
    let Login { token } = match JsonBody::from_request(request, &app).await {
        Ok(JsonBody(login)) => login,
        Err(error) => return error.into_response(),
    };
    if let Some(refused) = app.guard.refuses(&token, &headers, peer) {
        return refused;
    }
    if app.config.get().safety.access.tokens.is_empty() {
        return StatusCode::NO_CONTENT.into_response();
    }
    let value = utf8_percent_encode(&token, NON_ALPHANUMERIC).to_string();
    cookie(&app, &asked, &headers, &value, "")
}

async fn end(State(app): State<App>, OriginalUri(asked): OriginalUri, headers: HeaderMap) -> Response {
    cookie(&app, &asked, &headers, "", "; Max-Age=0")
}

/// A response that sets the cookie: for the prefix below which the page is served, or for the root if it was asked for
/// there. It is sent over TLS only, if the page came over TLS.
fn cookie(app: &App, asked: &Uri, headers: &HeaderMap, value: &str, more: &str) -> Response {
    let config = app.config.get();
    let is_https = |origin: &http::HeaderValue| origin.as_bytes().starts_with(b"https:");
    let is_secure = config.safety.tls.is_some() || headers.get(ORIGIN).is_some_and(is_https);
    let secure = if is_secure { "; Secure" } else { "" };
    let below = asked.path().strip_prefix(config.path_prefix.as_str()).filter(|rest| rest.starts_with('/'));
    let path = if below.is_some() { format!("{}/", config.path_prefix) } else { "/".to_owned() };
    let text = format!("{COOKIE}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}{more}");
    (StatusCode::NO_CONTENT, [(SET_COOKIE, text)]).into_response()
}
