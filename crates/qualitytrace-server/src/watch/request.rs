//! Requests to the API: a server span each, as the caller's child.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use qualitytrace_telemetry::{Context, SpanExt};
use tracing::Instrument;
use tracing::field::Empty;

use super::Watch;
use crate::api::door::REQUEST_ID;

/// Records one request.
pub(super) async fn record(State(watch): State<Watch>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
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
        http.response.status_code = Empty,
        otel.status_code = Empty,
    );
    if let Some(caller) = Context::from_headers(request.headers()) {
        span.continue_from(&caller);
    }
    let began = Instant::now();
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    watch.instruments.request(&method, &route, status.as_u16(), began.elapsed());
    response
}

/// The headers as JSON, without what is secret.
fn shown(headers: &HeaderMap, secret: &[String]) -> String {
    let is_secret = |name: &str| secret.iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name));
    let pairs = headers.iter().map(|(name, value)| {
        let value = if is_secret(name.as_str()) { "***" } else { value.to_str().unwrap_or("") };
        (name.to_string(), value.into())
    });
    serde_json::Value::Object(pairs.collect()).to_string()
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
