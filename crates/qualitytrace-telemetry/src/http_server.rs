//! HTTP server instrumentation: a server span per request, as the caller's child, and its duration. The names are those
//! of the OpenTelemetry conventions.
//!
//! [`HttpLayer`] does all of it for any server made of `tower` services. A server that records more about a request
//! makes the span itself, and uses [`HttpServer`] for the rest.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{
    Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri, Version,
    header::{HOST, USER_AGENT},
    uri::{Authority, Scheme},
};
use opentelemetry::{KeyValue, metrics::UpDownCounter};
use tower::{Layer, Service};
use tracing::{Instrument as _, Span, field::Empty};

use crate::{Histogram, SpanExt as _, Telemetry, redact};

/// The conventions' name for an unknown method: clients may invent any number of them.
const OTHER_METHOD: &str = "_OTHER";

/// Bucket boundaries that the conventions advise for the duration of requests, in seconds.
const BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// Attributes of a request that are known before the response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The method; `_OTHER` if the conventions do not know it.
    pub method: &'static str,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The template of the matched route; `None` when none matches.
    pub route: Option<String>,
    /// The host that the client addressed; an IPv6 address has no brackets.
    pub server_address: Option<String>,
    /// The port that the client addressed.
    pub server_port: Option<u16>,
    /// The version of HTTP.
    pub version: &'static str,
}

impl Facts {
    /// Reads the attributes of a request. Its scheme is the [`Scheme`] among its extensions, if the server put one
    /// there, else that of its URI. `uri` is the one that the client sent, before routers changed it.
    pub fn new<B>(request: &Request<B>, uri: &Uri, route: Option<String>) -> Self {
        let scheme = request.extensions().get::<Scheme>().or(uri.scheme());
        let scheme = if scheme == Some(&Scheme::HTTPS) { "https" } else { "http" };
        let named = || request.headers().get(HOST)?.to_str().ok()?.parse().ok();
        let server: Option<Authority> = uri.authority().cloned().or_else(named);
        Self {
            method: known(request.method()),
            scheme,
            route,
            server_address: server.as_ref().map(|server| host(server).to_owned()),
            server_port: server.as_ref().map(|server| port(server, scheme)),
            version: version(request.version()),
        }
    }

    /// The name of the span: the method and the route.
    pub fn span_name(&self) -> String {
        let method = if self.method == OTHER_METHOD { "HTTP" } else { self.method };
        self.route.as_ref().map_or_else(|| method.to_owned(), |route| format!("{method} {route}"))
    }
}

/// Records the requests to a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HttpServer {
    telemetry: Telemetry,
    duration: Histogram,
    active: UpDownCounter<i64>,
}

impl HttpServer {
    /// Records into this telemetry, with a meter of this name.
    pub fn new(telemetry: &Telemetry, meter: &'static str) -> Self {
        let name = "http.server.request.duration";
        let duration = telemetry.histogram(meter, name, "s", "Duration of HTTP server requests.", BOUNDS);
        let active = telemetry
            .meter(meter)
            .i64_up_down_counter("http.server.active_requests")
            .with_unit("{request}")
            .with_description("Number of active HTTP server requests.")
            .build();
        Self { telemetry: telemetry.clone(), duration, active }
    }

    /// Begins a request in this span, which becomes the caller's child. The span needs the fields
    /// `http.response.status_code`, `error.type` and `otel.status_code`.
    pub fn begin(&self, facts: Facts, headers: &HeaderMap, span: Span) -> Exchange {
        if let Some(caller) = self.telemetry.propagators().extract(headers) {
            span.continue_from(&caller);
        }
        let active = Active::begin(&self.active, &facts);
        Exchange { facts, span, began: Instant::now(), duration: self.duration.clone(), _active: active }
    }

    /// Records the duration of a request that was refused before it began; it has no span.
    pub fn refused(&self, facts: &Facts, status: StatusCode, took: Duration) {
        let error = status.is_server_error().then(|| status.as_str());
        self.duration.record(took.as_secs_f64(), &labels(facts, Some(status), error));
    }
}

/// A request in progress.
#[derive(Debug)]
#[must_use = "a request that is not ended is not counted"]
pub struct Exchange {
    facts: Facts,
    span: Span,
    began: Instant,
    duration: Histogram,
    _active: Active,
}

/// Counts a request as active until this is dropped, also when its client disconnects.
#[derive(Debug)]
struct Active {
    counter: UpDownCounter<i64>,
    labels: [KeyValue; 2],
}

impl Active {
    fn begin(counter: &UpDownCounter<i64>, facts: &Facts) -> Self {
        let labels =
            [KeyValue::new("http.request.method", facts.method), KeyValue::new("url.scheme", facts.scheme)];
        counter.add(1, &labels);
        Self { counter: counter.clone(), labels }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.counter.add(-1, &self.labels);
    }
}

impl Exchange {
    /// The span of the request.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Ends the request with a response.
    pub fn end(self, status: StatusCode) {
        self.span.record("http.response.status_code", status.as_u16());
        let error = status.is_server_error().then(|| status.as_str());
        self.finish(Some(status), error);
    }

    /// Ends the request without a response; `error_type` has few values.
    pub fn fail(self, error_type: &str) {
        self.finish(None, Some(error_type));
    }

