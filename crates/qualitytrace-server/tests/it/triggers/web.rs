//! A web server that echoes requests, with or without TLS, and issues tokens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{any, get, post};
use base64::Engine as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A running server.
#[derive(Clone)]
pub(super) struct Web {
    pub(super) address: SocketAddr,
    /// The number of tokens that it issued.
    pub(super) tokens: Arc<AtomicUsize>,
    /// The number of open requests that never end.
    pub(super) hanging: Arc<AtomicUsize>,
}

impl Web {
    pub(super) async fn plain() -> Self {
        Self::serve(None).await
    }

    pub(super) async fn tls(config: Arc<ServerConfig>) -> Self {
        Self::serve(Some(config)).await
    }

    async fn serve(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let web =
            Self { address: listener.local_addr().unwrap(), tokens: Arc::default(), hanging: Arc::default() };
        let router = axum::Router::new()
            .route("/echo", any(echo))
            .route("/redirect/{left}", any(redirect))
            .route("/found", post(async || (StatusCode::FOUND, [(header::LOCATION, "/echo")])))
            .route("/to", any(async |RawQuery(url): RawQuery| Redirect::temporary(&url.unwrap_or_default())))
            .route("/hang", any(hang))
            .route("/drip", get(drip))
            .route("/huge", get(huge))
            .route("/binary", get(async || b"a\xffb".as_slice()))
            .route("/token", post(token))
            .route("/guarded", get(guarded))
            .with_state(web.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (service, tls) = (TowerToHyperService::new(router.clone()), tls.clone());
                tokio::spawn(async move {
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    match tls {
                        None => drop(server.serve_connection(TokioIo::new(stream), service).await),
                        Some(config) => {
                            let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
                            drop(server.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                });
            }
        });
        web
    }
}

/// Returns everything about the request.
async fn echo(request: Request) -> Json<Value> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let headers: Vec<String> = parts
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    Json(json!({
        "method": parts.method.as_str(),
        "version": format!("{:?}", parts.version),
        "path": parts.uri.path_and_query().map(ToString::to_string),
        "headers": headers,
        "body": String::from_utf8(body.to_vec()).ok(),
        "base64": base64::engine::general_purpose::STANDARD.encode(&body),
    }))
}

async fn redirect(Path(left): Path<u32>) -> Redirect {
    Redirect::temporary(&if left == 0 { "/echo".to_owned() } else { format!("/redirect/{}", left - 1) })
}

async fn hang(State(web): State<Web>) -> Response {
    struct Open(Arc<AtomicUsize>);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    web.hanging.fetch_add(1, Ordering::SeqCst);
    let _open = Open(web.hanging.clone());
    std::future::pending().await
}

/// A response that begins and then stops.
async fn drip() -> Body {
    let first = futures_util::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"x")) });
    Body::from_stream(futures_util::StreamExt::chain(first, futures_util::stream::pending()))
}

/// A response without end.
async fn huge() -> Body {
    let part = Bytes::from(vec![b'x'; 1 << 16]);
    Body::from_stream(futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(part.clone())))
}

/// Issues a token to the client `me` with the secret `s3cret`, in the header or in the body.
async fn token(State(web): State<Web>, headers: HeaderMap, body: String) -> Response {
    let in_header = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode("me:s3cret"));
    let known = headers.get(header::AUTHORIZATION).is_some_and(|value| value == in_header.as_str())
        || body.contains("client_id=me&client_secret=s3cret");
    assert!(!headers.contains_key("traceparent"), "fetching a token is no part of the trace");
    if !body.starts_with("grant_type=client_credentials&scope=read+write&audience=shop") {
        return (
            StatusCode::BAD_REQUEST,
            Json(json!({ "error": "invalid_request", "error_description": body })),
        )
            .into_response();
    }
    if !known {
        let refusal = json!({ "error": "invalid_client", "error_description": "who is this?" });
        return (StatusCode::UNAUTHORIZED, Json(refusal)).into_response();
    }
    let count = web.tokens.fetch_add(1, Ordering::SeqCst) + 1;
    Json(json!({ "access_token": format!("token-{count}"), "token_type": "Bearer", "expires_in": 3600 }))
        .into_response()
}

/// Accepts every token except the first.
async fn guarded(headers: HeaderMap) -> StatusCode {
    match headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) {
        Some("Bearer token-1") | None => StatusCode::UNAUTHORIZED,
        Some(_) => StatusCode::OK,
    }
}
