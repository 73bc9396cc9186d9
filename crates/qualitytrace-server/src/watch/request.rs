//! Requests to the API: a server span each, as the caller's child.

use std::time::Instant;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName};
use qualitytrace_telemetry::SpanExt;
use tracing::Instrument;
use tracing::field::Empty;

use super::Watch;

/// The name of a request, in its head and in that of the answer.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Records one request.
pub(super) async fn record(
    State(watch): State<Watch>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str);
    let route = template(route);
    let method = request.method().as_str().to_owned();
    let span = tracing::info_span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        http.method = method,
        http.request.method = method,
        http.route = route,
        http.target = %request.uri(),
        url.path = request.uri().path(),
        request.id = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()),
        http.request.headers = shown(request.headers(), &watch.config.get().redact_headers),
        http.request.params = parameters.ok().map(|found| object(found.iter())),
        http.request.query = request.uri().query().map(|query| object(url::form_urlencoded::parse(query.as_bytes()))),
        http.response.status_code = Empty,
        otel.status_code = Empty,
    );
    if let Some(caller) = watch.telemetry.propagators().extract(request.headers()) {
        span.continue_from(&caller);
    }
    let began = Instant::now();
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    span.in_scope(|| watch.instruments.request(&method, &route, status.as_u16(), began.elapsed()));
    response
}

/// The route as tests of the server know it: what belongs to a run is named as the original's description names it.
fn template(route: &str) -> String {
    for (kind, id) in [("/api/tests/", "{testId}"), ("/api/testsuites/", "{testSuiteId}")] {
        if let Some((prefix, rest)) = route.split_once(&format!("{kind}{{id}}/run")) {
            return format!("{prefix}{kind}{id}/run{}", rest.replace("{number}", "{runId}"));
        }
    }
    route.to_owned()
}

/// Names and values as JSON.
fn object(pairs: impl Iterator<Item = (impl Into<String>, impl Into<String>)>) -> String {
    let pairs = pairs.map(|(name, value)| (name.into(), value.into().into()));
    serde_json::Value::Object(pairs.collect()).to_string()
}

/// The headers as JSON, without what is secret.
fn shown(headers: &HeaderMap, secret: &[String]) -> String {
    let is_secret = |name: &str| secret.iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name));
    object(headers.iter().map(|(name, value)| {
        let value = if is_secret(name.as_str()) { "***" } else { value.to_str().unwrap_or("") };
        (name.as_str(), value)
    }))
}

/// Whether a name fits a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(head) else { return false };
    (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| matches(tail, rest))
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
        headers.insert("authorization", "Bearer abc".parse().unwrap());
        headers.insert("x-shop-api-key", "abc".parse().unwrap());
        headers.insert("accept", "*/*".parse().unwrap());
        assert_eq!(
            shown(&headers, &Config::default().redact_headers),
            r#"{"authorization":"***","x-shop-api-key":"***","accept":"*/*"}"#
        );
        assert_eq!(
            shown(&headers, &["Accept".to_owned()]),
            r#"{"authorization":"Bearer abc","x-shop-api-key":"abc","accept":"***"}"#
        );
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("cookie", "cookie", true),
            ("cookie", "cookies", false),
            ("*token*", "x-token", true),
            ("*token*", "token", true),
            ("x-*-key", "x-api-key", true),
            ("x-*-key", "x-key", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
