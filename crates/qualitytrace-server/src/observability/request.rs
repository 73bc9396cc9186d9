//! Requests to the API: one server span each, as a child of the caller's span.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, OriginalUri, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use http::header::USER_AGENT;
use http::uri::PathAndQuery;
use qualitytrace_telemetry::http_server::Facts;
use qualitytrace_telemetry::redact;
use tracing::Instrument;
use tracing::field::Empty;

use super::Recorder;
use crate::base::request::REQUEST_ID;

/// Records one request.
pub(super) async fn record(
    State(recorder): State<Recorder>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let original = request.method().as_str();
    // Below a prefix, the router passes only the rest of the path.
    let uri = request.extensions().get::<OriginalUri>().map_or(request.uri(), |OriginalUri(uri)| uri);
    let route = request.extensions().get::<MatchedPath>().map(|route| template(route.as_str()));
    let facts = Facts::new(&request, uri, route);
    let secret = &recorder.config.get().redact_headers;
    let target = uri.path_and_query().map_or("", PathAndQuery::as_str);
    let target = redact::query(target, |name| is_secret_value(name, secret));
    let queried = target.split_once('?').map(|(_, query)| query);
    let span = tracing::info_span!(
        "request",
        otel.name = facts.span_name(),
        otel.kind = "server",
        http.method = facts.method,
        http.request.method = facts.method,
        http.request.method_original = (original != facts.method).then_some(original),
        http.route = facts.route,
        http.target = (!target.is_empty()).then_some(&*target),
        url.scheme = facts.scheme,
        url.path = uri.path(),
        server.address = facts.server_address,
        server.port = facts.server_port,
        network.protocol.version = facts.version,
        user_agent.original = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()),
        request.id = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()),
        http.request.headers = shown(request.headers(), secret),
        http.request.params = parameters.ok().map(|found| object(found.iter())),
        http.request.query = queried.map(|query| object(url::form_urlencoded::parse(query.as_bytes()))),
        http.response.status_code = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    );
    if let Some(Measured(is_measured)) = request.extensions().get() {
        is_measured.store(true, Ordering::Relaxed);
    }
    let exchange = recorder.http.begin(facts, request.headers(), span);
    let response = next.run(request).instrument(exchange.span().clone()).await;
    exchange.end(response.status());
    response
}

/// Whether a request reached [`record`].
#[derive(Debug, Clone, Default)]
struct Measured(Arc<AtomicBool>);

/// Measures a request that is refused before it reaches its route: it has no route, and records no span.
pub(super) async fn measure_refused(
    State(recorder): State<Recorder>,
    mut request: Request,
    next: Next,
) -> Response {
    let (began, measured) = (Instant::now(), Measured::default());
    let facts = Facts::new(&request, request.uri(), None);
    request.extensions_mut().insert(measured.clone());
    let response = next.run(request).await;
    let is_refused = response.status().is_client_error() || response.status().is_server_error();
    if is_refused && !measured.0.load(Ordering::Relaxed) {
        recorder.http.refused(&facts, response.status(), began.elapsed());
    }
    response
}

/// Returns the route under the name that tests of the server use: parameters of runs are named as in Tracetest's API.
fn template(route: &str) -> String {
    for (kind, id) in [("/api/tests/", "{testId}"), ("/api/testsuites/", "{testSuiteId}")] {
        if let Some((prefix, rest)) = route.split_once(&format!("{kind}{{id}}/run")) {
            return format!("{prefix}{kind}{id}/run{}", rest.replace("{number}", "{runId}"));
        }
    }
    route.to_owned()
}

/// Serializes names and values as a JSON object.
fn object(pairs: impl Iterator<Item = (impl Into<String>, impl Into<String>)>) -> String {
    let pairs = pairs.map(|(name, value)| (name.into(), value.into().into()));
    serde_json::Value::Object(pairs.collect()).to_string()
}

/// Whether the value of a query parameter is redacted, by its name.
fn is_secret_value(name: &str, headers: &[String]) -> bool {
    is_listed(name, headers) || redact::is_secret(name)
}

fn is_listed(name: &str, secret: &[String]) -> bool {
    secret.iter().any(|pattern| redact::matches(&pattern.to_ascii_lowercase(), name))
}

/// Serializes the headers as JSON with secrets redacted, also in the query of URLs among them.
fn shown(headers: &HeaderMap, secret: &[String]) -> String {
    object(headers.iter().map(|(name, value)| {
        let value = value.to_str().unwrap_or("");
        let is_secret = is_listed(name.as_str(), secret) || redact::is_bearer(value);
        let value = if is_secret { "***" } else { value };
        (name.as_str(), redact::query(value, |name| is_secret_value(name, secret)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn routes_of_runs_have_the_names_of_the_original() {
        for (route, shown) in [
            ("/api/tests/{id}", "/api/tests/{id}"),
            ("/api/tests/{id}/run", "/api/tests/{testId}/run"),
            ("/x/api/tests/{id}/run/{number}/stop", "/x/api/tests/{testId}/run/{runId}/stop"),
            ("/api/testsuites/{id}/run/{number}", "/api/testsuites/{testSuiteId}/run/{runId}"),
        ] {
            assert_eq!(template(route), shown);
        }
    }

    #[test]
    fn secret_headers_are_masked() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Basic abc".parse().unwrap());
        headers.insert("x-shop-api-key", "abc".parse().unwrap());
        headers.insert("accept", "*/*".parse().unwrap());
        assert_eq!(
            shown(&headers, &Config::default().redact_headers),
            r#"{"authorization":"***","x-shop-api-key":"***","accept":"*/*"}"#
        );
        assert_eq!(
            shown(&headers, &["Accept".to_owned()]),
            r#"{"authorization":"Basic abc","x-shop-api-key":"abc","accept":"***"}"#
        );
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("x-auth", "abc"), ("baggage", "user=abc"), ("my-bearer", "abc"), ("x", "Bearer abc")]
        {
            headers.insert(name, value.parse().unwrap());
        }
        assert_eq!(
            shown(&headers, &Config::default().redact_headers),
            r#"{"x-auth":"***","baggage":"***","my-bearer":"***","x":"***"}"#
        );
    }

    #[test]
    fn secrets_of_a_query_are_masked() {
        let secret = &Config::default().redact_headers;
        for (target, shown) in [
            ("/ws?token=abc", "/ws?token=***"),
            ("/api/tests?take=5&access_token=abc&query=x", "/api/tests?take=5&access_token=***&query=x"),
            (
                "/x?X-Amz-Signature=abc&api_key=a&apikey=b&Password=c&skip=1",
                "/x?X-Amz-Signature=***&api_key=***&apikey=***&Password=***&skip=1",
            ),
        ] {
            assert_eq!(redact::query(target, |name| is_secret_value(name, secret)), shown);
        }
        let mut headers = HeaderMap::new();
        headers.insert("referer", "http://x/?token=abc&a=1".parse().unwrap());
        assert_eq!(super::shown(&headers, secret), r#"{"referer":"http://x/?token=***&a=1"}"#);
    }
}