    fn finish(self, status: Option<StatusCode>, error: Option<&str>) {
        if let Some(error) = error {
            self.span.record("error.type", error);
            self.span.record("otel.status_code", "ERROR");
        }
        let labels = labels(&self.facts, status, error);
        let took = self.began.elapsed().as_secs_f64();
        self.span.in_scope(|| self.duration.record(took, &labels));
    }
}

/// The metric attributes of a request. Each has a bounded number of values, whatever clients send.
fn labels(facts: &Facts, status: Option<StatusCode>, error: Option<&str>) -> Vec<KeyValue> {
    let mut labels = vec![
        KeyValue::new("http.request.method", facts.method),
        KeyValue::new("url.scheme", facts.scheme),
        KeyValue::new("network.protocol.version", facts.version),
    ];
    labels
        .extend(status.map(|status| KeyValue::new("http.response.status_code", i64::from(status.as_u16()))));
    labels.extend(facts.route.clone().map(|route| KeyValue::new("http.route", route)));
    labels.extend(error.map(|error| KeyValue::new("error.type", error.to_owned())));
    labels
}

/// Returns the route of a request from the extensions that a router set.
type Route = dyn Fn(&Extensions) -> Option<String> + Send + Sync;

impl Telemetry {
    /// A layer that records the requests to an HTTP server made of `tower` services.
    pub fn http_layer(&self) -> HttpLayer {
        HttpLayer::new(HttpServer::new(self, "http.server"))
    }
}

/// A `tower` layer that records every request; made by [`Telemetry::http_layer`].
#[derive(Clone)]
pub struct HttpLayer {
    server: HttpServer,
    route: Arc<Route>,
}

impl fmt::Debug for HttpLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpLayer")
    }
}

impl HttpLayer {
    pub(crate) fn new(server: HttpServer) -> Self {
        Self { server, route: Arc::new(|_| None) }
    }

    /// Names requests by their route, which a router left among the extensions. With axum:
    /// `|extensions| extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned())`.
    #[must_use]
    pub fn with_route(
        mut self,
        route: impl Fn(&Extensions) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.route = Arc::new(route);
        self
    }
}

impl<S> Layer<S> for HttpLayer {
    type Service = HttpService<S>;

    fn layer(&self, inner: S) -> HttpService<S> {
        HttpService { inner, layer: self.clone() }
    }
}

/// A service whose requests are recorded.
#[derive(Debug, Clone)]
pub struct HttpService<S> {
    inner: S,
    layer: HttpLayer,
}

impl<S, B, A> Service<Request<B>> for HttpService<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let route = (self.layer.route)(request.extensions());
        let facts = Facts::new(&request, request.uri(), route);
        let span = span(&facts, &request);
        let exchange = self.layer.server.begin(facts, request.headers(), span);
        let answer =
            exchange.span().in_scope(|| self.inner.call(request)).instrument(exchange.span().clone());
        Box::pin(async move {
            let answer = answer.await;
            match &answer {
                Ok(response) => exchange.end(response.status()),
                Err(_) => exchange.fail(std::any::type_name::<S::Error>()),
            }
            answer
        })
    }
}

fn span<B>(facts: &Facts, request: &Request<B>) -> Span {
    let (uri, original) = (request.uri(), request.method().as_str());
    let target = uri.path_and_query().map_or("", |target| target.as_str());
    let target = redact::query(target, redact::is_secret);
    tracing::info_span!(
        "request",
        otel.name = facts.span_name(),
        otel.kind = "server",
        http.request.method = facts.method,
        http.request.method_original = (original != facts.method).then_some(original),
        http.route = facts.route,
        url.scheme = facts.scheme,
        url.path = uri.path(),
        url.query = target.split_once('?').map(|(_, query)| query),
        server.address = facts.server_address,
        server.port = facts.server_port,
        network.protocol.version = facts.version,
        user_agent.original = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()),
        http.response.status_code = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// The method, or `_OTHER` if the conventions do not know it.
fn known(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or(OTHER_METHOD)
}

fn host(server: &Authority) -> &str {
    let host = server.host();
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

fn port(server: &Authority, scheme: &str) -> u16 {
    server.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 })
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "0.9",
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
        _ => "1.1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_one_of_few() {
        for (method, shown) in [("GET", "GET"), ("PATCH", "PATCH"), ("get", "_OTHER"), ("M2100", "_OTHER")] {
            assert_eq!(method.parse().ok().as_ref().map(known), Some(shown));
        }
    }

    #[test]
    fn a_server_is_named_as_its_client_names_it() {
        for (uri, named, expected) in [
            ("/a", Some("tests.example:11633"), ("http", Some("tests.example"), Some(11633))),
            ("https://tests.example/a", None, ("https", Some("tests.example"), Some(443))),
            ("/a", Some("[::1]"), ("http", Some("::1"), Some(80))),
            ("/a", None, ("http", None, None)),
        ] {
            let mut request = Request::builder().uri(uri);
            if let Some(named) = named {
                request = request.header(HOST, named);
            }
            let Ok(request) = request.body(()) else { panic!("{uri}") };
            let facts = Facts::new(&request, request.uri(), None);
            let address = facts.server_address.as_deref();
            assert_eq!((facts.scheme, address, facts.server_port), expected, "{uri} {named:?}");
        }
    }
}
