//! HTTP of the shop's services: a traced server, a traced client, errors as JSON.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use opentelemetry::propagation::{Extractor, Injector};
use opentelemetry::trace::SpanKind;
use opentelemetry::{Context, KeyValue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;

use super::Stop;
use super::instrument::Telemetry;

/// Timeout of a call to another service.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Binds a free port on the loopback interface.
pub(super) async fn bind() -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener =
        TcpListener::bind("127.0.0.1:0").await.context("failed to bind a loopback port for the shop")?;
    let address = listener.local_addr().context("failed to read the bound address")?;
    Ok((listener, address))
}

/// Serves until told to stop, then shuts down gracefully.
pub(super) async fn serve(listener: TcpListener, router: Router, mut stop: Stop) -> anyhow::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(async move { stop.wait().await })
        .await
        .context("a shop service stopped serving")
}

/// Middleware that makes the server span of a request and passes its context on as an extension.
pub(super) async fn trace(
    State(telemetry): State<Arc<Telemetry>>,
    route: MatchedPath,
    mut request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let parent = telemetry.extract(&Headers(request.headers()));
    let mut attributes = vec![
        KeyValue::new("http.request.method", method.to_string()),
        KeyValue::new("http.route", route.as_str().to_owned()),
        KeyValue::new("url.scheme", "http"),
        KeyValue::new("url.path", request.uri().path().to_owned()),
        KeyValue::new("network.protocol.version", "1.1"),
    ];
    attributes.extend(header(request.headers(), "host").and_then(address_of).into_iter().flatten());
    attributes.extend(
        header(request.headers(), "user-agent")
            .map(|agent| KeyValue::new("user_agent.original", agent.to_owned())),
    );
    let name = format!("{method} {}", route.as_str());
    let span = telemetry.start(&parent, SpanKind::Server, name, attributes);
    request.extensions_mut().insert(span.context().clone());
    let response = next.run(request).await;
    let status = response.status();
    span.set("http.response.status_code", i64::from(status.as_u16()));
    // The conventions leave the status of 4xx responses unset: they are the client's mistake.
    if status.is_server_error() {
        span.mark_failed(status.as_str().to_owned(), "");
    }
    response
}

/// A client of one other service.
#[derive(Debug, Clone)]
pub(super) struct Client {
    telemetry: Arc<Telemetry>,
    inner: reqwest::Client,
    address: SocketAddr,
}

/// A call: the path of the request, and the template that names the span.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) template: &'static str,
    pub(super) path: &'a str,
}

impl Client {
    pub(super) fn new(telemetry: Arc<Telemetry>, address: SocketAddr) -> anyhow::Result<Self> {
        let inner = reqwest::Client::builder()
            .no_proxy()
            .timeout(CALL_TIMEOUT)
            .user_agent(concat!("shop/", env!("CARGO_PKG_VERSION")))
            .build()
            .context("failed to set up an HTTP client of the shop")?;
        Ok(Self { telemetry, inner, address })
    }

    /// Calls the other service and reads its JSON response; 400 and above is an error.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        context: &Context,
        call: Call<'_>,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<T, ShopError> {
        let url = format!("http://{}{}", self.address, call.path);
        let span = self.telemetry.start(
            context,
            SpanKind::Client,
            format!("{} {}", call.method, call.template),
            vec![
                KeyValue::new("http.request.method", call.method.to_string()),
                KeyValue::new("url.full", url.clone()),
                KeyValue::new("url.template", call.template),
                KeyValue::new("server.address", self.address.ip().to_string()),
                KeyValue::new("server.port", i64::from(self.address.port())),
            ],
        );
        let mut headers = HeaderMap::new();
        self.telemetry.inject(span.context(), &mut HeadersMut(&mut headers));
        let mut request = self.inner.request(call.method, url).headers(headers);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .inspect_err(|error| span.fail("reqwest::Error", error))
            .map_err(|error| ShopError::unreachable(&error))?;
        let status = response.status();
        span.set("http.response.status_code", i64::from(status.as_u16()));
        if status.is_client_error() || status.is_server_error() {
            span.mark_failed(status.as_str().to_owned(), "");
            let text = response.text().await.unwrap_or_default();
            return Err(ShopError::answered(status, &text));
        }
        response
            .json()
            .await
            .inspect_err(|error| span.fail("reqwest::Error", error))
            .map_err(|error| ShopError::unreachable(&error))
    }
}

/// An error response.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct ShopError {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl ShopError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    fn unreachable(error: &reqwest::Error) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, error.to_string())
    }

    fn answered(status: StatusCode, text: &str) -> Self {
        let message = serde_json::from_str::<serde_json::Value>(text)
            .ok()
            .and_then(|body| body["error"].as_str().map(str::to_owned));
        Self::new(status, message.unwrap_or_else(|| format!("the other service answered {status}")))
    }
}

impl From<sqlx::Error> for ShopError {
    fn from(error: sqlx::Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        (self.status, Json(serde_json::json!({ "error": self.message }))).into_response()
    }
}

/// Extracts trace context from HTTP headers.
pub(super) struct Headers<'a>(pub(super) &'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        header(self.0, key)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// Injects trace context into HTTP headers.
pub(super) struct HeadersMut<'a>(pub(super) &'a mut HeaderMap);

impl Injector for HeadersMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        // An invalid header value is left out: propagation must never break a call.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Splits the `Host` header of a request.
fn address_of(host: &str) -> Option<[KeyValue; 2]> {
    let (address, port) = host.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    Some([KeyValue::new("server.address", address.to_owned()), KeyValue::new("server.port", i64::from(port))])
}
